"""A streaming query of Spark as it runs, started again after a failure that passes by itself."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, field

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from watersmeet.errors import WatersmeetError
from watersmeet.spark.jobs.retries import Retries
from watersmeet.spark.session.failures import explain_failure
from watersmeet.spark.session.leftovers import end_leftovers


@dataclass(kw_only=True)
class RunningQuery(ABC):
    """A query that may be started several times; `setbacks` are the failures after which it was."""

    spark: SparkSession | None = None
    setbacks: list[WatersmeetError] = field(default_factory=list)
    _query: StreamingQuery | None = None
    _retries: Retries = field(default_factory=Retries)
    _again_at: float | None = None
    _stopped: threading.Event = field(default_factory=threading.Event)

    @property
    def _is_stopped(self) -> bool:
        return self._stopped.is_set()

    @abstractmethod
    def launch(self) -> StreamingQuery:
        """Starts the query, or resumes it from its checkpoint."""

    def start(self) -> None:
        """Starts, or resumes from the checkpoint; what fails for a passing reason is tried again."""
        if self.spark is not None and self._query is not None:
            end_leftovers(self.spark)
        while True:
            try:
                self._query = self.launch()
                break
            except Exception as error:
                explained = explain_failure(error)
                if (pause_s := self._retries.pause_s(explained)) is None:
                    if isinstance(error, PySparkException | Py4JError | OSError):
                        raise explained from error
                    raise  # a mistake of our own
                self.setbacks.append(explained)
                time.sleep(pause_s)
        if self._is_stopped:  # meanwhile, by another thread
            stop_query(self._query)

    def is_running(self) -> bool:
        """Whether it runs, or will again in a moment."""
        assert self._query is not None
        return bool(self._query.isActive) or self._starts_again()

    def is_settled(self) -> bool:
        """Whether its start is over: it has done a batch, waits for tuples, or has ended."""
        assert self._query is not None
        if not self._query.isActive or self._query.lastProgress is not None:
            return True
        return str(self._query.status["message"]).startswith("Waiting")

    def check(self) -> None:
        """Raises what made the query fail for good, in plain words."""
        if (failure := self.failure) is not None and not self._starts_again():
            raise failure

    @property
    def failure(self) -> WatersmeetError | None:
        """What has made the query fail, whether or not it is tried again."""
        failure = None if self._query is None else self._query.exception()
        return None if failure is None else explain_failure(failure)

    def stop(self) -> None:
        """Ends the query; a batch that was running is repeated on resume."""
        self._stopped.set()
        stop_query(self._query)

    def _starts_again(self) -> bool:
        """Whether the query has failed for a passing reason; starts it again when its time has come."""
        if self._is_stopped or (failure := self.failure) is None:
            return False
        if self._again_at is None:
            if (pause_s := self._retries.pause_s(failure)) is None:
                return False
            self.setbacks.append(failure)
            self._again_at = time.monotonic() + pause_s
        if time.monotonic() >= self._again_at:
            self._again_at = None
            self.prepare_again(failure)
            self.start()
        return True

    def prepare_again(self, failure: WatersmeetError) -> None:
        """Changes what has to be changed before a query that has failed so is started again."""
        return


def stop_query(query: StreamingQuery | None) -> None:
    """Stops a query if it was started; raises a failure to do so in plain words."""
    if query is not None:
        try:
            query.stop()
        except PySparkException as error:
            raise explain_failure(error) from None

"""One query of a pipeline as it runs: started, followed, ended, resumed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from watersmeet.errors import ConfigurationError
from watersmeet.plan.physical import PhysicalPlan
from watersmeet.query import Sink
from watersmeet.spark.checkpoint import Checkpoint
from watersmeet.spark.compile import Compiler
from watersmeet.spark.failures import explain_failure
from watersmeet.spark.progress import Progress, parse_progress
from watersmeet.spark.sinks import write_stream


@dataclass(frozen=True)
class RunOptions:
    """How to run: every `trigger_us`, or once over what is there, which with `flush` is all there will be."""

    trigger_us: int | None = None
    available_now: bool = False
    flush: bool = False

    def __post_init__(self) -> None:
        if self.flush and not self.available_now:
            raise ConfigurationError("--flush ends the input, so it goes with --available-now")


@dataclass
class Job:
    """A running query; with `flush` a second, short run lets out what waited for the watermark."""

    spark: SparkSession
    name: str
    plan: PhysicalPlan
    sources: Mapping[str, DataFrame]
    sink: Sink | None
    checkpoint: Checkpoint
    base: Path
    options: RunOptions
    files: Mapping[str, DataFrame] = field(default_factory=dict)
    progress: Progress | None = None
    _query: StreamingQuery | None = None
    _seen: set[tuple[str, int]] = field(default_factory=set)
    _untold: list[Progress] = field(default_factory=list)
    _ending: bool = False

    def start(self) -> None:
        """Starts, or resumes from the checkpoint; an end of the input that was cut short is finished."""
        if not self._ending and self.checkpoint.is_ending():
            self._end_input()
        control = self.checkpoint.control()
        place = self.checkpoint.folder
        answers = Compiler(self.spark, self.plan, self.sources, control, self.files, place).answers()
        self._query = write_stream(
            answers,
            self.sink,
            name=self.name,
            checkpoint=self.checkpoint.spark_folder,
            trigger_us=self.options.trigger_us,
            available_now=self.options.available_now or self._ending,
            base=self.base,
        )

    @property
    def reports(self) -> list[dict[str, Any]]:
        """Spark's own reports of the latest batches of the present run."""
        assert self._query is not None
        return [json.loads(report.json) for report in self._query.recentProgress]

    def poll(self) -> list[Progress]:
        """The batches finished since the last call; raises what made the query fail, in plain words."""
        assert self._query is not None
        self._read_reports()
        fresh, self._untold = self._untold, []
        if (failure := self._query.exception()) is not None:
            raise explain_failure(failure)
        return fresh

    def is_running(self) -> bool:
        """Whether there is more to come; starts the second run of a flush when the first has ended."""
        assert self._query is not None
        if self._query.isActive:
            return True
        if self._query.exception() is not None:
            return False
        if self._ending:
            self.checkpoint.mark_ended()
            return False
        if not self.options.flush:
            return False
        self._read_reports()
        self._end_input()
        self.start()
        return True

    def _end_input(self) -> None:
        """Ends the input by a new row, which makes a batch even where the end has been told before."""
        self._ending = True
        self.checkpoint.end_input()

    def _read_reports(self) -> None:
        streams = {item.alias: item.stream.name for item in self.plan.query.inputs}
        for record in self.reports:
            key = (record["runId"], record["batchId"])
            if key not in self._seen and record.get("observedMetrics"):
                self._seen.add(key)
                self.progress = parse_progress(record, streams, self.progress)
                self._untold.append(self.progress)

    def stop(self) -> None:
        """Ends the query; a batch under way is done again on resume."""
        stop_query(self._query)


def stop_query(query: StreamingQuery | None) -> None:
    """Stops a query if it was started; what goes wrong is put in plain words."""
    if query is not None:
        try:
            query.stop()
        except PySparkException as error:
            raise explain_failure(error) from None

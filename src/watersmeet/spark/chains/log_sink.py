"""The writer of a log of answers: a sink that publishes each batch once, with the query's progress.

The mark of a batch is the query's watermark at its end, less the time by which an answer may come out after
its own time (`delay_us`): an answer of a later batch has a tuple of a later batch, which is not before the
watermark, and is not earlier than any of its tuples. Where answers wait for the watermark, those that have
not come out are not before it either. Decision 043 has the whole argument.
"""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import DataFrame, SparkSession

from watersmeet.errors import DataError
from watersmeet.query import BEGINNING, NEVER
from watersmeet.spark.chains.answer_log import NOTHING, AnswerLog, LoggedBatch
from watersmeet.spark.metrics.metrics import METRICS, WATERMARK
from watersmeet.spark.metrics.progress import OBSERVATION
from watersmeet.spark.session.failures import RESUME
from watersmeet.spark.sinks.empty_files import remove_empty
from watersmeet.spark.sinks.file_commit import refuse_put_back
from watersmeet.spark.sinks.files import SPARED
from watersmeet.spark.sinks.target import Batch
from watersmeet.spark.storage.paths import spark_path


@dataclass(frozen=True, kw_only=True)
class AnswerLogSink:
    """The log that one query writes; `readers` are the names of those that read it."""

    spark: SparkSession
    log: AnswerLog
    delay_us: int
    readers: tuple[str, ...]

    def check(self, columns: list[str]) -> None:
        """Makes the log, before any reader looks for it."""
        try:
            self.log.open()
        except OSError as error:
            raise self._unwritable(error) from None

    def write(self, batch: Batch) -> None:
        """Publishes a batch unless it is there, and removes what all readers have done with."""
        try:
            if not self._has(batch):
                rows = batch.answers(batch.queries)
                if rows is not None:
                    self._publish(batch, rows)
            self.log.sweep(self.readers)
        except OSError as error:
            raise self._unwritable(error) from error

    def _has(self, batch: Batch) -> bool:
        """Whether the batch is in the log; refuses one that is not what the log has of this number."""
        known, newest = self.log.batch(batch.number), self.log.newest()
        if known is not None and "" not in (known.plan, batch.plan) and known.plan != batch.plan:
            raise refuse_put_back(batch.number, f"{self.log.root} holds another batch {batch.number}")
        if known is None and newest is not None and newest.number > batch.number:
            raise refuse_put_back(batch.number, f"{self.log.root} holds batch {newest.number}")
        return known is not None

    def _publish(self, batch: Batch, rows: DataFrame) -> None:
        self.log.forget_tries(batch.number)
        folder = f"data/{batch.number}-{secrets.token_hex(4)}"
        rows.write.format("parquet").options(**SPARED).save(spark_path(f"{self.log.root}/{folder}"))
        remove_empty(self.log.tree, folder, "parquet")
        sizes, newest = self.log.sizes(folder), self.log.newest()
        mark = max(BEGINNING if newest is None else newest.mark, self._mark(rows))
        if not sizes and newest is not None and newest.mark == mark:
            self.log.remove(folder)  # there is nothing to say
            return
        logged = LoggedBatch(
            number=batch.number,
            previous=NOTHING if newest is None else newest.number,
            mark=mark,
            plan=batch.plan,
            folder=folder,
            files=tuple(sizes),
            nbytes=sum(sizes.values()),
        )
        if not self.log.commit(logged):
            raise DataError(
                f"batch {batch.number} of {self.log.root} has been written by another run of the same "
                "checkpoint meanwhile: nothing is published twice. Let one run use a checkpoint at a time, "
                "then resume"
            )

    def _mark(self, rows: DataFrame) -> int:
        """No answer of a later batch has an earlier answer_time; the beginning where nothing is known."""
        query = rows.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
        watermark = observed_watermark(self.spark, query or "")
        return mark_of(watermark, self.delay_us)

    def _unwritable(self, error: OSError) -> DataError:
        return DataError(f"the answers in {self.log.root} cannot be kept: {error}. Look at it, {RESUME}")


def mark_of(watermark: int | None, delay_us: int) -> int:
    """The mark of a batch that ends with a watermark.

    >>> mark_of(100, 30), mark_of(NEVER, 30) == NEVER
    (70, True)
    """
    if watermark is None or watermark == NEVER:
        return BEGINNING if watermark is None else NEVER
    return max(BEGINNING, watermark - delay_us)


def observed_watermark(spark: SparkSession, query: str) -> int | None:
    """The watermark of a query at the end of the batch that it is at; None if no bucket had a part in it.

    Buckets report it with their metrics, which Spark shows only after the batch. It knows them as soon as
    their tasks have ended, though, and so does this: by what a running query shows no public interface of.
    """
    try:
        running: Any = spark.streams.get(query)
        observed = running._jsq.streamingQuery().lastExecution().observedMetrics()
        if not observed.contains(OBSERVATION):
            return None
        metrics = json.loads(observed.apply(OBSERVATION).json()).get(METRICS)
    except (Py4JError, AttributeError, TypeError) as error:
        raise DataError(
            f"Spark does not say how far a running query has come ({error}): a stream of answers needs "
            "the version of Spark that Watersmeet is made for"
        ) from error
    return None if metrics is None else int(metrics[WATERMARK.name])

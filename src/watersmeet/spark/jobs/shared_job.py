"""A shared dataflow as it runs: one streaming query for many queries, started, followed, stopped, resumed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery

from watersmeet.query import Pipeline, Query, Sink
from watersmeet.query.shared_dataflow import SharedDataflow
from watersmeet.spark.jobs.job import RunOptions
from watersmeet.spark.jobs.poll import PolledQuery
from watersmeet.spark.multiquery.answer_stream import stream_answers
from watersmeet.spark.multiquery.answers import ANSWER, JSON_SCHEMA, AnswerDecoder
from watersmeet.spark.multiquery.sinks import NAME, check_sink, takes_json, without_own_options
from watersmeet.spark.session.connectors import hide_options, refusals_named
from watersmeet.spark.session.environment import keep_renames_safe
from watersmeet.spark.sinks.answer_ids import Origin
from watersmeet.spark.sinks.formats import format_of
from watersmeet.spark.sinks.target import Batch, BatchSink, Target
from watersmeet.spark.sinks.write_stream import CONSOLE, spark_interval
from watersmeet.spark.sources.read_sources import Sources
from watersmeet.spark.storage.paths import spark_path

_NUMBER = "_number"
TAILED = 10_000  # answers of a batch, at most, that readers of tails get

OnAnswers = Callable[[int, Mapping[str, list[str]]], None]


@dataclass(kw_only=True)
class SharedJob(PolledQuery):
    """A running dataflow. `folder` holds its checkpoint; `queries` are those of the dataflow, by number.

    `tailed` names the queries whose answers are to go to `on_answers` as well, as JSON texts.
    """

    spark: SparkSession
    dataflow: SharedDataflow
    queries: Mapping[int, Query]
    pipeline: Pipeline
    sources: Sources
    folder: str
    base: Path
    dataflow_id: str
    partitions: int
    options: RunOptions = field(default_factory=RunOptions)
    on_answers: OnAnswers | None = None
    tailed: Callable[[], Iterable[str]] = tuple
    name: str = "shared dataflow"

    def launch(self) -> StreamingQuery:
        """Starts, or resumes from the checkpoint."""
        filled = self._sinks()
        answers = stream_answers(
            self.spark,
            self.dataflow,
            queries=self.queries,
            streams=self.pipeline.streams,
            sources=self.sources,
            partitions=self.partitions,
        )
        fill = _Fill(
            answers=answers.decoder,
            sinks=filled,
            dataflow_id=self.dataflow_id,
            buckets=self.partitions,
            on_answers=self.on_answers,
            tailed=self.tailed,
        )
        keep_renames_safe(self.spark, self.folder)
        writer = (
            answers.blobs.writeStream.foreachBatch(fill)
            .option("checkpointLocation", spark_path(f"{self.folder}/spark"))
            .queryName(self.name)
            .outputMode("append")
        )
        if self.options.available_now:
            writer = writer.trigger(availableNow=True)
        elif self.options.trigger_us is not None:
            writer = writer.trigger(processingTime=spark_interval(self.options.trigger_us))
        return writer.start()

    def _sinks(self) -> list[_Filled]:
        """Each sink that some query fills, and the numbers of those."""
        numbers: dict[str, set[int]] = {}
        for number, query in self.queries.items():
            numbers.setdefault(query.sink or "", set()).add(number)
        return [self._filled(name, frozenset(members)) for name, members in sorted(numbers.items())]

    def _filled(self, name: str, numbers: frozenset[int]) -> _Filled:
        sink = self.pipeline.sink(name) if name else CONSOLE
        assert sink is not None
        check_sink(sink)
        target = Target(
            spark=self.spark,
            sink=without_own_options(sink),
            base=self.base,
            checkpoint=f"{self.folder}/spark",
            name=sink.name,
            part=sink.name,
        )
        hide_options(self.spark, sink.connector)
        opened = format_of(sink.connector)
        assert opened is not None, "the check refuses others"
        with refusals_named(target.what, sink.connector):
            batches = opened(target)
            batches.check(self._columns(sink, numbers))
        return _Filled(sink, batches, numbers)

    def _columns(self, sink: Sink, numbers: frozenset[int]) -> list[str]:
        """The columns of a sink's rows, which all of its queries agree on."""
        if takes_json(sink):
            return JSON_SCHEMA.names
        return [NAME, *(output.name for output in self.queries[min(numbers)].select)]


def some_of_each(rows: DataFrame, count: int) -> DataFrame:
    """The answers of each query, at most so many of one, so that one with many leaves room for the others."""
    number = F.row_number().over(Window.partitionBy(NAME).orderBy(F.lit(1)))
    return rows.withColumn(_NUMBER, number).where(F.col(_NUMBER) <= count).drop(_NUMBER)


@dataclass(frozen=True)
class _Filled:
    """A sink, and the numbers of the queries that fill it."""

    sink: Sink
    batches: BatchSink
    numbers: frozenset[int]


@dataclass(frozen=True, kw_only=True)
class _Fill:
    """Fills all sinks from a batch; called by `foreachBatch`."""

    answers: AnswerDecoder
    sinks: list[_Filled]
    dataflow_id: str
    buckets: int
    on_answers: OnAnswers | None
    tailed: Callable[[], Iterable[str]]

    def __call__(self, blobs: DataFrame, batch: int) -> None:
        blobs.persist()
        try:
            found = {row["source"] for row in blobs.select("source").collect()}
            if not found:
                return
            for filled in self.sinks:
                with refusals_named(f"sink {filled.sink.name}", filled.sink.connector):
                    filled.batches.write(self._batch(blobs, found, batch, filled))
            self._show(blobs, found, batch)
        finally:
            blobs.unpersist()

    def _batch(self, blobs: DataFrame, found: set[str], batch: int, filled: _Filled) -> Batch:
        def rows(due: frozenset[str]) -> DataFrame | None:
            numbers = frozenset(map(int, due))
            return self.answers.rows(blobs, found, numbers, as_json=takes_json(filled.sink))

        return Batch(
            number=batch,
            origin=Origin(self.dataflow_id, batch, self.buckets),
            queries=frozenset(map(str, filled.numbers)),
            answers=rows,
        )

    def _show(self, blobs: DataFrame, found: set[str], batch: int) -> None:
        wanted = set(self.tailed()) if self.on_answers is not None else set()
        if self.on_answers is None or not wanted:
            return
        tails = self.answers.dataflow.tails
        numbers = frozenset(tail.number for tail in tails if tail.query in wanted)
        rows = self.answers.rows(blobs, found, numbers, as_json=True)
        texts: dict[str, list[str]] = {}
        if rows is not None:
            for row in some_of_each(rows, max(1, TAILED // len(wanted))).collect():
                texts.setdefault(row[NAME], []).append(row[ANSWER])
        self.on_answers(batch, texts)

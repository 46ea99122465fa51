"""A shared dataflow as it runs: one streaming query for many queries, started, followed, stopped, resumed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery

from watersmeet.query import Pipeline, Query, Sink
from watersmeet.query.shared_dataflow import SharedDataflow
from watersmeet.spark.jobs.job import RunOptions
from watersmeet.spark.jobs.poll import PolledQuery
from watersmeet.spark.multiquery.answer_stream import stream_answers
from watersmeet.spark.multiquery.answers import ANSWER, AnswerDecoder
from watersmeet.spark.multiquery.sinks import NAME, check_sink, takes_json, write_batch
from watersmeet.spark.sinks.write_stream import CONSOLE, spark_interval
from watersmeet.spark.sources.read_sources import Sources

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
        sinks = self._sinks()
        for sink, _ in sinks:
            check_sink(sink)
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
            sinks=sinks,
            base=self.base,
            dataflow_id=self.dataflow_id,
            on_answers=self.on_answers,
            tailed=self.tailed,
        )
        writer = (
            answers.blobs.writeStream.foreachBatch(fill)
            .option("checkpointLocation", f"{self.folder}/spark")
            .queryName(self.name)
            .outputMode("append")
        )
        if self.options.available_now:
            writer = writer.trigger(availableNow=True)
        elif self.options.trigger_us is not None:
            writer = writer.trigger(processingTime=spark_interval(self.options.trigger_us))
        return writer.start()

    def _sinks(self) -> list[tuple[Sink, frozenset[int]]]:
        """Each sink that some query fills, and the numbers of those."""
        numbers: dict[str, set[int]] = {}
        for number, query in self.queries.items():
            numbers.setdefault(query.sink or "", set()).add(number)
        found = []
        for name, members in sorted(numbers.items()):
            sink = self.pipeline.sink(name) if name else CONSOLE
            assert sink is not None
            found.append((sink, frozenset(members)))
        return found


@dataclass(frozen=True, kw_only=True)
class _Fill:
    """Fills all sinks from a batch; called by `foreachBatch`."""

    answers: AnswerDecoder
    sinks: list[tuple[Sink, frozenset[int]]]
    base: Path
    dataflow_id: str
    on_answers: OnAnswers | None
    tailed: Callable[[], Iterable[str]]

    def __call__(self, blobs: DataFrame, batch: int) -> None:
        blobs.persist()
        try:
            found = {row["source"] for row in blobs.select("source").collect()}
            if not found:
                return
            for sink, numbers in self.sinks:
                rows = self.answers.rows(blobs, found, numbers, as_json=takes_json(sink))
                if rows is not None:
                    write_batch(rows, sink, batch, self.base, self.dataflow_id)
            self._show(blobs, found, batch)
        finally:
            blobs.unpersist()

    def _show(self, blobs: DataFrame, found: set[str], batch: int) -> None:
        wanted = set(self.tailed()) if self.on_answers is not None else set()
        if self.on_answers is None or not wanted:
            return
        tails = self.answers.dataflow.tails
        numbers = frozenset(tail.number for tail in tails if tail.query in wanted)
        rows = self.answers.rows(blobs, found, numbers, as_json=True)
        texts: dict[str, list[str]] = {}
        if rows is not None:
            for row in rows.orderBy(F.col(NAME)).limit(TAILED).collect():
                texts.setdefault(row[NAME], []).append(row[ANSWER])
        self.on_answers(batch, texts)

"""A ring as it runs: one streaming query for all of its queries, started, followed, stopped, resumed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery

from watersmeet.query import Pipeline, Query, Sink
from watersmeet.query.shared_dataflow import SharedDataflow
from watersmeet.spark.jobs.job import RunOptions, stop_query
from watersmeet.spark.metrics.batch_reports import BatchReports, all_reports
from watersmeet.spark.metrics.progress import Progress, parse_progress
from watersmeet.spark.multiquery.answers import ANSWER, SharedAnswers, column_types
from watersmeet.spark.multiquery.compile import SharedCompiler, dataflow_fingerprint
from watersmeet.spark.multiquery.levels import dataflow_inputs, plan_levels
from watersmeet.spark.multiquery.ship import ship_dataflow
from watersmeet.spark.multiquery.sinks import NAME, check_sink, takes_json, write_batch
from watersmeet.spark.session.failures import explain_failure
from watersmeet.spark.sinks.write_stream import CONSOLE, spark_interval

TAILED = 10_000  # answers of a batch, at most, for who looks on

OnAnswers = Callable[[int, Mapping[str, list[str]]], None]


@dataclass
class SharedJob:
    """A running ring. `folder` holds its checkpoint; `queries` are those of `ring`, by number.

    `tailed` names the queries whose answers `on_answers` is to be given as well, as JSON texts.
    """

    spark: SparkSession
    dataflow: SharedDataflow
    queries: Mapping[int, Query]
    pipeline: Pipeline
    sources: Mapping[str, DataFrame]
    files: Mapping[str, DataFrame]
    folder: str
    base: Path
    dataflow_id: str
    partitions: int
    options: RunOptions = field(default_factory=RunOptions)
    on_answers: OnAnswers | None = None
    tailed: Callable[[], Iterable[str]] = tuple
    name: str = "ring"
    progress: Progress | None = None
    _query: StreamingQuery | None = None
    _reports: BatchReports = field(default_factory=BatchReports)

    def start(self) -> None:
        """Starts, or resumes from the checkpoint."""
        streams = self.pipeline.streams
        ship = ship_dataflow(self.spark, self.dataflow)
        tasks = plan_levels(
            self.dataflow,
            ship,
            dataflow_inputs(self.dataflow, streams),
            partitions=self.partitions,
            fingerprint=dataflow_fingerprint(self.dataflow, streams, self.partitions),
            direct=self.files.keys(),
        )
        compiler = SharedCompiler(tasks, self.sources, self.files)
        answers = SharedAnswers(ship, self.queries, column_types(streams, self.sources))
        sinks = self._sinks()
        for sink, _ in sinks:
            check_sink(sink)
        fill = _Fill(answers, sinks, self.base, self.dataflow_id, self.on_answers, self.tailed)
        writer = (
            compiler.answers()
            .writeStream.foreachBatch(fill)
            .option("checkpointLocation", f"{self.folder}/spark")
            .queryName(self.name)
            .outputMode("append")
        )
        if self.options.available_now:
            writer = writer.trigger(availableNow=True)
        elif self.options.trigger_us is not None:
            writer = writer.trigger(processingTime=spark_interval(self.options.trigger_us))
        self._query = writer.start()

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

    @property
    def reports(self) -> list[dict[str, Any]]:
        """Spark's own reports of the latest batches of the present run."""
        assert self._query is not None
        return all_reports(self._query)

    def poll(self) -> list[Progress]:
        """The batches finished since the last call; raises what made the ring fail, in plain words."""
        assert self._query is not None
        fresh = []
        for report in self._reports.fresh(self._query):
            self.progress = parse_progress(report, None, self.progress)
            fresh.append(self.progress)
        if (failure := self._query.exception()) is not None:
            raise explain_failure(failure)
        return fresh

    def is_running(self) -> bool:
        assert self._query is not None
        return bool(self._query.isActive)

    def stop(self) -> None:
        """Ends the streaming query; a batch under way is done again on resume."""
        stop_query(self._query)


@dataclass(frozen=True)
class _Fill:
    """Fills all sinks from a batch; called by `foreachBatch`."""

    answers: SharedAnswers
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
        endings = self.answers.dataflow.endings
        numbers = frozenset(ending.number for ending in endings if ending.query in wanted)
        rows = self.answers.rows(blobs, found, numbers, as_json=True)
        texts: dict[str, list[str]] = {}
        if rows is not None:
            for row in rows.orderBy(F.col(NAME)).limit(TAILED).collect():
                texts.setdefault(row[NAME], []).append(row[ANSWER])
        self.on_answers(batch, texts)

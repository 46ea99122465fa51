"""A shared dataflow as it runs: one streaming query for many queries, started, followed, stopped, resumed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from watersmeet.errors import DataError
from watersmeet.query import NEVER, Pipeline, Query, Sink
from watersmeet.query.shared_dataflow import SharedDataflow
from watersmeet.spark.jobs.job import RunOptions
from watersmeet.spark.jobs.poll import PolledQuery
from watersmeet.spark.metrics.batch_reports import Report
from watersmeet.spark.metrics.progress import Progress
from watersmeet.spark.multiquery.answer_stream import stream_answers
from watersmeet.spark.multiquery.answers import JSON_SCHEMA, AnswerDecoder
from watersmeet.spark.multiquery.culprits import Blame, Numbers
from watersmeet.spark.multiquery.fill import Fill, Filled, OnAnswers, Trial
from watersmeet.spark.multiquery.sinks import NAME, check_sink, takes_json, without_own_options
from watersmeet.spark.session.connectors import hide_options, refusals_named
from watersmeet.spark.session.environment import keep_renames_safe
from watersmeet.spark.sinks.batch_plans import BatchPlans
from watersmeet.spark.sinks.formats import format_of
from watersmeet.spark.sinks.target import Target
from watersmeet.spark.sinks.write_stream import CONSOLE, spark_interval
from watersmeet.spark.storage.paths import spark_path


@dataclass(kw_only=True)
class SharedJob(PolledQuery):
    """A running dataflow. `folder` holds its checkpoint; `queries` are those of the dataflow, by number.

    `tailed` names the queries whose answers are to go to `on_answers` as well, as JSON texts. `silent` are
    the batches [since, until) in which a query is not to answer. With a `trial` the batch under way is
    computed, and no sink gets anything of it. `blamed` are the queries that have made it fail.
    """

    spark: SparkSession
    dataflow: SharedDataflow
    queries: Mapping[int, Query]
    pipeline: Pipeline
    folder: str
    base: Path
    dataflow_id: str
    partitions: int
    options: RunOptions = field(default_factory=RunOptions)
    on_answers: OnAnswers | None = None
    tailed: Callable[[], Iterable[str]] = tuple
    silent: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    trial: Trial | None = None
    blamed: dict[int, Blame] = field(default_factory=dict)
    name: str = "shared dataflow"

    def launch(self) -> StreamingQuery:
        """Starts, or resumes from the checkpoint."""
        filled = self._sinks() if self.trial is None else []
        answers = stream_answers(
            self.spark,
            self.dataflow,
            queries=self.queries,
            streams=self.pipeline.streams,
            sources=self.sources,
            partitions=self.partitions,
            checkpoint=self.folder,
            limit=self.options.limit,
        )
        keep_renames_safe(self.spark, self.folder)
        writer = (
            answers.blobs.writeStream.foreachBatch(self.trial or self._fill(answers.decoder, filled))
            .option("checkpointLocation", spark_path(f"{self.folder}/spark"))
            .queryName(self.name)
            .outputMode("append")
        )
        if self.options.available_now:
            writer = writer.trigger(availableNow=True)
        elif self.options.trigger_us is not None:
            writer = writer.trigger(processingTime=spark_interval(self.options.trigger_us))
        names = [stream.name for stream in self.pipeline.streams]
        inputs = [(name, name) for name in names]
        return self._start_pacing(writer.start(), inputs, names, ends=self.options.available_now)

    def poll(self) -> list[Progress]:
        """The batches finished since the last call; raises what made the query fail, in plain words."""
        fresh = super().poll()
        self._mind_limit(self.options.limit, fresh)
        return fresh

    def _parse(self, report: Report) -> Progress:
        limit = self.options.limit.nbytes if self.options.limit else None
        return replace(super()._parse(report), state_limit=limit)

    def _starts_again(self) -> bool:
        """Not where queries are to blame: they may have failed with the words of what passes by itself."""
        return not self.blamed and super()._starts_again()

    def _fill(self, answers: AnswerDecoder, filled: list[Filled]) -> Fill:
        """What Spark calls with each batch. It does not know this job.

        Spark's query holds on to it, and the job to Spark's query: neither Java nor Python would see that
        nobody needs the two any more, and all that the query has used would stay.
        """
        return Fill(
            answers=answers,
            plans=BatchPlans(self.spark, f"{self.folder}/spark"),
            sinks=filled,
            writer=self.dataflow_id,
            buckets=self.partitions,
            on_answers=self.on_answers,
            tailed=self.tailed,
            silent=self.silent,
            blamed=self.blamed,
            is_stopped=self._stopped.is_set,
        )

    def _sinks(self) -> list[Filled]:
        """Each sink that some query fills, and the numbers of those; one that does not open is to blame."""
        numbers: dict[str, set[int]] = {}
        for number, query in self.queries.items():
            if number not in self.silent or self.silent[number][1] != NEVER:
                numbers.setdefault(query.sink or "", set()).add(number)
        found, failures = [], []
        for name, members in sorted(numbers.items()):
            try:
                found.append(self._filled(name, frozenset(members)))
            except DataError as error:
                failures.append(error)
                self.blamed |= dict.fromkeys(members, Blame(str(error), is_sink=True))
        if failures:
            raise failures[0]
        return found

    def _filled(self, name: str, numbers: Numbers) -> Filled:
        sink = self.pipeline.sink(name) if name else CONSOLE
        assert sink is not None
        return open_filled(self.spark, sink, self.base, self.folder, self.queries[min(numbers)], numbers)


def open_filled(
    spark: SparkSession, sink: Sink, base: Path, folder: str, query: Query, numbers: Numbers
) -> Filled:
    """A sink of the dataflow with its checkpoint in a folder, for queries with the columns of `query`."""
    check_sink(sink)
    target = Target(
        spark=spark,
        sink=without_own_options(sink),
        base=base,
        checkpoint=f"{folder}/spark",
        name=sink.name,
        part=sink.name,
    )
    hide_options(spark, sink.connector)
    opened = format_of(sink.connector)
    assert opened is not None, "the check refuses others"
    columns = JSON_SCHEMA.names if takes_json(sink) else [NAME, *(output.name for output in query.select)]
    with refusals_named(target.what, sink.connector):
        batches = opened(target)
        batches.check(columns)
    return Filled(sink, batches, numbers)

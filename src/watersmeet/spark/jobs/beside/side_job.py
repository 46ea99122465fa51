"""A query that runs beside a shared dataflow: a streaming query of its own that fills the dataflow's sinks.

It begins where the dataflow is when it is submitted (`begin_at.py`), and writes as the dataflow does: with
the query's name beside each answer, and to whoever follows it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import ClassVar

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from watersmeet.errors import ConfigurationError
from watersmeet.query import Stream
from watersmeet.spark.jobs.batch_log import committed_batch, newest_batch
from watersmeet.spark.jobs.beside.begin_at import begin_at, read_taken
from watersmeet.spark.jobs.job import Job
from watersmeet.spark.jobs.shared_job import open_filled
from watersmeet.spark.multiquery.culprits import Blame
from watersmeet.spark.multiquery.fill import Fill, OnAnswers
from watersmeet.spark.multiquery.own_answers import OwnAnswers
from watersmeet.spark.session.environment import keep_renames_safe
from watersmeet.spark.sinks.batch_plans import BatchPlans
from watersmeet.spark.sinks.repeatable import UNREPEATABLE, is_repeatable
from watersmeet.spark.sinks.write_stream import CONSOLE, spark_interval
from watersmeet.spark.storage.folder import Folder
from watersmeet.spark.storage.paths import spark_path


@dataclass(frozen=True)
class Dataflow:
    """The shared dataflow that a query runs beside: its id, its streams in order, and its checkpoint."""

    id: str
    streams: tuple[Stream, ...]
    folder: str


@dataclass(kw_only=True)
class SideJob(Job):
    """A running query beside a dataflow; it sees what batches of the dataflow from `since` on take."""

    keeps_time: ClassVar[bool] = True
    number: int
    since: int
    dataflow: Dataflow
    on_answers: OnAnswers | None = None
    tailed: Callable[[], Iterable[str]] = tuple
    blamed: dict[int, Blame] = field(default_factory=dict)

    def prepare(self) -> None:
        """Fixes where it begins, if it has never run; to be called before the dataflow forgets its batch."""
        if self.since > 0 and self.newest() < 0:
            old = Folder(self.spark, self.dataflow.folder)
            taken = read_taken(old, self.since - 1, [stream.name for stream in self.dataflow.streams])
            read = [each.stream for each in self.plan.query.readings]
            begin_at(self._files, old, taken, [*read, None])  # the control stream comes last

    def newest(self) -> int:
        """The newest batch of its own that it has begun, -1 if there is none."""
        return newest_batch(self._files)

    def launch(self) -> StreamingQuery:
        """Starts, or resumes; a batch 0 that was prepared is done first, and nothing is read for it."""
        if self.since > 0 and committed_batch(self._files) < 0:
            self.prepare()
            self._take_nothing()
        return super().launch()

    def write(self, answers: DataFrame, *, is_finite: bool) -> StreamingQuery:
        writer = self._writer(answers)
        if is_finite:
            writer = writer.trigger(availableNow=True)
        elif self.options.trigger_us is not None:
            writer = writer.trigger(processingTime=spark_interval(self.options.trigger_us))
        return writer.start()

    def _take_nothing(self) -> None:
        """Does the batch that was prepared, as Spark's state begins with a batch."""
        tuples = {n: f.where("false") if f.isStreaming else f for n, f in self.sources.tuples.items()}
        files = {
            name: replace(each, names=each.names.where("false")) for name, each in self.sources.files.items()
        }
        answers = self.answers(replace(self.sources, tuples=tuples, files=files))
        # All other triggers go on with the batch after it.
        self._writer(answers).trigger(once=True).start().awaitTermination()

    def _writer(self, answers: DataFrame) -> DataStreamWriter:
        if self.sink is not None and not is_repeatable(answers):
            raise ConfigurationError(f"query {self.name} into sink {self.sink.name}: {UNREPEATABLE}")
        query, numbers = self.plan.query, frozenset({self.number})
        folder = self.checkpoint.spark_folder
        keep_renames_safe(self.spark, folder)
        sink = self.sink or CONSOLE
        filled = open_filled(self.spark, sink, self.base, self.dataflow.folder, query, numbers)
        # It must not know this job, as `SharedJob._fill` explains.
        fill = Fill(
            answers=OwnAnswers(self.name, self.number, tuple(output.name for output in query.select)),
            plans=BatchPlans(self.spark, folder),
            sinks=[filled],
            writer=f"{self.dataflow.id}q{self.number}",
            buckets=None,
            on_answers=self.on_answers,
            tailed=self.tailed,
            blamed=self.blamed,
            is_stopped=self._stopped.is_set,
        )
        return (
            answers.writeStream.foreachBatch(fill)
            .option("checkpointLocation", spark_path(folder))
            .queryName(self.name)
            .outputMode("append")
        )

    def _starts_again(self) -> bool:
        """Not where the query itself is to blame, whatever it fails with."""
        return not self.blamed and super()._starts_again()

    @property
    def _files(self) -> Folder:
        return Folder(self.spark, self.checkpoint.folder)

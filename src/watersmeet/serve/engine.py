"""What runs a ring: Spark, through the session."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from watersmeet.query import Column, Query
from watersmeet.query.shared_dataflow import QueryTail
from watersmeet.serve.registry.changes import Standing
from watersmeet.serve.registry.record import RegistryRecord
from watersmeet.serve.registry.sink_fit import bare_columns
from watersmeet.serve.registry.tails import Tails
from watersmeet.session import Session
from watersmeet.spark.jobs.batch_log import committed_batch, newest_batch
from watersmeet.spark.jobs.dead_letters import DeadLetters, plan_dead_letters
from watersmeet.spark.jobs.job import RunOptions
from watersmeet.spark.jobs.shared_job import SharedJob
from watersmeet.spark.metrics.progress import Progress
from watersmeet.spark.multiquery.check import SparkCheck
from watersmeet.spark.session.environment import PARTITIONS, spark_process
from watersmeet.spark.sources.read_sources import Sources, read_sources
from watersmeet.spark.storage.folder import Folder


@dataclass(frozen=True)
class SparkEngine:
    """Runs the rings of one record in a session."""

    session: Session
    record: RegistryRecord
    tails: Tails
    options: RunOptions
    letters: list[DeadLetters] = field(default_factory=list)

    @property
    def process(self) -> int | None:
        return spark_process(self.session.spark)

    def job(self, standing: Standing, before: Progress | None) -> SharedJob:
        """The streaming query of a ring as it stands."""
        record = self.record
        sources = self._sources
        # The state is cut by the partitions of the first start, whatever the session has now.
        self.session.spark.conf.set(PARTITIONS, str(record.partitions))
        return SharedJob(
            self.session.spark,
            standing.dataflow,
            standing.bound,
            record.pipeline,
            sources.tuples,
            sources.files,
            record.checkpoint,
            self._base,
            record.id,
            record.partitions,
            self.options,
            on_answers=self.tails.append,
            tailed=self.tails.wanted,
            progress=before,
        )

    @contextmanager
    def dead_letters(self) -> Iterator[None]:
        """While open, malformed messages go where the pipeline wants them, whatever the queries are."""
        record = self.record
        planned = plan_dead_letters(
            self.session.spark, record.pipeline, record.checkpoint, self._base, self.options
        )
        try:
            for letters in planned:
                letters.start()
                self.letters.append(letters)
            yield
        finally:
            for letters in self.letters:
                letters.stop()

    def look_after(self) -> None:
        for letters in self.letters:
            letters.poll()

    def newest(self) -> int:
        return newest_batch(self._checkpoint)

    def committed(self) -> int:
        return committed_batch(self._checkpoint)

    @property
    def _checkpoint(self) -> Folder:
        return Folder(self.session.spark, self.record.checkpoint)

    @property
    def _base(self) -> Path:
        return Path(self.record.file).parent

    @cached_property
    def _sources(self) -> Sources:
        return read_sources(self.session.spark, self.record.pipeline.streams, self._base)


@dataclass(frozen=True)
class AnswerCheck:
    """Tells the columns of a query's answers, asking Spark only where the query leaves something to it."""

    spark: SparkCheck

    def __call__(self, query: Query, ending: QueryTail) -> Sequence[Column]:
        attributes = (attribute for cls in query.graph.classes for attribute in cls.attributes)
        found = bare_columns(query)
        if found is None or ending.conditions or not all(each.expr.is_column for each in attributes):
            return self.spark.answer_columns(query, ending)
        return found

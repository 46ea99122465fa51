"""Runs a shared dataflow on Spark, through the session."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TypeVar

from watersmeet.errors import ConfigurationError, DataError, WatersmeetError
from watersmeet.plan.physical import plan_physical
from watersmeet.plan.statistics.statistics import Statistics
from watersmeet.query import Column, Query
from watersmeet.serve.registry.changes import BoundDataflow
from watersmeet.serve.registry.record import BESIDE, Registration, RegistryRecord
from watersmeet.serve.registry.sink_fit import bare_columns
from watersmeet.serve.registry.tail_files import TailWriter
from watersmeet.session import Session
from watersmeet.spark.jobs.batch_log import committed_batch, newest_batch
from watersmeet.spark.jobs.beside.side_job import Dataflow, SideJob
from watersmeet.spark.jobs.checkpoint import Checkpoint
from watersmeet.spark.jobs.dead_letters import DeadLetters, plan_dead_letters
from watersmeet.spark.jobs.job import RunOptions
from watersmeet.spark.jobs.run_lock import RunLock
from watersmeet.spark.jobs.shared_job import SharedJob
from watersmeet.spark.metrics.progress import Progress
from watersmeet.spark.multiquery.check import SparkCheck
from watersmeet.spark.multiquery.fill import Trial
from watersmeet.spark.session.environment import PARTITIONS
from watersmeet.spark.session.failures import JVM_GONE, explain_failure
from watersmeet.spark.session.leftovers import end_leftovers
from watersmeet.spark.sources.read_sources import Sources, read_sources
from watersmeet.spark.sources.source_paths import source_paths
from watersmeet.spark.storage.folder import Folder
from watersmeet.spark.storage.hadoop_tree import open_tree

POLL_S = 0.1

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class SparkEngine:
    """Runs the dataflow of one record in a session."""

    session: Session
    record: RegistryRecord
    tails: TailWriter
    options: RunOptions
    lock: RunLock
    letters: list[DeadLetters] = field(default_factory=list)
    failures: dict[str, WatersmeetError] = field(default_factory=dict)  # of queries for dead letters
    statistics: Statistics | None = None

    def job(self, current: BoundDataflow, before: Progress | None, trial: Trial | None = None) -> SharedJob:
        """The streaming query of a dataflow with its present queries."""
        record, queries = self.record, current.joined
        end_leftovers(self.session.spark)  # of the job before this one
        # State is partitioned as it was at the first start, whatever the session's setting is now.
        self.session.spark.conf.set(PARTITIONS, str(record.partitions))
        return SharedJob(
            spark=self.session.spark,
            dataflow=current.dataflow,
            queries=queries,
            pipeline=record.pipeline,
            sources=self._sources,
            folder=record.checkpoint,
            base=self._base,
            dataflow_id=record.id,
            partitions=record.partitions,
            options=self.options,
            on_answers=self.tails.append,
            tailed=self.tails.wanted,
            progress=before,
            silent={
                query.number: (query.outage.since, query.outage.until)
                for query in current.record.queries
                if query.outage is not None and query.number in queries
            },
            trial=trial,
            read_smaller=self._read_smaller,
        )

    def trial(self, current: BoundDataflow) -> WatersmeetError | None:
        """Does the batch under way with these queries; nothing of it is kept."""
        trial = Trial()
        job = self.job(current, None, trial)
        job.start()
        while job.is_running() and not trial.has_passed:
            self.lock.check()
            time.sleep(POLL_S)
        failure = job.failure
        job.stop()
        return None if trial.has_passed else failure

    @contextmanager
    def dead_letters(self) -> Iterator[None]:
        """While open, malformed messages go to the sinks the pipeline names, whatever the queries are."""
        record = self.record
        planned = plan_dead_letters(
            self.session.spark, record.pipeline, record.checkpoint, self._base, self.options
        )
        try:
            for letters in planned:
                self.letters.append(letters)
                self._ask(letters, letters.start, None, raises=ConfigurationError)
            yield
        finally:
            for letters in self.letters:
                letters.stop()

    def check_side_queries(self) -> Mapping[str, WatersmeetError]:
        """What has made the queries for dead letters fail; raises if the checkpoint is not ours any more."""
        self.lock.check()
        for letters in self.letters:
            self._ask(letters, letters.poll, None)
        return dict(self.failures)

    def side_queries_run(self) -> bool:
        running = [self._ask(letters, letters.is_running, False) for letters in self.letters]  # all are asked
        return self.is_finite and any(running)

    @property
    def is_finite(self) -> bool:
        return self.options.available_now

    def check_alive(self) -> None:
        try:
            is_stopped = bool(self.session.spark.sparkContext._jsc.sc().isStopped())
        except Exception as error:
            raise explain_failure(error) from error
        if is_stopped:
            raise DataError(JVM_GONE)

    def side_job(self, registration: Registration, query: Query) -> SideJob:
        """The streaming query of one query beside the dataflow, planned as it was when it first ran."""
        record, spark = self.record, self.session.spark
        end_leftovers(spark)  # of those that were dropped
        spark.conf.set(PARTITIONS, str(record.partitions))
        checkpoint = Checkpoint(spark, record.own_checkpoint(registration))
        query = checkpoint.query(query)
        planned = plan_physical(query, record.partitions, self.statistics, checkpoint.routing())
        plan = checkpoint.plan(planned, source_paths(query.streams, self._base))

        def read(smaller: int) -> Sources:
            return read_sources(spark, query.streams, self._base, None, smaller, query.tables)

        return SideJob(
            spark=spark,
            name=registration.name,
            plan=plan,
            sink=record.pipeline.sink(registration.sink) if registration.sink else None,
            checkpoint=checkpoint,
            base=self._base,
            options=replace(self.options, limit=None),  # which is of the dataflow
            sources=read(1),
            read_smaller=read,
            number=registration.number,
            since=registration.since,
            dataflow=Dataflow(record.id, record.pipeline.streams, record.checkpoint),
            on_answers=partial(self.tails.append, writer=str(registration.number)),
            tailed=self.tails.wanted,
        )

    def sweep_beside(self, kept: Set[int]) -> None:
        tree = open_tree(self.session.spark, self.record.checkpoint)
        try:
            for name in tree.names(BESIDE):
                if name.isdecimal() and int(name) not in kept:
                    tree.remove(f"{BESIDE}/{name}")
        except OSError:
            return  # it is tried again at the next change

    def _ask(
        self,
        letters: DeadLetters,
        ask: Callable[[], Answer],
        otherwise: Answer,
        *,
        raises: type[WatersmeetError] | None = None,
    ) -> Answer:
        """What dead letters say, as long as they have not failed; a failure of `raises` is raised, once."""
        if letters.name in self.failures:
            return otherwise
        try:
            return ask()
        except Exception as error:
            failure = explain_failure(error)
            if raises is not None and isinstance(failure, raises):
                raise failure from None
            self.failures[letters.name] = failure
            return otherwise

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
        return self._read_smaller(1)

    def _read_smaller(self, smaller: int) -> Sources:
        streams, limit = self.record.pipeline.streams, self.options.limit
        return read_sources(self.session.spark, streams, self._base, limit, smaller)


@dataclass(frozen=True)
class AnswerCheck:
    """Finds the columns of a query's answers; asks Spark only where the query leaves something to it."""

    spark: SparkCheck

    def __call__(self, query: Query, name: str, conditions: tuple[str, ...]) -> Sequence[Column]:
        attributes = (attribute for cls in query.graph.classes for attribute in cls.attributes)
        found = None if query.aggregate is not None else bare_columns(query)
        if found is None or conditions or not all(each.expr.is_column for each in attributes):
            return self.spark.answer_columns(query, name, conditions)
        return found

"""One try of a stateful task: it can be stopped at any point, left aside, and come back when nobody waits."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pandas as pd
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from tests.machine.state import Executor, Partition, StateVersions, Version
from watersmeet.spark.worker.worker_cache import DEFAULT_LIMIT_BYTES, WorkerCache
from watersmeet.testing.cluster import run_as_task
from watersmeet.testing.state_store import Contents, StateStore


@dataclass
class Worker:
    """An executor and its Python worker."""

    name: str
    cache: WorkerCache = field(default_factory=lambda: WorkerCache(DEFAULT_LIMIT_BYTES))
    executor: Executor = field(default_factory=Executor)


@dataclass(frozen=True)
class Job:
    """The run and the micro-batch that a task belongs to."""

    run: int
    batch: int


class Attempt:
    """A try of the task of one bucket; `base` is the version of the state it was told to load."""

    def __init__(
        self,
        *,
        versions: StateVersions,
        worker: Worker,
        job: Job,
        partition: Partition,
        base: Version,
        processor: StatefulProcessor,
        rows: list[pd.DataFrame],
    ) -> None:
        self.worker, self.job, self.partition = worker, job, partition
        self.frames: list[pd.DataFrame] = []
        self.is_over = False
        self._versions, self._base = versions, base
        self._before: Contents = versions.load(worker.executor, partition, base)
        self._store = StateStore(self._before)
        self._task = copy.copy(processor)
        with run_as_task(worker.cache, job.batch, job.run):
            self._task.init(self._store)  # type: ignore[arg-type]
            self._output: Iterator[Any] = self._task.handleInputRows(
                (partition[1],),
                iter(rows),
                None,  # type: ignore[arg-type]
            )

    @property
    def name(self) -> str:
        stage, label = self.partition
        where = f"stage {stage}, bucket {label} on {self.worker.name}"
        return f"batch {self.job.batch} of run {self.job.run}, {where}"

    def begin(self) -> None:
        """Runs to the first output: the bucket is out of the cache, nothing is written."""
        self._advance(1)

    def finish(self) -> None:
        """Runs to the end: state is written but not committed, the bucket is in the cache."""
        self._advance(None)

    def commit(self) -> Version:
        """Makes the state durable."""
        self.is_over = True
        return self._versions.commit(
            self.worker.executor, self.partition, self._base.number + 1, self._before, self._store.written
        )

    def kill(self) -> None:
        """The process of the worker goes on, its task does not."""
        self.is_over = True
        self._output.close()  # type: ignore[attr-defined]

    def _advance(self, frames: int | None) -> None:
        with run_as_task(self.worker.cache, self.job.batch, self.job.run):
            for frame in self._output:
                self.frames.append(frame)
                if frames is not None and len(self.frames) >= frames:
                    return

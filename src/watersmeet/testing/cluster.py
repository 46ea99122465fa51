"""Spark's part, played in process: tasks on workers, a dictionary as the shuffle, micro-batches that commit.

A worker is a process of Spark's with a cache of its own; here it is a cache, lent to the tasks it runs.
A stateful task that fails is run again on another worker from the committed state, as Spark does. State is
committed when all tasks of a micro-batch have gone through; until then the batch can be run again.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.types import StructType

from watersmeet.spark.worker.worker_cache import DEFAULT_LIMIT_BYTES, WorkerCache, lend_cache
from watersmeet.testing.state_store import StateStore

BUCKET = "bucket"
QUERY_ID = "in-process"

MapBatches = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


class Cluster:
    """Workers, state stores and the micro-batch under way; the order of rows and failures is by seed."""

    def __init__(self, workers: int = 2, seed: int = 0) -> None:
        self.batch = 0
        self.run = 0
        self.stores: dict[tuple[str, int], StateStore] = {}
        self.workers = [WorkerCache(DEFAULT_LIMIT_BYTES) for _ in range(workers)]
        self.failures = 0  # of stateful tasks, to come
        self._homes: dict[int, int] = {}
        self._random = random.Random(seed)

    def lose_caches(self) -> None:
        for number in range(len(self.workers)):
            self.workers[number] = WorkerCache(DEFAULT_LIMIT_BYTES)

    def move(self, bucket: int | None = None) -> None:
        """The next worker takes a bucket from here on, or each of them."""
        for label in [*self._homes] if bucket is None else [bucket]:
            self._homes[label] = self._home(label) + 1

    def commit(self) -> None:
        """The micro-batch has gone through."""
        for store in self.stores.values():
            store.commit()
        self.batch += 1

    def roll_back(self) -> None:
        """The micro-batch has failed: it is to be run again from the state before it."""
        for store in self.stores.values():
            store.begin()

    def run_map(self, function: MapBatches, tasks: Iterable[pa.RecordBatch]) -> list[pa.RecordBatch]:
        """The output of a map stage, a task for each batch; each goes to any worker."""
        found = []
        for rows in tasks:
            cut = self._random.randrange(rows.num_rows + 1)  # Spark hands a task its rows in batches
            with self._task(self._any_worker()):
                found += list(function(iter([rows[:cut], rows[cut:]])))
        return found

    def run_stage(
        self, name: str, processor: StatefulProcessor, schema: StructType, rows: list[pa.RecordBatch]
    ) -> dict[int, list[pa.RecordBatch]]:
        """The output of a stateful stage by bucket: rows are shuffled, each bucket with any has a task."""
        expected = to_arrow_schema(schema)
        found: dict[int, list[pa.RecordBatch]] = {}
        for label, own in self._shuffle(rows).items():
            found[label] = []
            for frame in self._stateful_task(name, processor, label, own):
                table = pa.Table.from_pandas(frame, expected, preserve_index=False, nthreads=1)
                found[label] += table.to_batches()
        return found

    def _shuffle(self, batches: list[pa.RecordBatch]) -> dict[int, pa.Table]:
        """Rows by their bucket, in an order that no task may rely on."""
        if not batches:
            return {}
        table = pa.Table.from_batches(batches)
        by_label: dict[int, list[int]] = {}
        for position, label in enumerate(table[BUCKET].to_pylist()):
            by_label.setdefault(label, []).append(position)
        for positions in by_label.values():
            self._random.shuffle(positions)
        return {label: table.take(positions) for label, positions in sorted(by_label.items())}

    def _stateful_task(
        self, name: str, processor: StatefulProcessor, label: int, rows: pa.Table
    ) -> list[Any]:
        store = self.stores.setdefault((name, label), StateStore())
        while True:
            store.begin()
            task = copy.copy(processor)
            with self._task(self._home(label)):
                task.init(store)  # type: ignore[arg-type]
                cut = self._random.randrange(rows.num_rows + 1)
                frames = [
                    part.to_pandas(use_threads=False) for part in (rows[:cut], rows[cut:]) if part.num_rows
                ]
                output = task.handleInputRows((label,), iter(frames), None)  # type: ignore[arg-type]
                if not self.failures:
                    return list(output)
                self._die(output)
            self.move(label)

    def _die(self, output: Iterator[Any]) -> None:
        """An attempt ends half-way, or when all is done and only its report is missing."""
        self.failures -= 1
        if self._random.random() < 0.5:
            next(output, None)
            output.close()  # type: ignore[attr-defined]
        else:
            list(output)

    def _home(self, label: int) -> int:
        return self._homes.setdefault(label, len(self._homes) % len(self.workers))

    def _any_worker(self) -> int:
        return self._random.randrange(len(self.workers))

    def _task(self, worker: int) -> AbstractContextManager[None]:
        return run_as_task(self.workers[worker % len(self.workers)], self.batch, self.run)


@contextmanager
def run_as_task(worker: WorkerCache, batch: int, run: int) -> Iterator[None]:
    """While open, this process is a worker of Spark's that runs a task of the query."""
    before = TaskContext.get()
    TaskContext._setTaskContext(None)
    context = TaskContext()
    context._localProperties = {
        "sql.streaming.queryId": QUERY_ID,
        "spark.jobGroup.id": f"run {run}",
        "streaming.sql.batchId": str(batch),
    }
    try:
        with lend_cache(worker):
            yield
    finally:
        TaskContext._setTaskContext(before)

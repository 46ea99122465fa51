"""What a Python worker does under a limit of memory: it keeps nothing that it has no use for.

A worker lives as long as its query and is handed one task after the other, so whatever an allocator or a
cache keeps for next time is kept by every worker at once. Three things are:

- Arrow's own allocator holds on to what was freed. Under a limit the system's is used.
- The system's allocator holds on to blocks that it thinks will be wanted again, of up to 32 MB each. It is
  told to hand large ones back as they are freed, and the rest after each task.
- A bucket that has moved to another worker leaves a copy behind. Every bucket is stepped in every batch, so
  one that this worker did not step in the latest batch is stale, and goes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from watersmeet.kernel import StateLimit
from watersmeet.spark.worker.allocator import hand_back, hold_nothing
from watersmeet.spark.worker.task_facts import known_batch, query_id
from watersmeet.spark.worker.worker_cache import worker_cache

Batches = Iterator[pa.RecordBatch]


@dataclass(frozen=True)
class Frugal:
    """A function for `mapInArrow` that leaves nothing behind in its worker."""

    function: Callable[[Batches], Batches]

    def __call__(self, batches: Batches) -> Batches:
        keep_little()
        yield from self.function(batches)
        hand_back()


def frugally(
    function: Callable[[Batches], Batches], limit: StateLimit | None
) -> Callable[[Batches], Batches]:
    """The same function, which under a limit of memory leaves nothing behind in its worker."""
    return function if limit is None else Frugal(function)


def keep_little() -> None:
    """To be called as a task begins: drops stale buckets, and sets up the allocators."""
    hold_nothing()
    query, batch = query_id(), known_batch()
    if query is not None and batch is not None:
        worker_cache().forget_before(query, batch - 1)

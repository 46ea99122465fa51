"""What a stage asks of a bucket, whatever it does with tuples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypeVar

from watersmeet.kernel import PersistedChunk

Snapshot = Mapping[str, Any]  # fit for JSON


class BucketState(Protocol):
    """A bucket as far as it is kept: in the state store as chunks and a few numbers, in a worker as it is.

    A stage makes one anew, or restores it from what was persisted (`fresh`, `restore`, `catch_up`).
    """

    def persisted(self) -> list[PersistedChunk]:
        """The chunks a state store must hold."""

    def snapshot(self) -> Snapshot:
        """The few numbers to persist beside them."""

    @property
    def nbytes(self) -> int:
        """Memory taken."""


In = TypeVar("In", contravariant=True)
Out = TypeVar("Out", covariant=True)


class SteppedBucket(BucketState, Protocol[In, Out]):
    """A bucket that is fed micro-batches."""

    def step(self, batch: In, /) -> Out:
        """What a micro-batch, or a part of one, brings forth."""

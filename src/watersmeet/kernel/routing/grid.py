"""Which buckets a tuple goes to: hypercube (shares) routing.

Buckets are the cells of a grid with one axis per attribute class, as long as the class's share. A tuple knows
its coordinate on the axes of its own classes (by key hash) and goes to every cell along the others, so any
combination that joins meets in exactly one cell. A query on one attribute has one axis and no replication.

    shares (2, 3): R(a) goes to 3 cells, S(a, b) to 1, T(b) to 2
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass

import numba
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.kernel.columns.hashing import Hashes, hash_column
from watersmeet.kernel.layout import InputLayout

_HIGH_BITS = np.uint64(33)  # the low bits pick chains within a bucket's indexes


@dataclass(frozen=True)
class Grid:
    """The grid of buckets: the share of each attribute class, numbered row by row."""

    shares: tuple[int, ...]

    @property
    def buckets(self) -> int:
        return int(np.prod(self.shares, dtype=np.int64)) if self.shares else 1

    @property
    def strides(self) -> tuple[int, ...]:
        return tuple(
            int(np.prod(self.shares[axis + 1 :], dtype=np.int64)) for axis in range(len(self.shares))
        )

    def replicas(self, classes: tuple[int, ...]) -> tuple[int, ...]:
        """Offsets from a tuple's first bucket to all of its buckets, given its input's classes."""
        free = [axis for axis in range(len(self.shares)) if axis not in classes]
        steps = [[self.strides[axis] * at for at in range(self.shares[axis])] for axis in free]
        return tuple(sum(path) for path in itertools.product(*steps))

    def home(self, bucket: int, classes: tuple[int, ...]) -> int:
        """The first bucket of the tuples of an input that come to this one."""
        free = [axis for axis in range(len(self.shares)) if axis not in classes]
        along = [bucket // self.strides[axis] % self.shares[axis] for axis in free]
        return bucket - sum(self.strides[axis] * at for axis, at in zip(free, along, strict=True))

    def is_home(self, bucket: int, classes: tuple[int, ...]) -> bool:
        """Whether an input's tuples are counted in this bucket: it is the first of their replicas."""
        return self.home(bucket, classes) == bucket


@numba.njit(cache=True)
def coordinates(hashes, share):  # type: ignore[no-untyped-def]
    """Each tuple's coordinate on an axis of this share."""
    found = np.empty(len(hashes), np.int32)
    for row in range(len(hashes)):
        found[row] = np.int32((hashes[row] >> _HIGH_BITS) % np.uint64(share))
    return found


def coordinate(key_hash: int, share: int) -> int:
    """The coordinate of one key on an axis, as `coordinates` has it."""
    return (key_hash >> int(_HIGH_BITS)) % share


@numba.njit(cache=True)
def counting_sort(buckets, count):  # type: ignore[no-untyped-def]
    """Row numbers ordered by bucket, and where each bucket starts."""
    starts = np.zeros(count + 1, np.int64)
    for row in range(len(buckets)):
        starts[buckets[row] + 1] += 1
    for bucket in range(count):
        starts[bucket + 1] += starts[bucket]
    order = np.empty(len(buckets), np.int64)
    filled = starts[:-1].copy()
    for row in range(len(buckets)):
        order[filled[buckets[row]]] = row
        filled[buckets[row]] += 1
    return order, starts


def first_buckets(grid: Grid, hashes: Mapping[int, Hashes], rows: int) -> npt.NDArray[np.int32]:
    """Each tuple's first bucket, from its hashes per class."""
    buckets = np.zeros(rows, np.int32)
    for cls, column in hashes.items():
        if grid.shares[cls] > 1:
            buckets += coordinates(column, grid.shares[cls]) * np.int32(grid.strides[cls])
    return buckets


def split(batch: pa.RecordBatch, buckets: npt.NDArray[np.int32], count: int) -> list[pa.RecordBatch]:
    """The batch cut by bucket, each part in arrival order."""
    if count == 1:
        return [batch]
    order, starts = counting_sort(buckets, count)
    ordered = batch.take(pa.array(order))
    return [ordered.slice(starts[n], starts[n + 1] - starts[n]) for n in range(count)]


def _chosen(batch: pa.RecordBatch, rows: npt.NDArray[np.bool_]) -> pa.RecordBatch:
    return batch if rows.all() else batch.take(pa.array(np.flatnonzero(rows)))


def hash_keys(grid: Grid, layout: InputLayout, batch: pa.RecordBatch) -> dict[int, Hashes]:
    """The hashes by which tuples are routed, for each class whose axis has more than one cell."""
    routing = layout.routing_classes
    return {
        cls: hash_column(batch.column(name))
        for cls, name in layout.keys
        if cls in routing and grid.shares[cls] > 1
    }


def route(
    grid: Grid,
    layout: InputLayout,
    batch: pa.RecordBatch,
    hashes: Mapping[int, Hashes] | None = None,
    only: int | None = None,
) -> list[tuple[tuple[int, ...], pa.RecordBatch]]:
    """(buckets, tuples for each of them), for the tuples of one input; empty parts are left out.

    With `only`, the tuples that go to this bucket and perhaps to others.
    """
    hashes = hash_keys(grid, layout, batch) if hashes is None else hashes
    first, offsets = first_buckets(grid, hashes, batch.num_rows), grid.replicas(layout.routing_classes)
    if only is None:
        parts = split(batch, first, grid.buckets)
    else:
        home = grid.home(only, layout.routing_classes)
        parts = [batch.slice(0, 0)] * home + [_chosen(batch, first == home)]
    return [
        (tuple(first + offset for offset in offsets), part)
        for first, part in enumerate(parts)
        if part.num_rows
    ]

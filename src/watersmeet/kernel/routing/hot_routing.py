"""Routing with hot values: as `grid`, except for the few values of which a table says otherwise.

A tuple's coordinate on an axis is its home (by key hash), unless its value is hot on that axis: then it is
spread (one coordinate, by a hash of all it holds) or copied to every one. A hash of the contents, not of the
row number: a task run again, or handed the same rows in another order, must send every tuple to the same
bucket.

    shares (2,), v at home in 0, a spread: a(v, ..) goes to 0 or 1, b(v, ..) to 0 and as a copy to 1
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.kernel.columns.hashing import Hashes, combine_hashes, find_values, hash_column
from watersmeet.kernel.layout import TS, InputLayout
from watersmeet.kernel.routing.grid import Grid, coordinates, counting_sort, route
from watersmeet.kernel.routing.hot_values import HotTable, HotValue
from watersmeet.query import BEGINNING, NEVER

Longs = npt.NDArray[np.int64]
Ints = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Part:
    """Tuples that go to each of some buckets; the last `copies` of them count elsewhere."""

    buckets: tuple[int, ...]
    tuples: pa.RecordBatch
    copies: int = 0


def route_hot(
    grid: Grid,
    layout: InputLayout,
    batch: pa.RecordBatch,
    table: HotTable,
    hashes: Mapping[int, Hashes],
    only: int | None = None,
) -> list[Part]:
    """Where the tuples of one input go under a table; `hashes` are those of `hash_keys`.

    With `only`, the part that goes to this bucket, if any tuple does.
    """
    found = {cls: _Axis.of(layout, batch, table.of(cls), column) for cls, column in hashes.items()}
    axes = {cls: axis for cls, axis in found.items() if axis is not None}
    if not axes:
        return [Part(buckets, part) for buckets, part in route(grid, layout, batch, hashes, only)]
    home = {cls: coordinates(column, grid.shares[cls]) for cls, column in hashes.items()}
    for cls, axis in axes.items():
        if axis.spread.any():
            home[cls][axis.spread] = coordinates(_hash_contents(layout, batch, axis.spread), grid.shares[cls])
    first = sum((home[cls] * np.int32(grid.strides[cls]) for cls in home), np.zeros(batch.num_rows, np.int32))
    rows, targets = _copies(grid, {cls: axis.copied for cls, axis in axes.items()}, home, first)
    sections = 2 * first  # of a bucket: its own tuples, then its copies
    if len(rows):
        sections = np.concatenate((sections, 2 * targets + 1))
    order, starts = counting_sort(sections, 2 * grid.buckets)
    if len(rows):
        order = np.concatenate((np.arange(batch.num_rows), rows))[order]
    ordered = batch.take(pa.array(order))
    offsets = grid.replicas(layout.routing_classes)
    parts = []
    for bucket in range(grid.buckets) if only is None else [grid.home(only, layout.routing_classes)]:
        start, own_end, end = starts[2 * bucket : 2 * bucket + 3]
        if end > start:
            buckets = tuple(bucket + offset for offset in offsets)
            parts.append(Part(buckets, ordered.slice(start, end - start), int(end - own_end)))
    return parts


@dataclass(frozen=True)
class _Axis:
    """Which tuples are spread on an axis, and which are copied along it."""

    spread: Bools
    copied: Bools

    @classmethod
    def of(
        cls, layout: InputLayout, batch: pa.RecordBatch, values: tuple[HotValue, ...], hashes: Hashes
    ) -> _Axis | None:
        """What the table says of one class, or None if it says nothing of any of these tuples."""
        if not values:
            return None
        ordered = sorted(values, key=lambda value: value.hash)
        known = find_values(hashes, np.array([value.hash for value in ordered], np.uint64))
        rows = np.flatnonzero(known >= 0)
        if not len(rows):
            return None
        own = [value.spread == layout.alias for value in ordered]
        spread_from = np.array(
            [v.spread_from if mine and not v.cooling else NEVER for v, mine in zip(ordered, own, strict=True)]
        )
        copied_until = np.array(
            [BEGINNING if mine else v.copied_until for v, mine in zip(ordered, own, strict=True)]
        )
        ts, spread, copied = np.asarray(batch.column(TS))[rows], *np.zeros((2, len(known)), np.bool_)
        spread[rows] = ts >= spread_from[known[rows]]
        copied[rows] = ts < copied_until[known[rows]]
        return cls(spread, copied)


def _copies(
    grid: Grid, copied: Mapping[int, Bools], home: Mapping[int, Ints], first: Ints
) -> tuple[Longs, Ints]:
    """The rows to be copied and the buckets to copy them to, along every axis on which they are."""
    axes = [cls for cls, rows in copied.items() if rows.any()]
    rows: list[Longs] = []
    targets: list[Ints] = []
    if axes:
        along = np.zeros(len(first), np.int64)
        for bit, cls in enumerate(axes):
            along |= copied[cls].astype(np.int64) << bit
        for pattern in np.unique(along[along > 0]):
            chosen = np.flatnonzero(along == pattern)
            own = [cls for bit, cls in enumerate(axes) if pattern >> bit & 1]
            for steps in itertools.product(*(range(grid.shares[cls]) for cls in own)):
                if any(steps):
                    rows.append(chosen)
                    targets.append(first[chosen] + _shift(grid, own, steps, home, chosen))
    return np.concatenate([_NO_ROWS, *rows]), np.concatenate([_NO_BUCKETS, *targets])


def _shift(
    grid: Grid, axes: list[int], steps: tuple[int, ...], home: Mapping[int, Ints], rows: Longs
) -> Ints:
    """From these rows' first buckets to those so many steps further along some axes, round their ends."""
    shift = np.zeros(len(rows), np.int32)
    for cls, step in zip(axes, steps, strict=True):
        at = home[cls][rows]
        shift += ((at + step) % grid.shares[cls] - at) * np.int32(grid.strides[cls])
    return shift


def _hash_contents(layout: InputLayout, batch: pa.RecordBatch, rows: Bools) -> Hashes:
    """A hash of what the tuples at these rows hold, whoever has read them.

    Text beside the keys is left out, since it may come after the join. The tuple's bucket is in the ids of
    its answers, which must stay the same when a batch is done again and read in another way.
    """
    keys = [name for _, name in layout.keys if _is_simple(batch.schema.field(name).type)]
    numbers = [
        name
        for name in sorted({TS, *layout.payload} & {*batch.schema.names})
        if pa.types.is_primitive(batch.schema.field(name).type)
    ]
    chosen = batch.select([*keys, *numbers]).filter(pa.array(rows))
    return combine_hashes([hash_column(column) for column in chosen.columns])


def _is_simple(type_: pa.DataType) -> bool:
    return bool(pa.types.is_primitive(type_) or pa.types.is_string(type_) or pa.types.is_binary(type_))


_NO_ROWS: Longs = np.empty(0, np.int64)
_NO_BUCKETS: Ints = np.empty(0, np.int32)

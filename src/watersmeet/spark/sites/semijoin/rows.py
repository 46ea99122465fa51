"""Rows of Arrow as the members that semijoin protocols join, and back: only join values become Python's.

The protocols compare keys and times, and hand tuples on as they are. So a member carries a reference to its
row, and the columns stay in Arrow until rows are put together for a link, for answers or for the state store.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet.plan.sites.semijoin.oneway.items import Member
from watersmeet.query.values import NAN, canonical

KeyTypes = dict[int, pa.DataType]  # of each attribute class, as far as values of it were seen


class Row:
    """One row of a batch of columns."""

    __slots__ = ("batch", "index")

    def __init__(self, batch: pa.RecordBatch, index: int) -> None:
        self.batch = batch
        self.index = index


def keys_of(batch: pa.RecordBatch, columns: Mapping[int, str], classes: int) -> list[tuple[Hashable, ...]]:
    """The value of each row in each attribute class, None where the rows have no part in it."""
    nothing: list[Hashable] = [None] * batch.num_rows
    every = [
        canonical_values(batch.column(columns[cls])) if cls in columns else nothing for cls in range(classes)
    ]
    return list(zip(*every, strict=True))


def canonical_values(column: pa.Array) -> list[Hashable]:
    """Values as they are compared; one that comes often is looked at once, unless it is nested."""
    if pa.types.is_nested(column.type):
        return [canonical(value) for value in column.to_pylist()]
    encoded = column.dictionary_encode()
    known = [canonical(value) for value in encoded.dictionary.to_pylist()]
    return [None if index is None else known[index] for index in encoded.indices.to_pylist()]


def value_array(values: Sequence[Hashable], type_: pa.DataType) -> pa.Array:
    """Values that are compared as an array of their type."""
    return pa.array([_plain(value, type_) for value in values], type_)


def _plain(value: Any, type_: pa.DataType) -> Any:
    """The value that `canonical` makes this one of."""
    if value is None:
        return None
    if pa.types.is_floating(type_):
        return float("nan") if value == (NAN,) else value
    if pa.types.is_struct(type_):
        return {type_.field(n).name: _plain(part, type_.field(n).type) for n, part in enumerate(value)}
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return [_plain(part, type_.value_type) for part in value]
    return value


def gathered(rows: Sequence[Row]) -> pa.RecordBatch:
    """The rows as one batch, in this order; there is at least one."""
    by_batch: dict[int, list[int]] = {}
    batches: dict[int, pa.RecordBatch] = {}
    for place, row in enumerate(rows):
        by_batch.setdefault(id(row.batch), []).append(place)
        batches[id(row.batch)] = row.batch
    taken, order = [], np.empty(len(rows), np.int64)
    start = 0
    for which, places in by_batch.items():
        taken.append(batches[which].take(pa.array([rows[place].index for place in places])))
        order[places] = np.arange(start, start + len(places))
        start += len(places)
    together = pa.concat_batches(taken)
    return together if len(taken) == 1 else together.take(pa.array(order))


def payload_columns(members: Sequence[Member], names: Sequence[str]) -> dict[str, pa.Array]:
    """Columns of the members' rows."""
    batch = gathered([member.payload for member in members])
    return {name: batch.column(name) for name in names}


def nested(batch: pa.RecordBatch | pa.StructArray) -> pa.ListArray:
    """Rows as one value: a list of structs."""
    struct = batch if isinstance(batch, pa.StructArray) else batch.to_struct_array()
    return pa.ListArray.from_arrays(pa.array([0, len(struct)], pa.int32()), struct)


def one_value(values: pa.Array) -> pa.ListArray:
    """An array as one value: a list."""
    return pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values)

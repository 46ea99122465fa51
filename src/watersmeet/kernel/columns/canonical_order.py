"""Rows in an order that depends on nothing but the rows.

The same bag of rows may come in another order when a batch is done again. What is cut from it, piece by
piece, must then be the same: so rows are ordered by all of their values first. Rows that are equal in
everything may change places, as nobody can tell.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.kernel.columns.row_bytes import stretches, value_bytes


def in_canonical_order(table: pa.Table) -> pa.Table:
    """The rows in the order of their values, column by column."""
    columns = [_sortable(column) for column in table.combine_chunks().columns]
    named = {str(n): column for n, column in enumerate(columns) if column is not None}
    if not named:
        return table
    order = pc.sort_indices(pa.table(named), sort_keys=[(name, "ascending") for name in named])
    return table.take(order)


def cut(table: pa.Table, nbytes: int) -> list[pa.RecordBatch]:
    """The rows in pieces of about so many bytes, the same pieces for the same bag of rows."""
    whole = table.combine_chunks()
    if _bytes(whole) <= nbytes:
        return list(whole.to_batches())
    ordered = in_canonical_order(whole).combine_chunks()
    each = _row_bytes(ordered)
    rows = ordered.to_batches()[0]
    return [
        rows.slice(one.start, one.stop - one.start)
        for one in stretches(len(each), nbytes, nbytes, lambda: each)
    ]


def _bytes(table: pa.Table) -> int:
    return int(_row_bytes(table).sum())


def _row_bytes(table: pa.Table) -> Any:
    found = np.zeros(table.num_rows, np.int64)
    for column in table.columns:
        for one in column.chunks:  # at the most one
            found += value_bytes(one)
    return found


def _sortable(column: pa.ChunkedArray) -> pa.ChunkedArray | pa.Array | None:
    """A column in whose order equal values alone are next to each other; None if all values are equal."""
    type_ = column.type
    if pa.types.is_null(type_):
        return None
    if pa.types.is_dictionary(type_):
        return column.cast(type_.value_type)
    if pa.types.is_floating(type_):  # -0.0 and 0.0 are two values, and every NaN is one
        whole = column.combine_chunks()
        bits = pa.Array.from_buffers(_bits_of(type_), len(whole), whole.buffers(), offset=whole.offset)
        return bits
    if pa.types.is_boolean(type_):
        return column.cast(pa.int8())
    if pa.types.is_duration(type_):
        return column.cast(pa.int64())
    if pa.types.is_nested(type_) or pa.types.is_interval(type_):
        return pa.array([repr(value) for value in column.to_pylist()])
    return column


def _bits_of(type_: pa.DataType) -> pa.DataType:
    return {16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[type_.bit_width]

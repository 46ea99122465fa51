"""Rows in order of their values, as Spark orders them."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc


def order_by_values(columns: Sequence[pa.Array]) -> pa.Array:
    """The rows in order of their values, column by column, NULL first; nested columns decide nothing."""
    flat = [part for column in columns for part in _sortable(column)]
    table = pa.table(flat, [str(number) for number in range(len(flat))])
    return pc.sort_indices(table, sort_keys=[(n, "ascending", "at_start") for n in table.column_names])


def _sortable(column: pa.Array) -> list[pa.Array]:
    """A column as columns that Arrow sorts as Spark does: NaN after all numbers, both zeros alike."""
    if pa.types.is_nested(column.type):
        return []
    if pa.types.is_floating(column.type):
        is_nan = pc.is_nan(column)
        return [is_nan, pc.add(pc.if_else(is_nan, pa.scalar(0.0, column.type), column), 0.0)]
    return [column]

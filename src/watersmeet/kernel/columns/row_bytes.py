"""How many bytes single values take, and how rows are cut by it.

A table of answers repeats the payload of its tuples, so one wide value may come a million times: what a block
will take must be known before it is gathered. Values of one width need no look at each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.kernel.columns.hash_index import Longs

_OFFSET = 4  # bytes that say where a value of no fixed width ends


def value_bytes(column: pa.Array, type_: pa.DataType | None = None) -> Longs | int:
    """The bytes of each value of a column, or of every value; `type_` if it is to be of another type."""
    type_ = column.type if type_ is None else type_
    if pa.types.is_null(type_):
        return 0
    if pa.types.is_boolean(type_):
        return 1
    if pa.types.is_dictionary(type_):
        return value_bytes(column.indices)
    if pa.types.is_struct(type_):
        return sum((value_bytes(column.field(number)) for number in range(type_.num_fields)), 0)
    if pa.types.is_list(type_) or pa.types.is_large_list(type_) or pa.types.is_map(type_):
        return _list_bytes(column)
    if _has_lengths(type_):
        lengths = pc.binary_length(column)
        if lengths.null_count:
            lengths = lengths.fill_null(0)
        return np.asarray(lengths).astype(np.int64) + _OFFSET
    return -(-int(type_.bit_width) // 8)


def stretches(count: int, nbytes: int, widest: int, row_bytes: Callable[[], Longs]) -> Iterator[slice]:
    """So many rows in stretches of at most `nbytes`, or of one row; `row_bytes` is asked if it matters."""
    if count * widest <= nbytes:
        if count:
            yield slice(0, count)
        return
    ends = np.cumsum(row_bytes())
    start, before = 0, 0
    while start < count:
        stop = max(start + 1, int(np.searchsorted(ends, before + nbytes, side="right")))
        yield slice(start, stop)
        start, before = stop, int(ends[stop - 1])


def _has_lengths(type_: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(type_)
        or pa.types.is_binary(type_)
        or pa.types.is_large_string(type_)
        or pa.types.is_large_binary(type_)
    )


def _list_bytes(column: pa.Array) -> Longs:
    """The bytes of lists and maps: those of their elements, which lie between two offsets."""
    parts = [column.keys, column.items] if pa.types.is_map(column.type) else [column.values]
    each = sum((value_bytes(part) for part in parts), 0)
    offsets = np.asarray(column.offsets).astype(np.int64)
    if isinstance(each, int):
        return np.diff(offsets) * each + _OFFSET
    sums = np.concatenate(([0], np.cumsum(each)))
    return np.diff(sums[offsets]) + _OFFSET

"""64-bit hashes of Arrow columns, for keys of any type.

Guarantee: values that a join must treat as equal hash alike (-0.0 and 0.0, any two NaNs, NULLs inside nested
values). Unequal values may collide, so a match by hash is verified by `same_values`. NULL keys have no useful
hash: callers drop those rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numba
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Hashes = npt.NDArray[np.uint64]

_NULL = np.uint64(0x9E3779B97F4A7C15)
_CANONICAL_NAN = np.uint64(0x7FF8000000000000)


@numba.njit(cache=True, inline="always")
def _mix(word):  # type: ignore[no-untyped-def]
    """A bijection of 64-bit words that spreads every bit (the finaliser of splitmix64)."""
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))


@numba.njit(cache=True)
def _hash_words(words):  # type: ignore[no-untyped-def]
    hashes = np.empty(len(words), np.uint64)
    for i in range(len(words)):
        hashes[i] = _mix(words[i])
    return hashes


@numba.njit(cache=True)
def _hash_bytes(data, offsets):  # type: ignore[no-untyped-def]
    """Eight bytes at a time, the length mixed in so that a tail of zeros counts."""
    count = len(offsets) - 1
    hashes = np.empty(count, np.uint64)
    for i in range(count):
        position, end = offsets[i], offsets[i + 1]
        state = np.uint64(end - position) * np.uint64(0x9E3779B97F4A7C15)
        while position < end:
            word = np.uint64(0)
            for byte in range(min(8, end - position)):
                word |= np.uint64(data[position + byte]) << np.uint64(8 * byte)
            state = _mix(state ^ word) * np.uint64(0xFF51AFD7ED558CCD) + np.uint64(1)
            position += 8
        hashes[i] = _mix(state)
    return hashes


@numba.njit(cache=True)
def _combine(left, right):  # type: ignore[no-untyped-def]
    combined = np.empty(len(left), np.uint64)
    for i in range(len(left)):
        combined[i] = _mix(left[i] * np.uint64(0xD6E8FEB86659FD93) + right[i])
    return combined


@numba.njit(cache=True)
def _fold_lists(elements, offsets):  # type: ignore[no-untyped-def]
    count = len(offsets) - 1
    hashes = np.empty(count, np.uint64)
    for i in range(count):
        state = np.uint64(offsets[i + 1] - offsets[i])
        for element in range(offsets[i], offsets[i + 1]):
            state = _mix(state * np.uint64(0xD6E8FEB86659FD93) + elements[element])
        hashes[i] = _mix(state)
    return hashes


@numba.njit(cache=True)
def find_values(hashes, wanted):  # type: ignore[no-untyped-def]
    """For each hash its index in `wanted`, which is in order, or -1."""
    found = np.full(len(hashes), -1, np.int32)
    bits = np.uint64(0)
    for value in wanted:
        bits |= np.uint64(1) << (value & np.uint64(63))
    for row in range(len(hashes)):
        if (bits >> (hashes[row] & np.uint64(63))) & np.uint64(1):
            number = np.searchsorted(wanted, hashes[row])
            if number < len(wanted) and wanted[number] == hashes[row]:
                found[row] = number
    return found


def combine_hashes(hashes: Sequence[Hashes]) -> Hashes:
    """One hash of several columns, order-sensitive; a single column keeps its own."""
    combined = hashes[0]
    for other in hashes[1:]:
        combined = _combine(combined, other)
    return combined


def next_hashes(hashes: Hashes) -> Hashes:
    """Other hashes of the same values, for those that collide."""
    return np.asarray(_hash_words(hashes + _NULL))


def hash_column(column: pa.Array) -> Hashes:
    """A hash per row; NULL rows get one constant."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    hashes = _hash_valid(column)
    if column.null_count:
        hashes[~np.asarray(column.is_valid())] = _NULL
    return hashes


def _hash_valid(column: pa.Array) -> Hashes:
    type_ = column.type
    if pa.types.is_null(type_):
        return np.full(len(column), _NULL)
    if pa.types.is_dictionary(type_):
        return hash_column(column.dictionary)[_codes(column)]
    if pa.types.is_decimal(type_):
        return _hash_decimals(column)
    if pa.types.is_primitive(type_):
        return np.asarray(_hash_words(_words(column)))
    if pa.types.is_struct(type_):
        return combine_hashes([np.full(len(column), _NULL), *(hash_column(c) for c in _fields(column))])
    if pa.types.is_map(type_) or pa.types.is_list(type_) or pa.types.is_large_list(type_):
        offsets, elements = _list_parts(column)
        return np.asarray(_fold_lists(hash_column(elements), offsets))
    if pa.types.is_fixed_size_list(type_):
        return _hash_valid(column.cast(pa.list_(type_.value_type)))
    return np.asarray(_hash_bytes(*_bytes_parts(column)))


def _words(column: pa.Array) -> Hashes:
    """A fixed-width column as 64-bit words; NULL rows hold anything."""
    type_ = column.type
    if pa.types.is_boolean(type_):
        column = column.cast(pa.uint8())
    if pa.types.is_floating(type_):
        values = np.asarray(column.cast(pa.float64()).fill_null(0.0)) + 0.0
        words = values.view(np.uint64).copy()
        words[np.isnan(values)] = _CANONICAL_NAN
        return words
    width = column.type.bit_width
    signed = pa.types.is_signed_integer(column.type) or pa.types.is_temporal(column.type)
    dtype = np.dtype(f"{'i' if signed else 'u'}{width // 8}")
    raw = np.frombuffer(column.buffers()[1], dtype, len(column) + column.offset)[column.offset :]
    return raw.astype(np.int64 if signed else np.uint64).view(np.uint64)


def _hash_decimals(column: pa.Array) -> Hashes:
    if not pa.types.is_decimal128(column.type):
        column = column.cast(pa.decimal128(38, column.type.scale))
    halves = np.frombuffer(column.buffers()[1], np.uint64, 2 * (len(column) + column.offset))
    low = np.asarray(_hash_words(halves[2 * column.offset :: 2].copy()))
    if column.type.precision <= 18:
        return low
    return combine_hashes([low, np.asarray(_hash_words(halves[2 * column.offset + 1 :: 2].copy()))])


def _bytes_parts(column: pa.Array) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """The bytes of a string or binary column, and where each value starts."""
    binary = column.cast(pa.large_binary()) if not pa.types.is_large_binary(column.type) else column
    _, offsets, data = binary.buffers()
    starts = np.frombuffer(offsets, np.int64, len(binary) + binary.offset + 1)[binary.offset :]
    return np.frombuffer(data if data is not None else b"", np.uint8), starts


def _list_parts(column: pa.Array) -> tuple[npt.NDArray[np.int64], pa.Array]:
    """Where each list starts, and the elements of all lists in a row; a NULL list is empty."""
    lengths = np.asarray(pc.fill_null(pc.list_value_length(_as_list(column)), 0)).astype(np.int64)
    offsets = np.zeros(len(column) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets, pc.list_flatten(_as_list(column))


def _as_list(column: pa.Array) -> pa.Array:
    if not pa.types.is_map(column.type):
        return column
    entry = pa.struct([pa.field("key", column.type.key_type), pa.field("value", column.type.item_type)])
    return column.cast(pa.list_(entry))


def _fields(column: pa.StructArray) -> list[pa.Array]:
    return list(column.flatten())


def _codes(column: pa.DictionaryArray) -> npt.NDArray[np.int64]:
    return np.asarray(column.indices.fill_null(0)).astype(np.int64)


def same_values(left: pa.Array, right: pa.Array) -> npt.NDArray[np.bool_]:
    """Row by row, whether two columns of one type hold equal values (NULL beside NULL counts as equal)."""
    type_ = left.type
    if not len(left):
        return np.zeros(0, np.bool_)
    if pa.types.is_struct(type_):
        equal = np.ones(len(left), np.bool_)
        for a, b in zip(left.flatten(), right.flatten(), strict=True):
            equal &= same_values(a, b)
    elif pa.types.is_map(type_) or pa.types.is_list(type_) or pa.types.is_large_list(type_):
        equal = _same_lists(left, right)
    elif pa.types.is_fixed_size_list(type_):
        as_list = pa.list_(type_.value_type)
        equal = _same_lists(left.cast(as_list), right.cast(as_list))
    elif pa.types.is_dictionary(type_):
        equal = same_values(left.dictionary_decode(), right.dictionary_decode())
    elif pa.types.is_primitive(type_) and not pa.types.is_decimal(type_):
        equal = _words(left) == _words(right)
    else:
        equal = np.asarray(pc.fill_null(pc.equal(left, right), False))
    if not left.null_count and not right.null_count:
        return np.asarray(equal)
    both_valid = np.asarray(left.is_valid()) & np.asarray(right.is_valid())
    both_null = np.asarray(left.is_null()) & np.asarray(right.is_null())
    return np.asarray((both_valid & equal) | both_null)


def _same_lists(left: pa.Array, right: pa.Array) -> npt.NDArray[np.bool_]:
    """Compares elements only of the rows whose lengths agree."""
    lengths_left = np.asarray(pc.fill_null(pc.list_value_length(_as_list(left)), -1))
    lengths_right = np.asarray(pc.fill_null(pc.list_value_length(_as_list(right)), -1))
    equal = lengths_left == lengths_right
    candidates = np.flatnonzero(equal & (lengths_left > 0))
    if len(candidates):
        picked = pa.array(candidates)
        offsets, a = _list_parts(left.take(picked))
        _, b = _list_parts(right.take(picked))
        equal[candidates] = np.logical_and.reduceat(same_values(a, b), offsets[:-1])
    return np.asarray(equal)

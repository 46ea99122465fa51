"""Keys: what a join must treat as equal hashes alike, and nothing else passes as equal."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from watersmeet.kernel.columns.hashing import combine_hashes, hash_column, same_values

NAN = float("nan")

COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "bigint": (pa.int64(), [0, -1, 2**62, None]),
    "tinyint": (pa.int8(), [0, -1, 127, None]),
    "unsigned": (pa.uint32(), [0, 1, 2**32 - 1]),
    "boolean": (pa.bool_(), [True, False, None]),
    "date": (pa.date32(), [dt.date(1969, 12, 31), dt.date(2024, 2, 29)]),
    "timestamp": (pa.timestamp("us", tz="UTC"), [dt.datetime(2024, 1, 1, tzinfo=dt.UTC), None]),
    "double": (pa.float64(), [0.0, 1.5, NAN, None]),
    "float": (pa.float32(), [0.0, 1.5, NAN]),
    "small decimal": (pa.decimal128(10, 2), [Decimal("1.50"), Decimal("-2.00"), None]),
    "large decimal": (pa.decimal128(38, 0), [Decimal(10) ** 30, -(Decimal(10) ** 30), Decimal(1)]),
    "string": (pa.string(), ["", "a", "ab", "abcdefgh", "abcdefgh\0", "é", None]),
    "binary": (pa.binary(), [b"", b"\0", b"\0\0", None]),
    "large string": (pa.large_string(), ["", "x", None]),
    "array": (pa.list_(pa.int64()), [[], [1], [1, 2], [2, 1], [None], [1, None], None]),
    "nested": (pa.list_(pa.list_(pa.string())), [[], [[]], [["a"], []], [[], ["a"]], [["a", None]], None]),
    "struct": (
        pa.struct([("x", pa.int64()), ("y", pa.string())]),
        [{"x": 1, "y": None}, {"x": None, "y": "1"}, None],
    ),
    "fixed": (pa.list_(pa.int64(), 2), [[1, 2], [2, 1], None]),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_equal_values_hash_alike_and_different_ones_are_told_apart(name: str) -> None:
    type_, values = COLUMNS[name]
    left = pa.array([a for a in values for _ in values], type_)
    right = pa.array([b for _ in values for b in values], type_)
    expected = [i == j for i in range(len(values)) for j in range(len(values))]
    assert same_values(left, right).tolist() == expected
    both_valid = np.asarray(left.is_valid()) & np.asarray(right.is_valid())
    alike = hash_column(left) == hash_column(right)
    assert alike[both_valid].tolist() == np.asarray(expected)[both_valid].tolist()


@pytest.mark.parametrize("name", COLUMNS)
def test_a_slice_of_a_column_hashes_as_the_column_does(name: str) -> None:
    type_, values = COLUMNS[name]
    column = pa.array(values * 3, type_)
    part = column.slice(2, len(values) + 1)
    assert hash_column(part).tolist() == hash_column(column)[2 : len(values) + 3].tolist()
    assert same_values(part, part).all()


def test_zeros_and_nans_of_any_kind_are_one_value() -> None:
    other_nan = np.array([0x7FF8000000000001, 0xFFF8000000000000], np.uint64).view(np.float64)
    column = pa.array([0.0, -0.0, NAN, other_nan[0], other_nan[1]])
    hashes = hash_column(column)
    assert hashes[0] == hashes[1]
    assert len(set(hashes[2:].tolist())) == 1
    assert same_values(column.take(pa.array([0, 2, 2])), column.take(pa.array([1, 3, 4]))).all()


def test_dictionary_columns_hash_as_their_values() -> None:
    plain = pa.array(["x", "y", "x", None])
    encoded = plain.dictionary_encode()
    valid = np.asarray(plain.is_valid())
    assert hash_column(encoded)[valid].tolist() == hash_column(plain)[valid].tolist()


def test_the_order_of_combined_columns_counts() -> None:
    a, b = hash_column(pa.array([1, 2])), hash_column(pa.array([2, 1]))
    assert combine_hashes([a, b]).tolist() != combine_hashes([b, a]).tolist()
    assert combine_hashes([a]) is a

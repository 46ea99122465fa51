"""Tuples wait for the watermark, are ordered by event time, then by value, and are numbered once."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa

from watersmeet.kernel.layout import POSITION, TS
from watersmeet.kernel.progress.row_numbers import RowNumberer


def push(
    numberer: RowNumberer, ts: list[int], values: list[Any] | None = None, type_: pa.DataType | None = None
) -> int:
    column = pa.array(values if values is not None else ts, type_)
    return numberer.push(pa.record_batch({TS: pa.array(ts, pa.int64()), "v": column}))


def released(numberer: RowNumberer, watermark: int) -> list[tuple[int, Any, int]]:
    batch, known = numberer.release(watermark)
    if batch is None:
        return []
    assert known.ts.tolist() == batch.column(TS).to_pylist()
    rows = zip(*(batch.column(name).to_pylist() for name in (TS, "v", POSITION)), strict=True)
    return list(rows)


def test_tuples_wait_until_the_watermark_is_past_them() -> None:
    numberer = RowNumberer("waiting")
    push(numberer, [3, 1])
    assert released(numberer, 1) == []
    assert released(numberer, 3) == [(1, 1, 0)]
    assert numberer.buffer.rows == 2  # its chunk stays whole
    push(numberer, [4])
    assert released(numberer, 5) == [(3, 3, 1), (4, 4, 2)]
    assert numberer.buffer.rows == 0


def test_a_tuple_before_the_watermark_is_late() -> None:
    numberer = RowNumberer("waiting")
    released(numberer, 10)
    assert push(numberer, [9, 10]) == 1
    assert released(numberer, 11) == [(10, 10, 0)]


def test_numbers_of_one_instant_are_ordered_null_first_and_nan_last() -> None:
    """As Spark orders them; Arrow alone would put NaN beside the NULLs."""
    numberer = RowNumberer("waiting", ["v"])
    push(numberer, [1] * 5, [math.nan, 2.0, None, -math.inf, math.inf])
    assert str([value for _, value, _ in released(numberer, 2)]) == "[None, -inf, 2.0, inf, nan]"


def test_both_zeros_are_equal_in_the_order() -> None:
    numberer = RowNumberer("waiting", ["v"])
    push(numberer, [1, 1, 1], [0.0, -0.0, -1.0])
    assert str([value for _, value, _ in released(numberer, 2)]) == "[-1.0, 0.0, -0.0]"


def test_nested_values_take_no_part_in_the_order() -> None:
    numberer = RowNumberer("waiting", ["v"])
    push(numberer, [1, 1, 0], [[2], [1], [3]], pa.list_(pa.int64()))
    assert [value for _, value, _ in released(numberer, 2)] == [[3], [2], [1]]

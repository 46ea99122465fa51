"""Conditions in ON mean what they mean in Spark: three-valued, NaN equal to itself, -0.0 equal to 0.0."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from watersmeet.errors import DataError
from watersmeet.kernel.outer.condition import (
    Both,
    Calculation,
    Comparison,
    Condition,
    Constant,
    Either,
    IsNull,
    IsTruth,
    Negation,
    Operator,
    Truth,
    columns_of,
    holds,
)
from watersmeet.oracle.evaluate import evaluate
from watersmeet.query import Expr

VALUES = st.sampled_from([None, 0.0, -0.0, 1.5, -2.0, float("nan"), float("inf")])
OPERATORS = {Operator.EQUAL: "=", Operator.LESS: "<", Operator.AT_MOST: "<=", Operator.SAME: "<=>"}


def _evaluated(condition: Condition, columns: dict[str, pa.Array]) -> list[bool]:
    rows = len(next(iter(columns.values())))
    return [bool(one) for one in holds(condition, columns.__getitem__, rows)]


@st.composite
def conditions(draw: st.DrawFn, depth: int = 2) -> tuple[Condition, str]:
    """A condition over x, y (double) and p (boolean) of one row, and its SQL."""
    kind = draw(st.integers(0, 8 if depth else 3))
    if kind == 0:
        return Truth("r.p"), "r.p"
    if kind == 1:
        return IsNull("r.x"), "(r.x IS NULL)"
    if kind in (2, 3):
        operator = draw(st.sampled_from(list(OPERATORS)))
        return Comparison(operator, "r.x", "r.y"), f"(r.x {OPERATORS[operator]} r.y)"
    (one, first), (other, second) = draw(conditions(depth - 1)), draw(conditions(depth - 1))
    match kind:
        case 4:
            return Both((one, other)), f"({first} AND {second})"
        case 5:
            return Either((one, other)), f"({first} OR {second})"
        case 6:
            return Negation(one), f"(NOT {first})"
        case 7:
            value = draw(st.sampled_from([True, False, None]))
            return IsTruth(one, value), f"({first} IS {'NULL' if value is None else str(value).upper()})"
    value = draw(st.sampled_from([True, False, None]))
    return Both((Constant(value), one)), f"({'NULL' if value is None else str(value).upper()} AND {first})"


@given(conditions(), st.lists(st.tuples(VALUES, VALUES, st.sampled_from([None, True, False])), min_size=1))
def test_conditions_hold_where_the_evaluator_says_so(
    case: tuple[Condition, str], rows: list[tuple[float | None, float | None, bool | None]]
) -> None:
    condition, sql = case
    columns = {
        "r.x": pa.array([x for x, _, _ in rows], pa.float64()),
        "r.y": pa.array([y for _, y, _ in rows], pa.float64()),
        "r.p": pa.array([p for _, _, p in rows], pa.bool_()),
    }
    expected = [evaluate(Expr(sql), {"r": {"x": x, "y": y, "p": p}}) is True for x, y, p in rows]
    assert _evaluated(condition, columns) == expected
    assert set(columns_of(condition)) <= set(columns)


@pytest.mark.parametrize(
    ("type_", "less", "more"),
    [
        (pa.int64(), -(2**63), 2**63 - 1),
        (pa.string(), "Z", "a"),
        (pa.string(), "z", "é"),  # by the bytes of UTF-8
        (pa.string(), "ﬀ", "😀"),  # where UTF-16 would have it the other way round
        (pa.binary(), b"\x7f", b"\x80"),
        (pa.bool_(), False, True),
        (pa.date32(), date(1969, 12, 31), date(2024, 2, 29)),
        (pa.decimal128(10, 2), Decimal("-2.00"), Decimal("1.50")),
        (pa.timestamp("us", tz="UTC"), 0, 1),
    ],
)
def test_values_of_every_type_are_in_sparks_order(type_: pa.DataType, less: Any, more: Any) -> None:
    columns = {"a": pa.array([less, more, less, None], type_), "b": pa.array([more, less, less, less], type_)}
    assert _evaluated(Comparison(Operator.LESS, "a", "b"), columns) == [True, False, False, False]
    assert _evaluated(Comparison(Operator.AT_MOST, "a", "b"), columns) == [True, False, True, False]
    assert _evaluated(Comparison(Operator.EQUAL, "a", "b"), columns) == [False, False, True, False]


def test_columns_of_an_input_of_which_nothing_has_come_are_null() -> None:
    columns = {"a": pa.array([1, 2]), "b": pa.nulls(2)}
    assert _evaluated(Comparison(Operator.EQUAL, "a", "b"), columns) == [False, False]
    assert _evaluated(IsTruth(Comparison(Operator.LESS, "a", "b"), None), columns) == [True, True]
    assert _evaluated(Comparison(Operator.SAME, "b", "b"), columns) == [True, True]
    assert _evaluated(Truth("b"), columns) == [False, False]


def test_numbers_of_several_inputs_are_calculated_as_spark_would() -> None:
    columns = {"a": pa.array([5, 1, None, -4]), "b": pa.array([3, 3, 3, -5]), "two": pa.array([2, 2, 2, 2])}
    distance = Calculation("abs", (Calculation("-", ("a", "b")),))
    assert _evaluated(Comparison(Operator.AT_MOST, "two", distance), columns) == [True, True, False, False]
    product = Calculation("*", ("a", Calculation("+", ("b", "two"))))
    assert _evaluated(Comparison(Operator.LESS, product, "two"), columns) == [False, False, False, False]
    assert set(columns_of(Comparison(Operator.LESS, product, distance))) == {"a", "b", "two"}


def test_a_whole_number_that_its_type_cannot_hold_is_an_error() -> None:
    columns = {"a": pa.array([2**62]), "b": pa.array([2**62])}
    with pytest.raises(DataError, match=r"\(a \+ b\), in a condition of a join: overflow. CAST"):
        _evaluated(Comparison(Operator.LESS, Calculation("+", ("a", "b")), "b"), columns)


def test_columns_of_different_types_are_refused() -> None:
    columns = {"a": pa.array([1]), "b": pa.array(["1"])}
    with pytest.raises(DataError, match="a = b compares int64 with string: cast both sides"):
        _evaluated(Comparison(Operator.EQUAL, "a", "b"), columns)

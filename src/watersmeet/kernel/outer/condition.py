"""Conditions that decide which combinations match, evaluated on columns as Spark would: three-valued.

Operands are columns that Spark has computed, each from one input, and cast to the type that both sides of a
comparison share. What is left to do here are comparisons, the connectives, and sums, differences and products
of numbers of one type, which is little enough to do exactly as Spark does: NULL is unknown, NaN equals itself
and follows all other numbers, the two zeros are equal, texts are compared byte by byte, and a whole number
that its type cannot hold is an error.

    a.v > b.v OR b.flag    over a.v 1, b.v NULL, b.flag TRUE: unknown or true, so true
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from functools import reduce

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.errors import DataError
from watersmeet.kernel.columns.hashing import same_values

ColumnAt = Callable[[str], pa.Array]


class Operator(Enum):
    """How two values are compared; the last one knows NULL as a value."""

    EQUAL = "="
    LESS = "<"
    AT_MOST = "<="
    SAME = "<=>"


@dataclass(frozen=True)
class Constant:
    """A truth value; None is unknown."""

    value: bool | None


@dataclass(frozen=True)
class Truth:
    """A column of truth values."""

    column: str


@dataclass(frozen=True)
class IsNull:
    """Whether a column is NULL: never unknown."""

    column: str


@dataclass(frozen=True)
class Calculation:
    """`+`, `-`, `*`, or the absolute value `abs`, of numbers of one type."""

    operator: str
    operands: tuple[Operand, ...]


Operand = str | Calculation  # a column, or what is calculated of columns


@dataclass(frozen=True)
class Comparison:
    """Two values of one type, compared."""

    operator: Operator
    left: Operand
    right: Operand


@dataclass(frozen=True)
class Both:
    """AND over any number of conditions."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True)
class Either:
    """OR over any number of conditions."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True)
class Negation:
    """NOT."""

    part: Condition


@dataclass(frozen=True)
class IsTruth:
    """IS TRUE, IS FALSE or IS NULL (`value` None) of a condition: never unknown."""

    part: Condition
    value: bool | None


Condition = Constant | Truth | IsNull | Comparison | Both | Either | Negation | IsTruth


def columns_of(condition: Condition) -> Iterator[str]:
    """The columns a condition reads; some maybe more than once."""
    match condition:
        case Truth(column) | IsNull(column):
            yield column
        case Comparison(_, left, right):
            yield from _columns_in(left)
            yield from _columns_in(right)
        case Both(parts) | Either(parts):
            for part in parts:
                yield from columns_of(part)
        case Negation(part) | IsTruth(part, _):
            yield from columns_of(part)


def _columns_in(operand: Operand) -> Iterator[str]:
    if isinstance(operand, str):
        yield operand
    else:
        for one in operand.operands:
            yield from _columns_in(one)


def holds(condition: Condition, column: ColumnAt, rows: int) -> npt.NDArray[np.bool_]:
    """In which of so many rows a condition is true, and neither false nor unknown."""
    return np.asarray(pc.fill_null(_evaluate(condition, column, rows), False))


def _evaluate(condition: Condition, column: ColumnAt, rows: int) -> pa.Array:
    match condition:
        case Constant(value):
            return pa.array([value], pa.bool_()).take(pa.array(np.zeros(rows, np.int64)))
        case Truth(name):
            values = column(name)
            return pa.nulls(rows, pa.bool_()) if pa.types.is_null(values.type) else values
        case IsNull(name):
            return pc.is_null(column(name))
        case Comparison(operator, left, right):
            text = f"{_text(left)} {operator.value} {_text(right)}"
            return _compare(operator, _value(left, column), _value(right, column), text)
        case Both(parts):
            return reduce(pc.and_kleene, [_evaluate(part, column, rows) for part in parts])
        case Either(parts):
            return reduce(pc.or_kleene, [_evaluate(part, column, rows) for part in parts])
        case Negation(part):
            return pc.invert(_evaluate(part, column, rows))
        case IsTruth(part, value):
            found = _evaluate(part, column, rows)
            if value is None:
                return pc.is_null(found)
            return pc.fill_null(found if value else pc.invert(found), False)


_CALCULATIONS = {
    "+": pc.add_checked,
    "-": pc.subtract_checked,
    "*": pc.multiply_checked,
    "abs": pc.abs_checked,
}


def _value(operand: Operand, column: ColumnAt) -> pa.Array:
    if isinstance(operand, str):
        return column(operand)
    values = [_value(one, column) for one in operand.operands]
    if any(pa.types.is_null(each.type) for each in values):
        return pa.nulls(len(values[0]))
    types = {each.type for each in values}
    if len(types) > 1:
        raise DataError(
            f"{_text(operand)} is of {' and '.join(map(str, types))}: cast both sides to one type"
        )
    try:
        return _CALCULATIONS[operand.operator](*values)
    except pa.ArrowInvalid as error:
        raise DataError(
            f"{_text(operand)}, in a condition of a join: {error}. CAST to a wider type"
        ) from error


def _text(operand: Operand) -> str:
    if isinstance(operand, str):
        return operand
    if len(operand.operands) == 1:
        return f"{operand.operator}({_text(operand.operands[0])})"
    return f"({f' {operand.operator} '.join(map(_text, operand.operands))})"


def _compare(operator: Operator, left: pa.Array, right: pa.Array, text: str) -> pa.Array:
    nothing = pa.types.is_null(left.type), pa.types.is_null(right.type)
    if any(nothing):  # no tuple of an input has come yet
        if operator is Operator.SAME:
            return pc.and_(pc.is_null(left), pc.is_null(right))
        return pa.nulls(len(left), pa.bool_())
    if left.type != right.type:
        raise DataError(f"{text} compares {left.type} with {right.type}: cast both sides to one type")
    if operator is Operator.SAME:
        return pa.array(same_values(left, right))
    if operator is Operator.EQUAL:
        found = same_values(left, right)
    elif operator is Operator.LESS:
        found = _precedes(left, right)
    else:
        found = ~_precedes(right, left)
    if not left.null_count and not right.null_count:
        return pa.array(found)
    return pa.array(found, mask=~(np.asarray(left.is_valid()) & np.asarray(right.is_valid())))


def _precedes(left: pa.Array, right: pa.Array) -> npt.NDArray[np.bool_]:
    """Where one value comes before the other; rows with NULL hold anything."""
    if pa.types.is_boolean(left.type):
        left, right = left.cast(pa.uint8()), right.cast(pa.uint8())
    found = np.asarray(pc.fill_null(pc.less(left, right), False))
    if pa.types.is_floating(left.type):
        number, is_nan = pc.fill_null(pc.is_nan(left), False), pc.fill_null(pc.is_nan(right), False)
        found = found | (~np.asarray(number) & np.asarray(is_nan))
    return found

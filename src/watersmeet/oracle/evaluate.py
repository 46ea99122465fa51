"""Expressions evaluated naively, for the oracle and the lab: one combination of rows at a time.

Where data flows Spark evaluates expressions; this is the small part of Spark SQL (ANSI mode, three-valued
logic) that tests and simulations need. What it does not know it refuses by name, never guesses.

    >>> evaluate(Expr("a.v + 1 > b.v"), {"a": {"v": 3}, "b": {"v": None}}) is None
    True
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_HALF_UP, Decimal
from functools import lru_cache
from typing import Any

import sqlglot
from sqlglot import exp

from watersmeet.errors import WatersmeetError
from watersmeet.oracle.cast import cast_value
from watersmeet.query.duration import unit_us
from watersmeet.query.expression import ANSWER_TIME, Expr
from watersmeet.query.values import canonical, equal, order_key

Rows = Mapping[str, Mapping[str, Any]]  # one combination: alias -> column -> value

__all__ = ["Rows", "equal", "evaluate", "evaluate_group"]


def evaluate(expr: Expr, rows: Rows, answer_time: int | None = None) -> Any:
    """The value of an expression over one combination."""
    return _value(_parse(expr.sql), _Scope(rows, answer_time))


def evaluate_group(expr: Expr, group: Sequence[Rows], answer_time: int | None = None) -> Any:
    """The value of an expression with aggregates over a group of combinations, which is never empty."""
    return _value(_parse(expr.sql), _Scope(group[0], answer_time, tuple(group)))


@dataclass(frozen=True)
class _Scope:
    """What names stand for; `group` is there where aggregates may be."""

    rows: Rows
    answer_time: int | None
    group: tuple[Rows, ...] | None = None


@lru_cache(maxsize=4096)
def _parse(sql: str) -> exp.Expr:
    return sqlglot.parse_one(sql, dialect="spark")


def _value(node: exp.Expr, scope: _Scope) -> Any:
    if isinstance(node, exp.Anonymous):
        return _named_function(node, scope)
    form = SPECIAL_FORMS.get(type(node))
    if form:
        return form(node, scope)
    function = STRICT_FUNCTIONS.get(type(node))
    if not function:
        raise _unknown(node)
    arguments = [_value(argument, scope) for argument in _arguments(node)]
    return None if any(argument is None for argument in arguments) else function(*arguments)


def _unknown(node: exp.Expr) -> WatersmeetError:
    return WatersmeetError(
        f"the oracle cannot evaluate {node.sql(dialect='spark')}: "
        f"it knows no {type(node).__name__}; Spark runs such a query, only the naive evaluator does not"
    )


def _arguments(node: exp.Expr) -> list[exp.Expr]:
    """The expressions a node applies to, in the order they are written."""
    found: list[exp.Expr] = []
    for argument in node.args.values():
        parts = argument if isinstance(argument, list) else [argument]
        found += [part for part in parts if isinstance(part, exp.Expr)]
    return found


def _named_function(node: exp.Anonymous, scope: _Scope) -> Any:
    function = NAMED_FUNCTIONS.get(node.name.lower())
    if not function:
        raise _unknown(node)
    return function([_value(argument, scope) for argument in node.expressions])


def _column(node: exp.Column, scope: _Scope) -> Any:
    names = node.meta.get("names") or node.meta.setdefault("names", [part.name for part in node.parts])
    if names == [ANSWER_TIME]:
        return scope.answer_time
    alias, *path = names
    if alias not in scope.rows or not path or path[0] not in scope.rows[alias]:
        raise WatersmeetError(f"the rows at hand have no column {'.'.join(names)}")
    value: Any = scope.rows[alias]
    for name in path:
        value = None if value is None else value[name]
    return value


def _literal(node: exp.Literal, scope: _Scope) -> Any:
    if node.is_string:
        return node.name
    if re.fullmatch(r"\d+", node.name):
        return int(node.name)
    return float(node.name) if "e" in node.name.lower() else Decimal(node.name)


def _interval(node: exp.Interval, scope: _Scope) -> int:
    unit = unit_us(node.unit.name) if node.unit else None
    if unit is None:
        raise _unknown(node)
    return int(Decimal(node.name) * unit)


def _all(truths: Sequence[bool | None]) -> bool | None:
    return False if False in truths else None if None in truths else True


def _any(truths: Sequence[bool | None]) -> bool | None:
    return True if True in truths else None if None in truths else False


def _and(node: exp.And, scope: _Scope) -> bool | None:
    return _all([_value(node.left, scope), _value(node.right, scope)])


def _or(node: exp.Or, scope: _Scope) -> bool | None:
    return _any([_value(node.left, scope), _value(node.right, scope)])


def _between(node: exp.Between, scope: _Scope) -> bool | None:
    value, low, high = (_value(node.args[name], scope) for name in ("this", "low", "high"))
    return _all([_at_most(low, value), _at_most(value, high)])


def _at_most(a: Any, b: Any) -> bool | None:
    return None if a is None or b is None else order_key(a) <= order_key(b)


def _is(node: exp.Is, scope: _Scope) -> bool:
    value, what = _value(node.this, scope), _value(node.expression, scope)
    return value is what  # NULL, TRUE and FALSE are single objects


def _null_safe_equal(node: exp.NullSafeEQ | exp.NullSafeNEQ, scope: _Scope) -> bool:
    return canonical(_value(node.left, scope)) == canonical(_value(node.right, scope))


def _in(node: exp.In, scope: _Scope) -> bool | None:
    if not node.expressions:
        raise _unknown(node)
    value = _value(node.this, scope)
    return _any([equal(value, _value(choice, scope)) for choice in node.expressions])


def _case(node: exp.Case, scope: _Scope) -> Any:
    for branch in node.args["ifs"]:
        condition = _value(branch.this, scope)
        if node.this:
            condition = equal(_value(node.this, scope), condition)
        if condition is True:
            return _value(branch.args["true"], scope)
    default = node.args.get("default")
    return None if default is None else _value(default, scope)


def _if(node: exp.If, scope: _Scope) -> Any:
    chosen = node.args["true"] if _value(node.this, scope) is True else node.args.get("false")
    return None if chosen is None else _value(chosen, scope)


def _coalesce(node: exp.Coalesce, scope: _Scope) -> Any:
    values = (_value(argument, scope) for argument in [node.this, *node.expressions])
    return next((value for value in values if value is not None), None)


def _extreme(choose: Callable[..., Any]) -> Callable[[Any, _Scope], Any]:
    """GREATEST or LEAST, which skip NULLs."""

    def value_of(node: exp.Expr, scope: _Scope) -> Any:
        values = [_value(argument, scope) for argument in [node.this, *node.expressions]]
        return choose((value for value in values if value is not None), key=order_key, default=None)

    return value_of


def _nullif(node: exp.Nullif, scope: _Scope) -> Any:
    value = _value(node.this, scope)
    return None if equal(value, _value(node.expression, scope)) else value


def _array(node: exp.Array, scope: _Scope) -> list[Any]:
    return [_value(part, scope) for part in node.expressions]


def _array_sort(node: exp.ArraySort, scope: _Scope) -> Any:
    if node.expression:
        raise _unknown(node)
    values = _value(node.this, scope)
    if values is None:
        return None
    nulls = [value for value in values if value is None]
    others = sorted((value for value in values if value is not None), key=order_key)
    nulls_first = node.args.get("nulls_first")
    return nulls + others if nulls_first and nulls_first.this else others + nulls


def _cast(node: exp.Cast, scope: _Scope) -> Any:
    return cast_value(_value(node.this, scope), node.to.sql(dialect="spark"))


def _aggregate(node: exp.Expr, scope: _Scope) -> Any:
    if scope.group is None:
        raise WatersmeetError(f"{node.sql(dialect='spark')} is an aggregate, which needs a group")
    members = [replace(scope, rows=rows, group=None) for rows in scope.group]
    if isinstance(node.this, exp.Star):
        return len(members)
    distinct = isinstance(node.this, exp.Distinct)
    arguments = node.this.expressions if distinct else [node.this]
    if len(arguments) != 1:
        raise _unknown(node)
    values = [value for member in members if (value := _value(arguments[0], member)) is not None]
    if distinct:
        values = list({canonical(value): value for value in values}.values())
    if isinstance(node, exp.Count):
        return len(values)
    return AGGREGATES[type(node)](values) if values else None


def _mean(values: list[Any]) -> Any:
    total = sum(values)
    return total / len(values)


AGGREGATES: dict[type, Callable[[list[Any]], Any]] = {
    exp.Sum: sum,
    exp.Avg: _mean,
    exp.Min: lambda values: min(values, key=order_key),
    exp.Max: lambda values: max(values, key=order_key),
}


def _compare(holds: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    return lambda a, b: holds(order_key(a), order_key(b))


def _divide(a: Any, b: Any) -> Any:
    _refuse_zero(b)
    return a / b if isinstance(a, Decimal) or isinstance(b, Decimal) else float(a) / float(b)


def _remainder(a: Any, b: Any) -> Any:
    _refuse_zero(b)
    return math.fmod(a, b) if isinstance(a, float) or isinstance(b, float) else a - b * _truncate(a, b)


def _truncate(a: Any, b: Any) -> int:
    _refuse_zero(b)
    whole = abs(a) // abs(b)
    return int(whole if (a < 0) == (b < 0) else -whole)


def _refuse_zero(divisor: Any) -> None:
    if divisor == 0:
        raise WatersmeetError("division by zero, an error in Spark too")


def _like(text: str, pattern: str) -> bool:
    wanted, position = "", 0
    while position < len(pattern):
        letter = pattern[position]
        if letter == "\\" and position + 1 < len(pattern):
            position += 1
            wanted += re.escape(pattern[position])
        else:
            wanted += {"%": ".*", "_": "."}.get(letter, re.escape(letter))
        position += 1
    return re.fullmatch(wanted, text, re.DOTALL) is not None


def _substring(text: Any, start: int, length: int | None = None) -> Any:
    begin = start - 1 if start > 0 else len(text) + start if start < 0 else 0
    end = len(text) if length is None else begin + length
    return text[max(begin, 0) : max(end, 0)]


def _round(value: Any, decimals: int = 0) -> Any:
    rounded = Decimal(str(value)).quantize(Decimal(1).scaleb(-decimals), ROUND_HALF_UP)
    return type(value)(rounded)


def _concat(*parts: Any) -> Any:
    if isinstance(parts[0], list):
        return [item for part in parts for item in part]
    return "".join(cast_value(part, "string") for part in parts)


def _contains(values: list[Any], wanted: Any) -> bool | None:
    return _any([equal(value, wanted) for value in values])


SPECIAL_FORMS: dict[type, Callable[[Any, _Scope], Any]] = {
    exp.Column: _column,
    exp.Literal: _literal,
    exp.HexString: lambda node, scope: bytes.fromhex(node.name),
    exp.Interval: _interval,
    exp.Boolean: lambda node, scope: bool(node.this),
    exp.Null: lambda node, scope: None,
    exp.And: _and,
    exp.Or: _or,
    exp.Between: _between,
    exp.Is: _is,
    exp.NullSafeEQ: _null_safe_equal,
    exp.NullSafeNEQ: lambda node, scope: not _null_safe_equal(node, scope),
    exp.In: _in,
    exp.Case: _case,
    exp.If: _if,
    exp.Coalesce: _coalesce,
    exp.Nullif: _nullif,
    exp.Greatest: _extreme(max),
    exp.Least: _extreme(min),
    exp.Array: _array,
    exp.ArraySort: _array_sort,
    exp.Cast: _cast,
    exp.TryCast: _cast,
    exp.Count: _aggregate,
    exp.Sum: _aggregate,
    exp.Avg: _aggregate,
    exp.Min: _aggregate,
    exp.Max: _aggregate,
}

# Functions that are NULL as soon as one argument is.
STRICT_FUNCTIONS: dict[type, Callable[..., Any]] = {
    exp.Paren: lambda value: value,
    exp.Not: operator.not_,
    exp.Neg: operator.neg,
    exp.EQ: equal,
    exp.NEQ: lambda a, b: not equal(a, b),
    exp.LT: _compare(operator.lt),
    exp.LTE: _at_most,
    exp.GT: _compare(operator.gt),
    exp.GTE: _compare(operator.ge),
    exp.Like: _like,
    exp.RegexpLike: lambda text, pattern: re.search(pattern, text) is not None,
    exp.Add: operator.add,
    exp.Sub: operator.sub,
    exp.Mul: operator.mul,
    exp.Div: _divide,
    exp.IntDiv: _truncate,
    exp.Mod: _remainder,
    exp.Abs: abs,
    exp.Floor: math.floor,
    exp.Ceil: math.ceil,
    exp.Round: _round,
    exp.Sqrt: math.sqrt,
    exp.Lower: str.lower,
    exp.Upper: str.upper,
    exp.Trim: lambda text: text.strip(" "),
    exp.Length: len,
    exp.Substring: _substring,
    exp.Concat: _concat,
    exp.DPipe: _concat,
    exp.ArraySize: len,
    exp.ArrayContains: _contains,
    exp.IsNan: lambda value: value != value,
}

NAMED_FUNCTIONS: dict[str, Callable[[list[Any]], Any]] = {
    "isnull": lambda arguments: arguments[0] is None,
    "isnotnull": lambda arguments: arguments[0] is not None,
}

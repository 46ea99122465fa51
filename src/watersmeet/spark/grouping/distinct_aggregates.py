"""Aggregates over distinct values, in a form that Spark's streaming aggregation takes.

Spark refuses `count(DISTINCT x)` on streams. All samples of a tick meet in one batch, so the distinct values
of a group can be collected, and then counted or added up.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from sqlglot import exp, parse_one

from watersmeet.errors import ConfigurationError

TypeOf = Callable[[str], str | None]  # of a column, by its text: `a.v`

_WHOLE = ("tinyint", "byte", "smallint", "short", "int", "integer", "bigint", "long")
_BROKEN = ("float", "real", "double")
_DECIMAL = re.compile(r"decimal\(\s*(\d+)\s*,\s*(\d+)\s*\)")


def without_distinct(sql: str, type_of: TypeOf = lambda column: None) -> str:
    """The same aggregate expression with no DISTINCT inside.

    >>> without_distinct("count(DISTINCT a.v)")
    'SIZE(COLLECT_SET(a.v))'
    """
    if "distinct" not in sql.lower():
        return sql
    tree = parse_one(sql, dialect="spark")
    if not tree.find(exp.Distinct):
        return sql
    return tree.transform(lambda node: _rewrite(node, type_of)).sql(dialect="spark")


def _rewrite(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    distinct = node.this if isinstance(node, exp.AggFunc) and isinstance(node.this, exp.Distinct) else None
    if distinct is None:
        return node
    if isinstance(node, exp.Min | exp.Max):
        return type(node)(this=distinct.expressions[0])
    if isinstance(node, exp.Count):
        return exp.func("size", exp.func("collect_set", _together(distinct.expressions), dialect="spark"))
    if isinstance(node, exp.Sum | exp.Avg) and len(distinct.expressions) == 1:
        return _folded(node, distinct.expressions[0], type_of)
    raise ConfigurationError(
        f"{node.sql(dialect='spark')}: of the aggregates over distinct values a stream can take "
        "COUNT, MIN, MAX, SUM and AVG; write the others without DISTINCT"
    )


def _folded(node: exp.Sum | exp.Avg, value: exp.Expr, type_of: TypeOf) -> exp.Expr:
    """The sum or mean of the values collected, in the type that Spark gives it; NULL if there are none."""
    values, is_mean = f"collect_set({value.sql(dialect='spark')})", isinstance(node, exp.Avg)
    total = _type_of_total(_type(value, type_of), is_mean=is_mean)
    if total is None:
        raise ConfigurationError(
            f"{node.sql(dialect='spark')}: the type of what is added up is not certain, or none that can be. "
            "Write a column of whole numbers, DOUBLE or DECIMAL, or CAST(... AS BIGINT)"
        )
    # The names of the lambda are ours, so that no column can have them.
    added = f"CAST(__sum + CAST(__one AS {total}) AS {total})"
    folded = f"aggregate({values}, CAST(0 AS {total}), (__sum, __one) -> {added})"
    share = f" / size({values})" if is_mean else ""
    return parse_one(f"CASE WHEN size({values}) > 0 THEN {folded}{share} END", dialect="spark")


def _type(value: exp.Expr, type_of: TypeOf) -> str | None:
    if isinstance(value, exp.Cast):
        return value.to.sql(dialect="spark").lower()
    return type_of(value.sql(dialect="spark")) if isinstance(value, exp.Column) else None


def _type_of_total(type_: str | None, *, is_mean: bool) -> str | None:
    """The type of Spark's sum of such values; means are taken of numbers that are no decimals."""
    if type_ in _BROKEN or (is_mean and type_ in _WHOLE):
        return "DOUBLE"
    if type_ in _WHOLE:
        return "BIGINT"
    decimal = _DECIMAL.fullmatch(type_ or "")
    return f"DECIMAL({min(38, int(decimal[1]) + 10)}, {decimal[2]})" if decimal and not is_mean else None


def _together(values: list[exp.Expr]) -> exp.Expr:
    """Several values as one; a NULL among them makes the whole not count, as in SQL."""
    if len(values) == 1:
        return values[0]
    complete = exp.and_(*(exp.Not(this=exp.Is(this=value.copy(), expression=exp.Null())) for value in values))
    return exp.Case().when(complete, exp.func("struct", *values, dialect="spark"))

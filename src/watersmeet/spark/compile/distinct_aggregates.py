"""Aggregates over distinct values, in a form that Spark's streaming aggregation takes.

Spark refuses `count(DISTINCT x)` on streams. All samples of a tick meet in one batch, so the distinct values
of a group can be collected and counted instead.
"""

from __future__ import annotations

from sqlglot import exp, parse_one

from watersmeet.errors import ConfigurationError


def without_distinct(sql: str) -> str:
    """The same aggregate expression with no DISTINCT inside.

    >>> without_distinct("count(DISTINCT a.v)")
    'SIZE(COLLECT_SET(a.v))'
    """
    if "distinct" not in sql.lower():
        return sql
    tree = parse_one(sql, dialect="spark")
    if not tree.find(exp.Distinct):
        return sql
    return tree.transform(_rewrite).sql(dialect="spark")


def _rewrite(node: exp.Expr) -> exp.Expr:
    distinct = node.this if isinstance(node, exp.AggFunc) and isinstance(node.this, exp.Distinct) else None
    if distinct is None:
        return node
    if isinstance(node, exp.Min | exp.Max):
        return type(node)(this=distinct.expressions[0])
    if isinstance(node, exp.Count):
        return exp.func("size", exp.func("collect_set", _together(distinct.expressions), dialect="spark"))
    raise ConfigurationError(
        f"{node.sql(dialect='spark')}: of the aggregates over distinct values a stream can take "
        "COUNT, MIN and MAX; write the others without DISTINCT"
    )


def _together(values: list[exp.Expr]) -> exp.Expr:
    """Several values as one; a NULL among them makes the whole not count, as in SQL."""
    if len(values) == 1:
        return values[0]
    complete = exp.and_(*(exp.Not(this=exp.Is(this=value.copy(), expression=exp.Null())) for value in values))
    return exp.Case().when(complete, exp.func("struct", *values, dialect="spark"))

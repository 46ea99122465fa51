"""Which conditions cannot be true of an input that is missing, that is with NULL in all of its columns.

    b.v > 1, b.k = c.k, b.v + 1 < a.v, b.k IS NOT NULL    cannot
    b.v IS NULL, coalesce(b.v, 0) < 1                     can

What is not understood can.
"""

from __future__ import annotations

from functools import lru_cache

import sqlglot
from sqlglot import exp

from watersmeet.query import Expr

_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Like)
# NULL where their first argument is, whatever the others are.
_FUNCTIONS = (
    exp.Abs,
    exp.Ceil,
    exp.Floor,
    exp.Length,
    exp.Lower,
    exp.Round,
    exp.Substring,
    exp.Trim,
    exp.Upper,
)
_ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod)


def rejected_inputs(condition: Expr) -> frozenset[str]:
    """The inputs without which the condition is never true."""
    node = _parse(condition.sql)
    return frozenset() if node is None else _rejected(node) & set(condition.aliases)


def is_null_without(expr: Expr) -> bool:
    """Whether an expression over one input is NULL if that is missing."""
    if expr.is_column:
        return True
    node = _parse(expr.sql)
    return node is not None and set(expr.aliases) <= _read_strictly(node)


@lru_cache(maxsize=1024)
def _parse(sql: str) -> exp.Expr | None:
    try:
        return sqlglot.parse_one(sql, dialect="spark")
    except Exception:  # its parser may raise anything
        return None


def _rejected(node: exp.Expr) -> frozenset[str]:
    match node:
        case exp.Paren():
            return _rejected(node.this)
        case exp.And():
            return _rejected(node.left) | _rejected(node.right)
        case exp.Or():
            return _rejected(node.left) & _rejected(node.right)
        case exp.Not(this=exp.Is(expression=exp.Null())):
            return _read_strictly(node.this.this)
        case exp.Between():
            bounds = (node.this, node.args["low"], node.args["high"])
            return frozenset().union(*(_read_strictly(each) for each in bounds))
        case exp.In():
            return _read_strictly(node.this)
    if isinstance(node, _COMPARISONS):
        return _read_strictly(node.left) | _read_strictly(node.right)
    return frozenset()


def _read_strictly(node: exp.Expr) -> frozenset[str]:
    """The inputs whose absence makes a value NULL."""
    if isinstance(node, exp.Column):
        return frozenset({node.parts[0].name})
    if isinstance(node, (exp.Paren, exp.Neg, exp.Cast, *_FUNCTIONS)):
        return _read_strictly(node.this)
    if isinstance(node, _ARITHMETIC):
        return _read_strictly(node.left) | _read_strictly(node.right)
    return frozenset()

"""Conditions that are exact without Spark: a column against a constant, or against another column.

Watersmeet does not re-implement Spark's expressions. But a shared dataflow tells thousands of queries apart
by conditions like `R.A = 5`, so the few comparisons that leave no doubt are evaluated here: of whole numbers,
strings, booleans, dates and timestamps with a literal of the same type, or with one another. They involve no
cast, no rounding and no session time zone. Everything else stays text, for Spark.

    a.v >= 5            Test("s1[..]#0.v", ">=", 5)          a.v > 1.5      stays text
    3 < b.n             Test("s2[..]#0.n", ">", 3)           a.d = '2024'   stays text
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Mapping
from functools import lru_cache

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from watersmeet.query import Expr
from watersmeet.query.shared_dataflow import Test
from watersmeet.query.values import timestamp_us

_OPS: Mapping[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "<>": "<>"}
_BITS = {
    "tinyint": 8,
    "byte": 8,
    "smallint": 16,
    "short": 16,
    "int": 32,
    "integer": 32,
    "bigint": 64,
    "long": 64,
}
_FAMILIES = {
    **dict.fromkeys(_BITS, "integer"),
    "string": "string",
    "boolean": "boolean",
    "date": "date",
    "timestamp": "timestamp",
    "timestamp_ltz": "timestamp",
    "timestamp_ntz": "timestamp_ntz",
}
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d{1,6})?")
_ZONE = re.compile(r"(Z|[+-]\d\d:\d\d)$")
_EPOCH_DAY = dt.date(1970, 1, 1)

Constant = int | str | bool
Side = tuple[str, str]  # a qualified column and its type
Resolve = Callable[[str, str], Side | None]  # from alias and column as the query has them


def exact_tests(condition: Expr, resolve: Resolve) -> tuple[Test, ...] | None:
    """The tests that a condition amounts to, or None where it is left to Spark."""
    tree = _parse(condition.sql)
    if tree is None or condition.uses_answer_time:
        return None
    if isinstance(tree, exp.Between):
        if tree.args.get("symmetric"):
            return None
        bounds = ((">=", tree.args["low"]), ("<=", tree.args["high"]))
        tests = [_compare(op, tree.this, bound, resolve) for op, bound in bounds]
    elif isinstance(tree, exp.Column | exp.Not):
        tests = [_truth(tree, resolve)]
    elif type(tree) in _OPS:
        tests = [_compare(_OPS[type(tree)], tree.this, tree.expression, resolve)]
    else:
        return None
    found = tuple(test for test in tests if test is not None)
    return found if len(found) == len(tests) else None


@lru_cache(maxsize=4096)
def _parse(sql: str) -> exp.Expr | None:
    try:
        return sqlglot.parse_one(sql, read="spark").unnest()
    except SqlglotError:
        return None


def _compare(op: str, left: exp.Expr, right: exp.Expr, resolve: Resolve) -> Test | None:
    left, right = left.unnest(), right.unnest()
    if not isinstance(left, exp.Column):
        left, right, op = right, left, _FLIPPED[op]
    side = _side(left, resolve)
    if side is None:
        return None
    column, type_ = side
    family = _FAMILIES.get(type_)
    if family is None or (family == "boolean" and op not in ("=", "<>")):
        return None
    other = _side(right, resolve)
    if other is not None:
        if _FAMILIES.get(other[1]) != family:
            return None
        if other[0] < column:
            return Test(other[0], _FLIPPED[op], other=column)
        return Test(column, op, other=other[0])
    constant = _constant(right, family, type_)
    return None if constant is None else Test(column, op, constant)


def _truth(tree: exp.Expr, resolve: Resolve) -> Test | None:
    """A boolean column by itself, or negated."""
    negated = isinstance(tree, exp.Not)
    side = _side(tree.this.unnest() if negated else tree, resolve)
    return Test(side[0], "=", not negated) if side is not None and side[1] == "boolean" else None


def _side(node: exp.Expr, resolve: Resolve) -> Side | None:
    if not isinstance(node, exp.Column) or node.args.get("db") or not node.table:
        return None
    return resolve(node.table, node.name)


def _constant(node: exp.Expr, family: str, type_: str) -> Constant | None:
    """A literal of the family's type; times are whole microseconds or days."""
    match family:
        case "integer":
            return _integer(node, _BITS[type_])
        case "string":
            return _text(node)
        case "boolean":
            return bool(node.this) if isinstance(node, exp.Boolean) else None
    if not isinstance(node, exp.Cast) or isinstance(node, exp.TryCast):
        return None
    text = _text(node.this)
    return None if text is None else _moment(text, node.to.this, family)


def _moment(text: str, kind: exp.DType, family: str) -> int | None:
    try:
        if family == "date":
            is_day = kind == exp.DType.DATE and _DATE.fullmatch(text)
            return (dt.date.fromisoformat(text) - _EPOCH_DAY).days if is_day else None
        zone = _ZONE.search(text)
        if not _MOMENT.fullmatch(text[: zone.start()] if zone else text):
            return None
        is_local = kind == exp.DType.TIMESTAMPNTZ
        if (family == "timestamp_ntz") == is_local == (zone is None) and kind in _TIMES:
            return timestamp_us(dt.datetime.fromisoformat(text))
    except ValueError:
        pass
    return None


_TIMES = (exp.DType.TIMESTAMP, exp.DType.TIMESTAMPTZ, exp.DType.TIMESTAMPLTZ, exp.DType.TIMESTAMPNTZ)


def _integer(node: exp.Expr, bits: int) -> int | None:
    sign = 1
    if isinstance(node, exp.Neg):
        sign, node = -1, node.this.unnest()
    if not isinstance(node, exp.Literal) or node.is_string or not node.this.isdigit():
        return None
    value = sign * int(node.this)
    return value if -(2 ** (bits - 1)) <= value < 2 ** (bits - 1) else None


def _text(node: exp.Expr) -> str | None:
    """A plain string; strings with escapes are left to Spark, whose settings decide what they mean."""
    if not isinstance(node, exp.Literal) or not node.is_string:
        return None
    text = str(node.this)
    return text if not re.search(r"[\\'\x00-\x1f]", text) else None

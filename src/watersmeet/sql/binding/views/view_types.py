"""The types of a view's columns: each is declared by what it is made of, and made to be of that type.

A view is a stream that others read by its types, so none may be left open, as it may in a SELECT list.
"""

from __future__ import annotations

from sqlglot import exp

from watersmeet.query import Expr, Output
from watersmeet.sql.syntax.refuse import Source
from watersmeet.sql.syntax.types import read_type, spell_type

_RETURNS = {
    **dict.fromkeys(("to_date", "date_add", "date_sub", "last_day", "next_day"), "date"),
    **dict.fromkeys(("to_timestamp", "date_trunc", "timestamp_micros", "timestamp_millis"), "timestamp"),
    "timestamp_seconds": "timestamp",
    **dict.fromkeys(("startswith", "endswith", "isnull", "isnotnull", "rlike", "array_contains"), "boolean"),
}


def typed(source: Source, owner: str, output: Output, node: exp.Expr) -> Expr:
    """A column's expression with a type that is certain, cast to it where Spark may make another of it."""
    expr, inside = output.expr, node.this if isinstance(node, exp.Alias) else node
    if expr.is_column and expr.type:
        return expr
    type_ = expr.type or _RETURNS.get(inside.name.lower() if isinstance(inside, exp.Anonymous) else "")
    if not type_:
        raise source.refuse(
            f"the type of column {output.name} of {owner} is not certain",
            node,
            f"Say what it is: CAST({source.quote(inside)} AS ...) AS {output.name}.",
        )
    if isinstance(inside, exp.Cast) or expr.is_column or type_ in ("string", "boolean"):
        return Expr(expr.sql, expr.columns, type_)
    return Expr(f"CAST({expr.sql} AS {type_})", expr.columns, type_)


def element_type(array: str) -> str | None:
    """The type of an array's elements; None of what is no array."""
    kind = read_type(array)
    if kind is None or kind.this != exp.DType.ARRAY or len(kind.expressions) != 1:
        return None
    inner = kind.expressions[0]
    return spell_type(inner) if isinstance(inner, exp.DataType) else None

"""Queries over synthetic streams, built without SQL.

equality(("r", "a"), ("s", "b"))     the attribute class r.a = s.b
"""

from __future__ import annotations

from collections.abc import Sequence

from watersmeet.query import Attribute, AttributeClass, Input, JoinGraph, Output, Query, column_expr


def equality(*attributes: tuple[str, str], type_: str | None = "bigint") -> AttributeClass:
    """The attribute class of (alias, column) pairs that are all equal."""
    members = tuple(Attribute(alias, column_expr(alias, column, type_)) for alias, column in attributes)
    return AttributeClass(members, type_)


def join_query(
    inputs: Sequence[Input], classes: Sequence[AttributeClass], select: Sequence[Output] = ()
) -> Query:
    """A join of inputs by attribute classes."""
    graph = JoinGraph(tuple(item.alias for item in inputs), tuple(classes))
    return Query(tuple(inputs), graph, tuple(select))

"""A query whose join graph falls into parts is refused; here is what the refusal says."""

from __future__ import annotations

from sqlglot import exp

from watersmeet.errors import Span, SqlError
from watersmeet.query import JoinGraph
from watersmeet.sql.binding.conditions import Conditions
from watersmeet.sql.binding.expressions import find_references
from watersmeet.sql.binding.scope import Scope
from watersmeet.sql.syntax.parse import Select
from watersmeet.sql.syntax.refuse import span_of
from watersmeet.sql.syntax.types import comparison_type


def refuse_disconnected(select: Select, scope: Scope, graph: JoinGraph, conditions: Conditions) -> SqlError:
    """Says which parts of the FROM nothing joins, and points at the condition that was meant to."""
    parts = graph.components()
    *most, last = ("{" + ", ".join(part) + "}" for part in parts)
    names = f"{', '.join(most)} and {last}"
    example = _example(scope, parts[0], parts[1])
    for tree in conditions.trees:
        aliases = {ref.alias for _, reference in find_references(tree, scope) for ref in reference.columns}
        if sum(bool(aliases & set(part)) for part in parts) < 2:
            continue
        if isinstance(tree, exp.Or) and _has_equality(tree, scope):
            return select.source.refuse(
                f"OR between join conditions leaves {names} unjoined",
                tree,
                "Every answer must satisfy the same equalities: write one query for each side of the OR.",
            )
        if isinstance(tree, exp.EQ):
            return select.source.refuse(
                f"this equality cannot join {names}: each side must read one stream alone",
                tree,
                f"It filters answers, but nothing joins the parts. Add an equality such as {example}.",
            )
        return select.source.refuse(
            f"nothing joins {names}: this condition is not an equality",
            tree,
            f"It filters answers. To join the parts add an equality such as {example}.",
        )
    return select.source.refuse(
        f"nothing joins {names}",
        _span_of_input(select, scope, parts[1][0]),
        f"Add an equality such as {example}.",
    )


def _has_equality(tree: exp.Expr, scope: Scope) -> bool:
    return any(
        len({ref.alias for _, reference in find_references(node, scope) for ref in reference.columns}) > 1
        for node in tree.find_all(exp.EQ)
    )


def _span_of_input(select: Select, scope: Scope, alias: str) -> Span:
    position = [item.alias for item in scope.inputs].index(alias)
    tables = list(select.tree.args["from_"].find_all(exp.Table))
    tables += [table for join in select.tree.args.get("joins") or [] for table in join.find_all(exp.Table)]
    tables.sort(key=lambda table: span_of(table).start)
    return span_of(tables[position])


def _example(scope: Scope, left: tuple[str, ...], right: tuple[str, ...]) -> str:
    """An equality that would join two parts: of columns that share a name, if there are any."""
    for one in (item for item in scope.inputs if item.alias in left):
        for other in (item for item in scope.inputs if item.alias in right):
            for column in one.stream.columns:
                match = other.stream.column(column.name)
                if (
                    match
                    and column.name != one.stream.event_time
                    and comparison_type(column.type, match.type)
                ):
                    return f"{one.alias}.{column.name} = {other.alias}.{match.name}"
    return f"{left[0]}.key = {right[0]}.key"

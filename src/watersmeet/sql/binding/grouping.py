"""Aggregate queries: GROUP BY, HAVING, EMIT EVERY, and what may stand outside an aggregate."""

from __future__ import annotations

from sqlglot import exp

from watersmeet.errors import Span
from watersmeet.query import Aggregate, Expr, Output, TumbleWindow
from watersmeet.sql.binding.aggregates import find_aggregates, is_aggregate
from watersmeet.sql.binding.expressions import bind_expr, is_unit, same_text
from watersmeet.sql.binding.outputs import Draft
from watersmeet.sql.binding.scope import Scope
from watersmeet.sql.syntax.parse import Select, find_word
from watersmeet.sql.syntax.refuse import span_of
from watersmeet.sql.syntax.windows import read_emit

SHORTEST_TICK_US = 1_000
TICKS_PER_WINDOW = 10


def bind_aggregate(
    select: Select, scope: Scope, outputs: tuple[Output, ...], drafts: list[Draft]
) -> Aggregate | None:
    """How answers are grouped and when they are sampled, or None for a query without aggregates."""
    tree = select.tree
    group, having = tree.args.get("group"), tree.args.get("having")
    found = any(True for draft in drafts for _ in find_aggregates(draft.node))
    if group is None and having is None and not found:
        if select.emit is not None:
            raise scope.source.refuse(
                "EMIT needs an aggregate",
                select.emit,
                "Answers of a join come out as they happen. Leave it out, or aggregate: SELECT COUNT(*) ...",
            )
        return None
    if tree.args.get("distinct"):
        raise scope.source.refuse(
            "DISTINCT and aggregates do not go together",
            find_word(scope.source, select.span, "DISTINCT"),
            "Groups differ already. Leave DISTINCT out.",
        )
    keys = _bind_keys(scope, group, outputs, drafts)
    naming = scope.naming({output.name: output.expr for output in outputs})
    for draft in drafts:
        _refuse_ungrouped(scope, draft.node, keys, draft.expr)
    condition = None
    if having is not None:
        condition = bind_expr(having.this, naming)
        _refuse_ungrouped(naming, having.this, keys, None)
    if select.emit is not None and read_emit(scope.source, select.emit) is None:
        return Aggregate(keys, _size_at_end(select.emit, scope), condition, at_end=True)
    return Aggregate(keys, _tick_us(select, scope), condition)


def _bind_keys(
    scope: Scope, group: exp.Group | None, outputs: tuple[Output, ...], drafts: list[Draft]
) -> tuple[Expr, ...]:
    if group is None:
        return ()
    if any(value for key, value in group.args.items() if key != "expressions") or any(
        isinstance(node, exp.Cube | exp.Rollup | exp.GroupingSets) for node in group.walk()
    ):
        raise scope.source.refuse(
            "GROUP BY takes plain expressions", group, "Write one query for each grouping: GROUP BY a, b."
        )
    return tuple(dict.fromkeys(_bind_key(scope, node, outputs, drafts) for node in group.expressions))


def _bind_key(scope: Scope, node: exp.Expr, outputs: tuple[Output, ...], drafts: list[Draft]) -> Expr:
    key: Expr | None = None
    origin = node
    if isinstance(node, exp.Literal) and not node.is_string:
        position = int(node.name) if node.name.isdigit() and len(node.name) < 9 else 0
        if not 1 <= position <= len(outputs):
            raise scope.source.refuse(
                f"there is no column {node.name} in the SELECT list",
                node,
                f"Write 1 to {len(outputs)}, or the column.",
            )
        key, origin = outputs[position - 1].expr, drafts[position - 1].node
    elif isinstance(node, exp.Column) and len(node.parts) == 1 and not scope.is_column(node.this):
        for output, draft in zip(outputs, drafts, strict=True):
            if output.name.lower() == node.name.lower():
                key, origin = output.expr, draft.node
    for _ in find_aggregates(origin):
        raise scope.source.refuse("an aggregate cannot be grouped by", node, "Group by columns.")
    return key or bind_expr(node, scope)


def _refuse_ungrouped(scope: Scope, node: exp.Expr, keys: tuple[Expr, ...], star: Expr | None) -> None:
    """Refuses a column that stands neither in GROUP BY nor inside an aggregate."""
    grouped = {same_text(key) for key in keys}
    if star is not None and same_text(star) in grouped:
        return
    if isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star)):
        columns = star.sql if star else "*"
        raise scope.source.refuse(
            f"{columns} is neither grouped nor aggregated",
            node,
            "Name the columns of GROUP BY instead of a star.",
        )
    stack = [node]
    while stack:
        part = stack.pop()
        if is_aggregate(part):
            _refuse_nested(scope, part)
            continue
        if isinstance(part, exp.Column):
            _refuse_column(scope, part, grouped)
        elif not (grouped and isinstance(part, exp.Condition) and _is_key(scope, part, grouped)):
            stack += part.iter_expressions()


def _is_key(scope: Scope, part: exp.Expr, grouped: set[str]) -> bool:
    return part.find(exp.Column) is not None and same_text(bind_expr(part, scope)) in grouped


def _refuse_column(scope: Scope, column: exp.Column, grouped: set[str]) -> None:
    if is_unit(column):
        return
    reference = scope.resolve(column)
    plain = (
        len(column.parts) == 1 and column.name.lower() in scope.outputs and not scope.is_column(column.this)
    )
    if reference.uses_answer_time or plain or same_text(Expr(reference.text, reference.columns)) in grouped:
        return
    if same_text(bind_expr(column, scope)) in grouped:
        return
    name = reference.columns[0].pretty() if reference.columns else column.name
    raise scope.source.refuse(
        f"{name} is neither grouped nor aggregated", column, f"Add it to GROUP BY, or write MAX({name})."
    )


def _refuse_nested(scope: Scope, aggregate: exp.Expr) -> None:
    for inner in find_aggregates(aggregate):
        if inner is not aggregate:
            raise scope.source.refuse("an aggregate inside an aggregate", inner, "Aggregate once.")


def _tick_us(select: Select, scope: Scope) -> int:
    windows = [item.window for item in scope.inputs]
    if not any(window.is_bounded for window in windows):
        raise scope.source.refuse(
            "an aggregate needs a bounded window",
            span_of(select.tree.args["from_"]),
            "With no window bounded no answer ever ends. Write one: s [RANGE 10 MINUTES].",
        )
    if select.emit is not None and (every_us := read_emit(scope.source, select.emit)) is not None:
        _refuse_empty_ticks(select.emit, scope, every_us)
        return every_us
    durations = [window.duration_us for window in windows if window.duration_us is not None]
    if not durations:
        start = select.span.end
        raise scope.source.refuse(
            "an aggregate over ROWS windows must say when to answer",
            Span(start, start + 1),
            "Add EMIT EVERY 10 SECONDS.",
        )
    return max(SHORTEST_TICK_US, min(durations) // TICKS_PER_WINDOW)


def _size_at_end(emit: Span, scope: Scope) -> int:
    """The size of the windows at whose end EMIT AT END answers."""
    bounded = [item.window for item in scope.inputs if item.window.is_bounded]
    sizes = {window.size if isinstance(window, TumbleWindow) else None for window in bounded}
    [size] = sizes if len(sizes) == 1 else [None]
    if size is None:
        raise scope.source.refuse(
            "EMIT AT END needs windows that end together",
            emit,
            "Write [TUMBLE 10 SECONDS] on the streams, of one size, or EMIT EVERY 10 SECONDS.",
        )
    return size


def _refuse_empty_ticks(emit: Span, scope: Scope, every_us: int) -> None:
    """Refuses ticks that all fall on the start of a tumbling window, when there is nothing in it yet."""
    for item in scope.inputs:
        window = item.window
        if isinstance(window, TumbleWindow) and every_us % window.size == 0:
            raise scope.source.refuse(
                f"every tick falls on the start of {item.alias} {window.pretty()}, which is empty then",
                emit,
                "Write EMIT AT END for what the window had in the end, or a tick shorter than the window.",
            )

"""Views: a SELECT over one stream, or a UNION ALL of such, into a stream that others can read.

    CREATE VIEW large AS SELECT id, size, ts FROM s1 WHERE size > 100
    FROM (SELECT ...) [RANGE 5 MINUTES] AS large            WITH large AS (SELECT ...) SELECT ... FROM large

A view keeps nothing, so it takes one tuple at a time: conditions, expressions, explode. Its event time is
that of the stream, selected as it is under any name, or added as the last column where SELECT leaves it out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from watersmeet.query import (
    ANSWER_TIME,
    UNBOUNDED,
    Branch,
    Column,
    Explode,
    Expr,
    Input,
    Output,
    Step,
    Stream,
    ViewColumn,
)
from watersmeet.query.expression import column_expr
from watersmeet.sql.binding.expressions import bind_condition, bind_expr
from watersmeet.sql.binding.outputs import bind_outputs
from watersmeet.sql.binding.scope import Reference, Scope
from watersmeet.sql.binding.views.find_stream import NO_LIST, find_stream, windows_of
from watersmeet.sql.binding.views.table_joins import join_tables, refuse_nested_join
from watersmeet.sql.binding.views.view_types import element_type, typed
from watersmeet.sql.syntax.refuse import SPAN, Source, span_of
from watersmeet.sql.syntax.unsupported import refuse_in_view, refuse_recursion

Catalog = Mapping[str, Stream]  # by lower-case names
EXPLODED, ELEMENT = "exploded", "one"  # what an array in the SELECT list is exploded as
_MAKERS = {"explode": False, "explode_outer": True}  # and whether a row without elements is kept


@dataclass(frozen=True)
class _Scope(Scope):
    """The names in a view; what its SELECT list explodes is `hidden`: no name of a person's means it."""

    hidden: Input | None = None

    def resolve(self, node: exp.Column) -> Reference:
        """A view has no answers: `answer_time` is a column of its stream, if that has one."""
        if len(node.parts) == 1 and node.name.lower() == ANSWER_TIME and self.is_column(node.this):
            column = exp.column(node.this.copy(), table=exp.to_identifier(self.owners(ANSWER_TIME)[0].alias))
            span = span_of(node)
            for part in column.walk():
                part.meta[SPAN] = (span.start, span.end)
            return super().resolve(column)
        return super().resolve(node)

    def input(self, alias: str) -> Input | None:
        if self.hidden is not None and alias == self.hidden.alias:
            return self.hidden
        return super().input(alias)


def with_views(source: Source, tree: exp.Expr, catalog: Catalog) -> Catalog:
    """The catalog with the views that WITH names; each may read those before it."""
    clause = tree.args.get("with_")
    if clause is None:
        return catalog
    refuse_recursion(source, clause)
    known = dict(catalog)
    named: set[str] = set()
    for one in clause.expressions:
        name = one.args["alias"].this
        if one.args["alias"].args.get("columns"):
            raise source.refuse(NO_LIST, one.args["alias"], "Name its columns in the SELECT, with AS.")
        if name.name.lower() in named:
            raise source.refuse(f"WITH names {name.name} twice", name, "Rename one of them.")
        named.add(name.name.lower())
        known[name.name.lower()] = bind_view(source, name, one.this, known)
    return known


def bind_view(source: Source, name: exp.Expr, tree: exp.Expr, catalog: Catalog) -> Stream:
    """The stream that a view is; `name` is where it is named."""
    catalog = with_views(source, tree, catalog)
    if isinstance(tree, exp.Subquery) and not tree.args.get("alias"):
        return bind_view(source, name, tree.this, catalog)
    if isinstance(tree, exp.SetOperation):
        return _unite(source, name, tree, catalog)
    select = refuse_in_view(source, name.name, tree)
    return _bind_select(source, name, select, catalog)


def _unite(source: Source, name: exp.Expr, tree: exp.SetOperation, catalog: Catalog) -> Stream:
    """UNION ALL: columns are matched by position and called as in the first SELECT."""
    if not isinstance(tree, exp.Union) or tree.args.get("distinct"):
        word = type(tree).__name__.upper()
        raise source.refuse(
            f"{word} in view {name.name} would have to keep every row",
            tree,
            "Write UNION ALL, and SELECT DISTINCT in the query that reads the view."
            if isinstance(tree, exp.Union)
            else "Write the condition in WHERE.",
        )
    refuse_in_view(source, name.name, tree)
    left, right = (bind_view(source, name, side, catalog) for side in (tree.this, tree.expression))
    where = span_of(tree.expression)
    if len(left.columns) != len(right.columns):
        raise source.refuse(
            f"view {name.name} unites {len(left.columns)} columns and {len(right.columns)}",
            where,
            f"Select as many in each: {', '.join(column.name for column in left.columns)}.",
        )
    for one, other in zip(left.columns, right.columns, strict=True):
        if one.type != other.type:
            raise source.refuse(
                f"view {name.name} unites {one.name}, which is {one.type}, and {other.name}, which is "
                f"{other.type}",
                where,
                f"Cast one of them: CAST({other.name} AS {one.type.upper()}).",
            )
    times = [
        None if side.event_time is None else [column.name for column in side.columns].index(side.event_time)
        for side in (left, right)
    ]
    if times[0] != times[1]:
        raise source.refuse(
            f"view {name.name} unites streams whose event times are not one column",
            where,
            "Select the event time at the same position in each SELECT, or give both streams one.",
        )
    renamed = tuple(_renamed(branch, right, left) for branch in right.view)
    return replace(
        left,
        lateness_us=max(left.lateness_us, right.lateness_us),
        site=left.site if left.site == right.site else None,
        view=(*left.view, *renamed),
    )


def _renamed(branch: Branch, own: Stream, wanted: Stream) -> Branch:
    """The branch of one view with the names of another."""
    names = dict(zip((c.name for c in own.columns), (c.name for c in wanted.columns), strict=True))
    last = branch.steps[-1]
    columns = tuple(ViewColumn(names[column.name], column.expr) for column in last.columns)
    return replace(branch, steps=(*branch.steps[:-1], replace(last, columns=columns)))


def _bind_select(source: Source, name: exp.Expr, tree: exp.Select, catalog: Catalog) -> Stream:
    table = tree.args["from_"].this
    refuse_nested_join(source, name.name, table)
    if windows := windows_of(table):
        raise source.refuse(
            f"a window stands inside view {name.name}",
            windows[0],
            f"Write it where the view is read: FROM {name.name} [RANGE 10 MINUTES].",
        )
    read = find_stream(source, table, catalog, bind_view)
    if read.table is not None:
        raise source.refuse(
            f"view {name.name} reads table {read.name} alone, and a view is made of tuples",
            table,
            f"Write FROM stream JOIN {read.name} ON ...",
        )
    alias = table.alias if table.args.get("alias") and table.alias else read.name
    item = Input(alias, read, UNBOUNDED)
    tables = join_tables(
        source, name.name, tree, item, lambda node: find_stream(source, node, catalog, bind_view)
    )
    beside = (item, *(Input(each.alias, each.table, UNBOUNDED) for each in tables))
    projections, explode = _explode(Scope(source, beside), tree)
    scope = _Scope(source, beside)
    if explode is not None:
        one = _exploded(explode)
        is_listed = explode.alias == EXPLODED
        scope = _Scope(source, beside, hidden=one) if is_listed else _Scope(source, (*beside, one))
    where = tree.args.get("where")
    filters = () if where is None else (bind_condition(where.this, scope),)
    outputs, drafts = bind_outputs(scope, projections)
    nodes = [draft.node for draft in drafts]
    for output, node in zip(outputs, nodes, strict=True):
        _refuse_answer_time(source, output.expr, node)
    for expr in filters:
        _refuse_answer_time(source, expr, where or tree)
    columns, time = _columns(source, name, item, outputs, nodes)
    made = tuple(ViewColumn(column.name, expr) for column, expr in columns)
    step = Step(alias, made, filters, explode, tables)
    return Stream(
        name.name,
        tuple(column for column, _ in columns),
        time,
        lateness_us=read.lateness_us,
        max_ahead_us=read.max_ahead_us,
        site=read.site,
        view=tuple(branch.then(step) for branch in read.view or (Branch(read, ()),)),
    )


def _refuse_answer_time(source: Source, expr: Expr, node: exp.Expr) -> None:
    if expr.uses_answer_time:
        raise source.refuse(
            "answer_time is the time of an answer, and a view has none",
            node,
            "Select the event time instead.",
        )


Made = list[tuple[Column, Expr]]


def _columns(
    source: Source, name: exp.Expr, item: Input, outputs: tuple[Output, ...], nodes: list[exp.Expr]
) -> tuple[Made, str | None]:
    """The view's columns with what they are made of, and which of them is the event time."""
    made: Made = []
    for output, node in zip(outputs, nodes, strict=True):
        expr = typed(source, f"view {name.name}", output, node)
        made.append((Column(output.name, expr.type or ""), expr))
    time = item.stream.event_time
    if time is None:
        return made, None
    declared = item.stream.column(time)
    assert declared is not None
    whole = column_expr(item.alias, declared.name, declared.type)
    for column, expr in made:
        if expr.sql == whole.sql:
            return made, column.name
    for (column, _), node in zip(made, nodes, strict=True):
        if column.name.lower() == time.lower():
            raise source.refuse(
                f"view {name.name} calls {time} what is not the event time of {item.stream.name}",
                node,
                f"Give it another name with AS: a view keeps the event time of its stream, {time}.",
            )
    return [*made, (declared, whole)], declared.name


def _explode(scope: Scope, tree: exp.Select) -> tuple[list[exp.Expr], Explode | None]:
    """The SELECT list, and the array that is exploded: in the list itself, or by LATERAL VIEW."""
    source = scope.source
    laterals = tree.args.get("laterals") or []
    calls = [(node, call) for node in tree.expressions if (call := _maker(node)) is not None]
    if len(laterals) + len(calls) > 1:
        again = laterals[1] if len(laterals) > 1 else calls[-1][0]
        raise source.refuse(
            "a view explodes one array, this is a second", again, "Explode it in a view over this one."
        )
    if laterals:
        return list(tree.expressions), _lateral(scope, laterals[0])
    if not calls:
        return list(tree.expressions), None
    node, call = calls[0]
    name = node.alias if isinstance(node, exp.Alias) else "col"
    explode = _exploding(scope, call, EXPLODED, ELEMENT)
    column = exp.column(exp.to_identifier(ELEMENT), table=exp.to_identifier(EXPLODED))
    made = exp.alias_(column, exp.to_identifier(name, quoted=True))
    _stand_at(made, node)
    listed: list[exp.Expr] = [made if each is node else each for each in tree.expressions]
    return listed, explode


def _stand_at(made: exp.Expr, node: exp.Expr) -> None:
    """Gives a made column the place in the text of what it stands for."""
    span = span_of(node)
    for part in made.walk():
        part.meta["span"] = (span.start, span.end)


def _maker(node: exp.Expr) -> exp.Anonymous | None:
    call = node.this if isinstance(node, exp.Alias) else node
    return call if isinstance(call, exp.Anonymous) and call.name.lower() in _MAKERS else None


def _lateral(scope: Scope, lateral: exp.Lateral) -> Explode:
    source, call, alias = scope.source, lateral.this, lateral.args.get("alias")
    columns = alias.args.get("columns") if alias is not None else None
    if not lateral.args.get("view") or _maker(call) is None:
        raise source.refuse(
            "only an array can be exploded in a view",
            lateral,
            "Write LATERAL VIEW explode(column) t AS name.",
        )
    if alias is None or not columns or len(columns) != 1:
        raise source.refuse(
            "the exploded column has no name", lateral, "Write LATERAL VIEW explode(column) t AS name."
        )
    table = alias.this.name if alias.this else columns[0].name
    if (
        table == EXPLODED
        or scope.input(table) is not None
        or scope.inputs[0].stream.column(table) is not None
    ):
        raise source.refuse(f"{table} is taken", lateral, "Give what is exploded a name of its own.")
    made = _exploding(scope, call, table, columns[0].name)
    return replace(made, is_outer=made.is_outer or bool(lateral.args.get("outer")))


def _exploding(scope: Scope, call: exp.Anonymous, alias: str, name: str) -> Explode:
    if len(call.expressions) != 1:
        raise scope.source.refuse(f"{call.name} takes one array", call, f"Write {call.name}(column) AS name.")
    array = bind_expr(call.expressions[0], scope)
    if array.type is not None and element_type(array.type) is None:
        raise scope.source.refuse(
            f"{array.sql} is {array.type}, which cannot be exploded here",
            call,
            "Explode an array; of a map take map_entries(column).",
        )
    return Explode(array, alias, name, _MAKERS[call.name.lower()])


def _exploded(explode: Explode) -> Input:
    """What is exploded, as an input beside the stream."""
    kind = element_type(explode.array.type) if explode.array.type else None
    return Input(explode.alias, Stream(explode.alias, (Column(explode.name, kind or ""),)), UNBOUNDED)

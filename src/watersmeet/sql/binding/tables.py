"""The FROM clause into inputs: streams under windows, each by its alias, and the conditions joins bring."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from watersmeet.errors import Span
from watersmeet.query import MAX_INPUTS, UNBOUNDED, Input, JoinKind, Stream, Window, last_of_each
from watersmeet.sql.binding.scope import Scope
from watersmeet.sql.binding.views import bind_view, find_stream, windows_of
from watersmeet.sql.syntax.joins import joins_in_parentheses, kind_of
from watersmeet.sql.syntax.refuse import Source, suggest
from watersmeet.sql.syntax.windows import read_window


@dataclass(frozen=True)
class Using:
    """JOIN ... USING (name): the equality of two inputs' columns of one name."""

    name: exp.Expr
    left: str
    right: str


@dataclass(frozen=True)
class Tables:
    """What FROM says: the scope of names, the trees of ON conditions, and the columns of USING.

    `windowless` are the aliases without any window, `[UNBOUNDED]` being one. `aliases` are by the identity
    of the table's node. Unless the joins `is_inner` all of them, their conditions are not here.
    """

    scope: Scope
    conditions: tuple[exp.Expr, ...]
    using: tuple[Using, ...]
    windowless: frozenset[str] = frozenset()
    aliases: Mapping[int, str] = field(default_factory=dict)
    is_inner: bool = True


def bind_tables(
    source: Source,
    tree: exp.Select,
    span: Span,
    catalog: Mapping[str, Stream],
    before: Sequence[Input] = (),
) -> Tables:
    """The inputs of a SELECT, found in a catalog keyed by lower-case names.

    `before` are inputs of the same query that are bound already: their names are taken.
    """
    from_clause = tree.args.get("from_")
    if from_clause is None:
        raise source.refuse(
            "this SELECT reads no stream", span, "Write SELECT ... FROM stream [RANGE 10 MINUTES]."
        )
    inputs: list[Input] = list(before)
    conditions: list[exp.Expr] = []
    using: list[Using] = []
    merged: dict[str, tuple[str, ...]] = {}
    windowless: set[str] = set()
    aliases: dict[int, str] = {}
    tables = list(_tables(from_clause.this, tree.args.get("joins") or []))
    is_inner = _is_inner(source, tables)
    for table, join in tables:
        if joins_in_parentheses(table) is not None:
            _refuse_name(source, table)
            continue
        _add_input(source, inputs, table, catalog)
        aliases[id(table)] = inputs[-1].alias
        windowless |= set() if windows_of(table) else {inputs[-1].alias}
        if not is_inner:
            continue
        if join is not None and join.args.get("on") is not None:
            conditions.append(join.args["on"])
        for name in (join.args.get("using") or []) if join is not None else []:
            using.append(_use(Scope(source, tuple(inputs[len(before) :]), merged), name))
            shared = merged.get(name.name.lower(), (using[-1].left,))
            merged[name.name.lower()] = (*shared, using[-1].right)
    scope = Scope(source, tuple(_told_apart(inputs))[len(before) :], merged)
    return Tables(scope, tuple(conditions), tuple(using), frozenset(windowless), aliases, is_inner)


def _refuse_name(source: Source, parentheses: exp.Expr) -> None:
    """Refuses `(a JOIN b ON ...) AS c`."""
    if parentheses.args.get("alias") or windows_of(parentheses):
        raise source.refuse(
            "joins in parentheses have no name or window of their own",
            parentheses,
            "Name each stream inside, with its window, and use these names.",
        )


def _told_apart(inputs: Sequence[Input]) -> Iterator[Input]:
    """The inputs with another name for a view that is called as another stream of the query."""
    for item in inputs:
        others = [other.stream for other in inputs if other.stream.name.lower() == item.stream.name.lower()]
        if item.stream.view and any(other != item.stream for other in others):
            yield replace(item, stream=replace(item.stream, name=f"{item.stream.name} ({item.alias})"))
        else:
            yield item


def _is_inner(source: Source, tables: Sequence[tuple[exp.Expr, exp.Join | None]]) -> bool:
    """Whether all joins are inner, and none in parentheses."""
    kinds = {kind_of(source, join) for _, join in tables if join is not None}
    return kinds <= {JoinKind.INNER} and all(joins_in_parentheses(table) is None for table, _ in tables)


def _tables(first: exp.Expr, joins: list[exp.Join]) -> Iterator[tuple[exp.Expr, exp.Join | None]]:
    """Each table with the join that brings it; `a JOIN b JOIN c ON ... ON ...` nests joins in tables."""
    yield first, None
    yield from _nested(first)
    for join in joins:
        yield join.this, join
        yield from _nested(join.this)


def _nested(table: exp.Expr) -> Iterator[tuple[exp.Expr, exp.Join | None]]:
    inner = joins_in_parentheses(table)
    if inner is not None:
        yield inner, None
        yield from _nested(inner)
    for join in table.args.get("joins") or []:
        yield join.this, join
        yield from _nested(join.this)


def _add_input(source: Source, inputs: list[Input], table: exp.Expr, catalog: Mapping[str, Stream]) -> None:
    stream = find_stream(source, table, catalog, bind_view)
    if stream.table is not None:
        raise source.refuse(
            f"{stream.name} is a table, which is joined with the tuples of one stream",
            table,
            f"Write (SELECT * FROM stream JOIN {stream.name} ON ...) [RANGE 10 MINUTES] AS name in FROM.",
        )
    alias_node = table.args.get("alias")
    name = alias_node.this if isinstance(alias_node, exp.TableAlias) and alias_node.this else table.this
    if any(item.alias.lower() == name.name.lower() for item in inputs):
        raise source.refuse(
            f"two inputs are called {name.name}",
            name,
            f"Give it an alias of its own: {stream.name} AS {name.name}2.",
        )
    if len(inputs) == MAX_INPUTS:
        raise source.refuse(
            f"more than {MAX_INPUTS} streams in one query",
            name,
            "Join some of them in a first query, the rest in a second.",
        )
    alias = stream.name if name is table.this else name.name
    inputs.append(Input(alias, stream, _find_window(source, table, stream)))
    _refuse_one_name_for_two(source, name, inputs)


def _refuse_one_name_for_two(source: Source, name: exp.Expr, inputs: list[Input]) -> None:
    """Refuses x with a column `y.z` beside `x.y` with a column z: answers name them by alias and column."""
    newest = {f"{inputs[-1].alias}.{column.name}".lower() for column in inputs[-1].stream.columns}
    for item in inputs[:-1]:
        both = newest.intersection(f"{item.alias}.{column.name}".lower() for column in item.stream.columns)
        if both:
            raise source.refuse(
                f"{min(both)} could be two columns: one of {item.alias} or one of {inputs[-1].alias}",
                name,
                "Give one of them an alias without a dot.",
            )


def _find_window(source: Source, table: exp.Expr, stream: Stream) -> Window:
    spans = windows_of(table)
    if len(spans) > 1:
        raise source.refuse("an input has one window, this is a second", spans[1], "Keep one of the two.")
    window = read_window(source, spans[0]) if spans else UNBOUNDED
    if not window.partition:
        return window
    columns = [_partition_column(source, spans[0], stream, name) for name in window.partition]
    return last_of_each(tuple(dict.fromkeys(columns)), getattr(window, "size", 1))


def _partition_column(source: Source, span: Span, stream: Stream, name: str) -> str:
    """The name of a column as declared, if rows can be counted by its values."""
    column = stream.column(name)
    if column is None:
        known = [column.name for column in stream.columns]
        raise source.refuse(
            f"{stream.name} has no column {name} to count by", span, suggest(name, known, "column")
        )
    if column.type.lower().startswith(("array", "map", "struct", "variant")):
        raise source.refuse(
            f"rows cannot be counted by {column.name}, which is {column.type}",
            span,
            "Name columns of plain types: [PARTITION BY currency ROWS 1].",
        )
    return column.name


def _use(scope: Scope, name: exp.Expr) -> Using:
    """The two columns a USING name makes equal: the newest input's, and one of those before it."""
    *before, newest = scope.inputs
    earlier = Scope(scope.source, tuple(before), scope.merged)
    for side, where in ((earlier, "left"), (Scope(scope.source, (newest,)), "right")):
        if not side.owners(name.name):
            known = [column.name for item in side.inputs for column in item.stream.columns]
            raise scope.source.refuse(
                f"USING ({name.name}): the {where} side has no such column",
                name,
                suggest(name.name, known, "column"),
            )
    owners = earlier.owners(name.name)
    if len(owners) > 1:
        raise scope.source.refuse(
            f"USING ({name.name}): the left side has {len(owners)} such columns",
            name,
            f"Write ON {owners[0].alias}.{name.name} = {newest.alias}.{name.name}.",
        )
    return Using(name, owners[0].alias, newest.alias)

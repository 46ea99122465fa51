"""The FROM clause into inputs: streams under windows, each by its alias, and the conditions joins bring."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sqlglot import exp

from watersmeet.errors import Span
from watersmeet.query import MAX_INPUTS, UNBOUNDED, Input, Stream, Window
from watersmeet.sql.binding.scope import Scope
from watersmeet.sql.syntax.dialect import WINDOWS
from watersmeet.sql.syntax.refuse import Source, span_of, suggest
from watersmeet.sql.syntax.windows import read_window

_INNER = ("", "INNER", "CROSS")


@dataclass(frozen=True)
class Using:
    """JOIN ... USING (name): the equality of two inputs' columns of one name."""

    name: exp.Expr
    left: str
    right: str


@dataclass(frozen=True)
class Tables:
    """What FROM says: the scope of names, the trees of ON conditions, and the columns of USING."""

    scope: Scope
    conditions: tuple[exp.Expr, ...]
    using: tuple[Using, ...]


def bind_tables(source: Source, tree: exp.Select, span: Span, catalog: Mapping[str, Stream]) -> Tables:
    """The inputs of a SELECT, found in a catalog keyed by lower-case names."""
    from_clause = tree.args.get("from_")
    if from_clause is None:
        raise source.refuse(
            "this SELECT reads no stream", span, "Write SELECT ... FROM stream [RANGE 10 MINUTES]."
        )
    inputs: list[Input] = []
    conditions: list[exp.Expr] = []
    using: list[Using] = []
    merged: dict[str, tuple[str, ...]] = {}
    for table, join in _tables(from_clause.this, tree.args.get("joins") or []):
        _refuse_join(source, join)
        _add_input(source, inputs, table, catalog)
        if join is not None and join.args.get("on") is not None:
            conditions.append(join.args["on"])
        for name in (join.args.get("using") or []) if join is not None else []:
            using.append(_use(Scope(source, tuple(inputs), merged), name))
            shared = merged.get(name.name.lower(), (using[-1].left,))
            merged[name.name.lower()] = (*shared, using[-1].right)
    return Tables(Scope(source, tuple(inputs), merged), tuple(conditions), tuple(using))


def _tables(first: exp.Expr, joins: list[exp.Join]) -> Iterator[tuple[exp.Expr, exp.Join | None]]:
    """Each table with the join that brings it; `a JOIN b JOIN c ON ... ON ...` nests joins in tables."""
    yield first, None
    yield from _nested(first)
    for join in joins:
        yield join.this, join
        yield from _nested(join.this)


def _nested(table: exp.Expr) -> Iterator[tuple[exp.Expr, exp.Join]]:
    for join in table.args.get("joins") or []:
        yield join.this, join
        yield from _nested(join.this)


def _refuse_join(source: Source, join: exp.Join | None) -> None:
    if join is None:
        return
    method, side, kind = (str(join.args.get(key) or "").upper() for key in ("method", "side", "kind"))
    if side or kind == "OUTER":
        name = f"{side} {kind if kind in ('SEMI', 'ANTI') else 'OUTER'}".strip()
        raise source.refuse(
            f"{name} JOIN is not supported",
            _head(source, join),
            "An answer needs a tuple of every stream: write JOIN ... ON.",
        )
    if method == "NATURAL":
        raise source.refuse(
            "NATURAL JOIN is not supported",
            _head(source, join),
            "Name the columns: JOIN ... USING (column).",
        )
    if method or kind not in _INNER:
        name = f"{method} {kind}".strip()
        raise source.refuse(
            f"{name} JOIN is not supported", _head(source, join), "Write JOIN ... ON with an equality."
        )


def _head(source: Source, join: exp.Join) -> Span:
    """The words of a join up to JOIN itself."""
    span = span_of(join)
    end = source.text.upper().find("JOIN", span.start, span.end)
    return Span(span.start, end + len("JOIN")) if end >= 0 else span


def _add_input(source: Source, inputs: list[Input], table: exp.Expr, catalog: Mapping[str, Stream]) -> None:
    stream = _find_stream(source, table, catalog)
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
    inputs.append(Input(alias, stream, _find_window(source, table)))


def _find_stream(source: Source, table: exp.Expr, catalog: Mapping[str, Stream]) -> Stream:
    if isinstance(table, exp.Query | exp.Subquery):
        windowed = bool(_window_spans(table))
        problem = "a window cannot stand on a subquery" if windowed else "a subquery is not supported"
        reason = "It has no event time. " if windowed else ""
        raise source.refuse(problem, table, f"{reason}Join the streams themselves in FROM.")
    if isinstance(table, exp.Lateral):
        raise source.refuse(
            "LATERAL is not supported", table, "Explode the column before the join, in its source."
        )
    if not isinstance(table, exp.Table) or not isinstance(table.this, exp.Identifier):
        raise source.refuse("this is not a stream", table, "Write the name of a declared stream.")
    if table.args.get("db"):
        raise source.refuse(
            "a stream has a plain name", table, f"Write {table.this.name}, without a database."
        )
    extra = [key for key, value in table.args.items() if value and key not in ("this", "alias", "joins")]
    alias = table.args.get("alias")
    if extra or (alias is not None and alias.args.get("columns")):
        raise source.refuse(
            "a stream takes a window and an alias, nothing else",
            table,
            "Write stream [RANGE 10 MINUTES] AS alias.",
        )
    stream = catalog.get(table.this.name.lower())
    if stream is None:
        names = [known.name for known in catalog.values()]
        raise source.refuse(
            f"there is no stream {table.this.name}", table.this, suggest(table.this.name, names, "stream")
        )
    if not stream.columns:
        raise source.refuse(
            f"the columns of stream {stream.name} are not known",
            table.this,
            "Declare them: CREATE STREAM name (column TYPE, ...) WITH (...).",
        )
    return stream


def _window_spans(table: exp.Expr) -> list[Span]:
    alias = table.args.get("alias")
    spans = [
        *(table.meta_get(WINDOWS) or []),
        *((alias.meta_get(WINDOWS) or []) if alias is not None else []),
    ]
    return [Span(*span) for span in spans]


def _find_window(source: Source, table: exp.Expr) -> Window:
    spans = _window_spans(table)
    if len(spans) > 1:
        raise source.refuse("an input has one window, this is a second", spans[1], "Keep one of the two.")
    return read_window(source, spans[0]) if spans else UNBOUNDED


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

"""Joins of a view with tables: inner and left ones, each by its ON."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from watersmeet.query import UNBOUNDED, Input, Stream, TableJoin
from watersmeet.sql.binding.expressions import bind_condition
from watersmeet.sql.binding.scope import Scope
from watersmeet.sql.binding.views.find_stream import windows_of
from watersmeet.sql.syntax.refuse import Source

_ADVICE = "Join streams in the query that reads the view: FROM view [RANGE 10 MINUTES] AS v, ..."


def join_tables(
    source: Source, view: str, tree: exp.Select, item: Input, find: Callable[[exp.Expr], Stream]
) -> tuple[TableJoin, ...]:
    """The tables that a view's SELECT joins with its stream, in order."""
    found: list[TableJoin] = []
    for join in tree.args.get("joins") or []:
        refuse_nested_join(source, view, join.this)
        table = find(join.this)
        if table.table is None:
            raise source.refuse(
                f"view {view} joins stream {table.name}, and a view takes one tuple at a time",
                join.this,
                _ADVICE,
            )
        refuse_table_window(source, join.this)
        alias = join.this.alias if join.this.args.get("alias") and join.this.alias else table.name
        taken = {item.alias.lower(), *(other.alias.lower() for other in found)}
        if alias.lower() in taken or item.stream.column(alias) is not None:
            raise source.refuse(f"{alias} is taken", join.this, f"Write {table.name} AS another name.")
        kind = kind_of_table_join(source, join)
        on = join.args.get("on")
        if on is None:
            raise source.refuse(
                f"nothing says which rows of table {table.name} belong to a tuple",
                join.this,
                f"Write JOIN {table.name} ON an equality of both.",
            )
        beside = (item, *(Input(other.alias, other.table, UNBOUNDED) for other in found))
        scope = Scope(source, (*beside, Input(alias, table, UNBOUNDED)))
        found.append(TableJoin(table, alias, bind_condition(on, scope), kind == "LEFT"))
    return tuple(found)


def refuse_table_window(source: Source, table: exp.Expr) -> None:
    if windows := windows_of(table):
        raise source.refuse(
            "a table has no window", windows[0], "Its rows are valid always. Leave the window out."
        )


def refuse_nested_join(source: Source, view: str, table: exp.Expr) -> None:
    """Refuses `a JOIN b JOIN c ON ... ON ...`, and joins in parentheses."""
    if table.args.get("joins") or isinstance(table, exp.Paren):
        raise source.refuse(
            f"view {view} nests its joins", table, "Write them one after the other, each with its ON."
        )


def kind_of_table_join(source: Source, join: exp.Join) -> str:
    """LEFT, or nothing for an inner join; refuses all others."""
    method, side, kind = (str(join.args.get(key) or "").upper() for key in ("method", "side", "kind"))
    if (
        method
        or side not in ("", "LEFT")
        or kind not in ("", "INNER", "OUTER", "CROSS")
        or join.args.get("using")
    ):
        raise source.refuse(
            "a table is joined by JOIN ... ON or LEFT JOIN ... ON",
            join,
            "A row of a table has no end, so that it has found no tuple is never certain."
            if side in ("RIGHT", "FULL")
            else "Write JOIN table ON an equality of both.",
        )
    return side

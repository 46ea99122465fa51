"""What stands in FROM: the name of a stream or of a view, or a view written there."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sqlglot import exp

from watersmeet.errors import Span
from watersmeet.query import Stream
from watersmeet.sql.syntax.dialect import WINDOWS
from watersmeet.sql.syntax.refuse import Source, suggest

NO_LIST = "a view takes no list of columns"

BindView = Callable[[Source, exp.Expr, exp.Expr, Mapping[str, Stream]], Stream]


def find_stream(
    source: Source, table: exp.Expr, catalog: Mapping[str, Stream], bind_view: BindView
) -> Stream:
    """The stream of a table in FROM; `bind_view` makes one of a SELECT in parentheses."""
    if isinstance(table, exp.Subquery):
        alias = table.args.get("alias")
        if alias is None or not alias.this:
            raise source.refuse("this SELECT has no name", table, "Write (SELECT ...) AS name.")
        _refuse_columns(source, table, alias)
        return bind_view(source, alias.this, table.this, catalog)
    if isinstance(table, exp.Query):
        raise source.refuse("this is not a stream", table, "Write (SELECT ...) AS name.")
    if isinstance(table, exp.Lateral):
        raise source.refuse(
            "LATERAL stands beside a join",
            table,
            "Explode in a view: FROM (SELECT ... FROM stream LATERAL VIEW explode(c) t AS name) AS name.",
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


def _refuse_columns(source: Source, table: exp.Expr, alias: exp.Expr) -> None:
    if alias.args.get("columns"):
        raise source.refuse(NO_LIST, table, "Name its columns in the SELECT, with AS.")


def windows_of(table: exp.Expr) -> list[Span]:
    """Where the windows of a table in FROM stand."""
    alias = table.args.get("alias")
    spans = [
        *(table.meta_get(WINDOWS) or []),
        *((alias.meta_get(WINDOWS) or []) if alias is not None else []),
    ]
    return [Span(*span) for span in spans]

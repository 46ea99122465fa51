"""CREATE TABLE into a `Stream` that is a table: rows that are valid always, joined with tuples of streams."""

from __future__ import annotations

from watersmeet.query import Connector, Stream, Table
from watersmeet.sql.syntax.declare import STREAM_KEYS, columns_of, connector_of, duration_of, settings_of
from watersmeet.sql.syntax.dialect import CreateTable
from watersmeet.sql.syntax.refuse import Source

RELOAD = "reload"
NEVER = "never"
BY_DEFAULT_US = 60_000_000
FILES = ("parquet", "json", "csv", "orc", "text", "xml", "avro")


def declare_table(source: Source, tree: CreateTable) -> Stream:
    """The table that a CREATE TABLE declares."""
    name = tree.this.name
    settings = settings_of(source, tree.args.get("settings") or [])
    for key in (key for key in STREAM_KEYS if key in settings):
        raise source.refuse(
            f"table {name} has {'an' if key[0] in 'ei' else 'a'} {key}, and the rows of a table have no time",
            settings[key],
            "Leave it out, or declare a stream: CREATE STREAM.",
        )
    if not tree.expressions:
        raise source.refuse(
            f"table {name} declares no columns", tree.this, f"Write CREATE TABLE {name} (column TYPE, ...)."
        )
    connector = connector_of(source, tree.this, settings, "table")
    is_files = connector.format.lower() in FILES
    reload = settings.get(RELOAD)
    if reload is not None and not is_files:
        raise source.refuse(
            f"{RELOAD} is about files, and Spark reads {connector.format} anew in every batch",
            reload,
            "Leave it out.",
        )
    every = BY_DEFAULT_US if is_files else None
    if reload is not None:
        is_never = str(reload.args["value"]).lower() == NEVER
        every = None if is_never else duration_of(source, settings, RELOAD)
    options = tuple(pair for pair in connector.options if pair[0].lower() != RELOAD)
    connector = Connector(connector.format, options, connector.lines)
    return Stream(name, columns_of(source, tree.expressions), source=connector, table=Table(every))

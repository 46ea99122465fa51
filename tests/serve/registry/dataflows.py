"""A small shared dataflow to register queries with."""

from __future__ import annotations

from pathlib import Path

from watersmeet.query import Column, Query
from watersmeet.serve.registry.changes import ChangePlanner
from watersmeet.serve.registry.record import RegistryRecord

STREAMS = "".join(
    f"CREATE STREAM {name} (k BIGINT, v BIGINT, w STRING, ts TIMESTAMP) "
    f"WITH (format = 'parquet', path = '{name}', event_time = 'ts');\n"
    for name in ("s1", "s2", "s3")
)
SINKS = (
    "CREATE SINK out WITH (format = 'parquet', path = 'out');\n"
    "CREATE SINK texts WITH (format = 'parquet', path = 'texts', answers = 'json');\n"
    "CREATE SINK odd WITH (format = 'delta', path = 'odd');\n"
)
PAIR = (
    "SELECT a.k, b.v FROM s1 [RANGE 10 SECONDS] AS a, s2 [RANGE 10 SECONDS] AS b WHERE a.k = b.k AND a.v = {}"
)
CHAIN = (
    "SELECT a.k, c.w FROM s1 [RANGE 10 SECONDS] AS a, s2 [RANGE 10 SECONDS] AS b, "
    "s3 [RANGE 10 SECONDS] AS c WHERE a.k = b.k AND b.v = c.v"
)


def new_record(folder: Path, levels: int = 3) -> RegistryRecord:
    """A dataflow without queries."""
    return RegistryRecord(
        id="0123abcd",
        file=str(folder / "streams.sql"),
        declarations=STREAMS + SINKS,
        levels=levels,
        partitions=2,
        checkpoint=str(folder),
    )


def typed_columns(query: Query, name: str, conditions: tuple[str, ...]) -> tuple[Column, ...]:
    """The columns of a query's answers as far as its text says, without Spark."""
    return tuple(Column(output.name, output.expr.type or "unknown") for output in query.select)


PLANNER = ChangePlanner(typed_columns)

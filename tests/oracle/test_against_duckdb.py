"""The oracle against DuckDB, whose SQL is written from the table of windows alone: no lifetimes, no ends.

An input's tuple is inside its window at an instant as that table says it. An answer is a combination
inside at t, its largest ts; the relation of answers valid at any instant is the same condition there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings

from tests.strategies import answered_at_end, cases, to_arrow
from watersmeet.oracle.oracle import MicroBatch, Tuple, bag, emitted
from watersmeet.query import (
    WINDOW_KINDS,
    Input,
    PartitionRowsWindow,
    Query,
    RangeWindow,
    RowsWindow,
    Stream,
    TumbleRowsWindow,
    TumbleWindow,
    UnboundedWindow,
    Window,
)

AFTERMATH_US = 40  # longer than any window, so that all that can end has ended


@pytest.fixture(scope="module")
def database() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(config={"threads": 1}) as connection:
        yield connection


@pytest.mark.parametrize("kind", [kind for kind in WINDOW_KINDS if kind is not UnboundedWindow])
def test_answers_under_one_kind_of_window(
    database: duckdb.DuckDBPyConnection, kind: type[Window], long_mode: bool
) -> None:
    """Each kind of window by itself and beside UNBOUNDED."""
    kinds = (kind, kind, UnboundedWindow)

    answered: list[bool] = []

    @settings(max_examples=500 if long_mode else 30)
    @given(cases(max_inputs=3, kinds=["plain"], windows=kinds))
    def check(case: tuple[Query, list[MicroBatch]]) -> None:
        answered.append(assert_same_answers(database, *case))

    check()
    assert_share(answered)


def test_answers_under_mixed_windows(database: duckdb.DuckDBPyConnection, long_mode: bool) -> None:
    answered: list[bool] = []

    @settings(max_examples=1000 if long_mode else 60)
    @given(cases(min_inputs=2, max_inputs=5, kinds=["plain"]))
    def check(case: tuple[Query, list[MicroBatch]]) -> None:
        answered.append(assert_same_answers(database, *case))

    check()
    assert_share(answered)


def test_distinct_emits_what_becomes_present(database: duckdb.DuckDBPyConnection, long_mode: bool) -> None:
    """A value is emitted at each instant that has it where the instant before had not."""

    answered: list[bool] = []

    @settings(max_examples=500 if long_mode else 50)
    @given(cases(max_inputs=3, kinds=["distinct"]))
    def check(case: tuple[Query, list[MicroBatch]]) -> None:
        query, streams = case[0], merged(*case)
        load(database, query, streams)
        names = ", ".join(output.name for output in query.select)
        same = " AND ".join(f"p.{o.name} IS NOT DISTINCT FROM r.{o.name}" for o in query.select)
        found = ask(
            database,
            f"""
            WITH relation AS (
                SELECT DISTINCT {outputs(query)}, answer_time AS instant
                FROM {tables(query)}, instants WHERE {conditions(query)})
            SELECT {names} FROM relation r
            WHERE NOT EXISTS (SELECT 1 FROM relation p WHERE p.instant = r.instant - 1 AND {same})
        """,
        )
        assert found == bag(emitted(query, streams))
        answered.append(bool(found))

    check()
    assert_share(answered)


def test_aggregates_sample_every_tick(database: duckdb.DuckDBPyConnection, long_mode: bool) -> None:
    """At each multiple of the period, GROUP BY over the combinations inside their windows then."""

    answered: list[bool] = []

    @settings(max_examples=500 if long_mode else 50)
    @given(cases(max_inputs=3, kinds=["aggregate"]))
    def check(case: tuple[Query, list[MicroBatch]]) -> None:
        query, streams = case[0], merged(*case)
        horizon = load(database, query, streams)
        assert query.aggregate
        groups = ", ".join(["answer_time", *(expr.sql for expr in query.aggregate.group_by)])
        having = f"HAVING {query.aggregate.having.sql}" if query.aggregate.having else ""
        found = ask(
            database,
            f"""
            SELECT {outputs(query)} FROM {tables(query)}, instants
            WHERE answer_time % {query.aggregate.emit_every_us} = 0 AND {conditions(query)}
            GROUP BY {groups} {having}
        """,
        )
        assert found == bag(emitted(query, streams, watermark=horizon))
        answered.append(bool(found))

    check()
    assert_share(answered, 0.3)  # many have no tick while they have combinations, or fail their HAVING


def test_at_the_end_of_a_window_each_group_has_one_row(
    database: duckdb.DuckDBPyConnection, long_mode: bool
) -> None:
    """EMIT AT END: the combinations of a window by group, whenever they were valid within it."""

    answered: list[bool] = []

    @settings(max_examples=500 if long_mode else 25)
    @given(cases(max_inputs=3, kinds=["aggregate"]))
    def check(case: tuple[Query, list[MicroBatch]]) -> None:
        query, streams = answered_at_end(case[0]), merged(*case)
        load(database, query, streams)
        assert query.aggregate
        groups = ", ".join(["answer_time", *(expr.sql for expr in query.aggregate.group_by)])
        having = f"HAVING {query.aggregate.having.sql}" if query.aggregate.having else ""
        found = ask(
            database,
            f"""
            SELECT {outputs(query)}
            FROM {tables(query)}, LATERAL (SELECT {largest(query)} AS t),
                 LATERAL (SELECT {floor_to("t", query.aggregate.emit_every_us)} + 10 AS answer_time)
            WHERE {conditions(query).replace("answer_time", "t")}
            GROUP BY {groups} {having}
        """,
        )
        assert found == bag(emitted(query, streams))
        answered.append(bool(found))

    check()
    assert_share(answered)


def assert_share(answered: Sequence[bool], least: float = 0.5) -> None:
    """At least this share of the cases had answers to compare."""
    assert sum(answered) >= least * len(answered)


def assert_same_answers(
    database: duckdb.DuckDBPyConnection, query: Query, batches: Sequence[MicroBatch]
) -> bool:
    """DuckDB and the oracle agree; whether there were any answers."""
    streams = merged(query, batches)
    load(database, query, streams)
    found = ask(
        database,
        f"""
        SELECT {outputs(query)}
        FROM {tables(query)}, LATERAL (SELECT {largest(query)} AS answer_time)
        WHERE {conditions(query)}
    """,
    )
    assert found == bag(emitted(query, streams))
    return bool(found)


def largest(query: Query) -> str:
    return f"greatest({', '.join(f'{item.alias}.ts' for item in query.inputs)})"


def merged(query: Query, batches: Sequence[MicroBatch]) -> dict[str, list[Tuple]]:
    """All tuples of each stream: lateness is no matter here."""
    return {s.name: [tuple_ for batch in batches for tuple_ in batch[s.name]] for s in query.streams}


def load(database: duckdb.DuckDBPyConnection, query: Query, streams: Mapping[str, Sequence[Tuple]]) -> int:
    """A table for each stream with every tuple's row number, and one of instants; returns the horizon."""
    for stream in query.streams:
        database.register("arrived", without_zones(stream, streams[stream.name]))
        ordering = ", ".join(
            f"{name} NULLS FIRST"
            for name in [
                "ts",
                *(c.name for c in stream.columns if not c.type.startswith(("array", "struct"))),
            ]
        )
        ask(
            database,
            f"""
            CREATE OR REPLACE TABLE {stream.name} AS
            SELECT *, row_number() OVER (ORDER BY {ordering}) - 1 AS n FROM arrived
        """,
        )
    moments = [tuple_.ts for tuples in streams.values() for tuple_ in tuples] or [0]
    horizon = max(moments) + AFTERMATH_US
    ask(
        database,
        f"""
        CREATE OR REPLACE TABLE instants AS SELECT range AS answer_time FROM range({min(moments)}, {horizon})
    """,
    )
    return horizon


def without_zones(stream: Stream, tuples: Sequence[Tuple]) -> pa.Table:
    """The tuples with ts in whole microseconds, and other timestamps without a zone, all being UTC."""
    table = to_arrow(stream, tuples)
    fields = [
        field.with_type(pa.int64() if field.name == "ts" else pa.timestamp("us"))
        if pa.types.is_timestamp(field.type)
        else field
        for field in table.schema
    ]
    return table.cast(pa.schema(fields))


def tables(query: Query) -> str:
    return ", ".join(f"{item.stream.name} AS {item.alias}" for item in query.inputs)


def outputs(query: Query) -> str:
    return ", ".join(f"{output.expr.sql} AS {output.name}" for output in query.select)


def conditions(query: Query) -> str:
    """Everything an answer must meet, with `answer_time` the instant at which it must."""
    found = [inside(item) for item in query.inputs]
    found += [f"{item.alias}.ts <= answer_time" for item in query.inputs]
    found += [condition.sql for item in query.inputs for condition in item.filters]
    found += [condition.sql for condition in query.residual]
    for cls in query.graph.classes:
        first, *others = cls.attributes
        found += [f"{first.expr.sql} = {other.expr.sql}" for other in others]
    return " AND ".join(found)


def inside(item: Input) -> str:
    """One line of the table of windows."""
    alias, name, size = item.alias, item.stream.name, getattr(item.window, "size", 0)
    match item.window:
        case RangeWindow():
            return f"answer_time - {size} <= {alias}.ts"
        case TumbleWindow():
            return f"{floor_to('answer_time', size)} = {floor_to(f'{alias}.ts', size)}"
        case RowsWindow():
            later = f"SELECT count(*) FROM {name} o WHERE o.ts <= answer_time AND o.n > {alias}.n"
            return f"({later}) < {size}"
        case PartitionRowsWindow(size=size, columns=columns):
            own = " AND ".join(f"o.{column} IS NOT DISTINCT FROM {alias}.{column}" for column in columns)
            later = f"SELECT count(*) FROM {name} o WHERE {own} AND o.ts <= answer_time AND o.n > {alias}.n"
            return f"({later}) < {size}"
        case TumbleRowsWindow():
            newest = f"SELECT max(o.n) // {size} FROM {name} o WHERE o.ts <= answer_time"
            return f"({newest}) = {alias}.n // {size}"
        case _:
            return "true"


def floor_to(instant: str, size: int) -> str:
    """The multiple of `size` at or below an instant; DuckDB's % follows the sign of the dividend."""
    return f"{instant} - (({instant} % {size}) + {size}) % {size}"


def ask(database: duckdb.DuckDBPyConnection, sql: str) -> Counter[Hashable]:
    """The bag of rows of a statement, read to its end."""
    return bag(database.execute(sql).fetchall())

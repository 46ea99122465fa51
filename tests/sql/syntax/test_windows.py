"""Windows and EMIT EVERY, in every spelling."""

from __future__ import annotations

import pytest

from watersmeet.query import (
    UNBOUNDED,
    Column,
    Query,
    Stream,
    Window,
    last_of_each,
    range_us,
    rows,
    tumble_rows,
    tumble_us,
)
from watersmeet.sql import bind_query

S1 = Stream(
    "S1", (Column("dest", "string"), Column("tags", "array<string>"), Column("ts", "timestamp")), "ts"
)
S2 = Stream("S2", (Column("dest", "string"), Column("rows", "array<int>"), Column("ts", "timestamp")), "ts")
MINUTE = 60_000_000


def bind(text: str) -> Query:
    return bind_query(text, [S1, S2])


@pytest.mark.parametrize(
    ("written", "window"),
    [
        ("[RANGE 10 MINUTES]", range_us(10 * MINUTE)),
        ("[range 10 min]", range_us(10 * MINUTE)),
        ("[Range 10 Mins]", range_us(10 * MINUTE)),
        ("[RANGE 1 MINUTE]", range_us(MINUTE)),
        ("[RANGE '10 minutes']", range_us(10 * MINUTE)),
        ("[RANGE INTERVAL '10' MINUTES]", range_us(10 * MINUTE)),
        ("[RANGE INTERVAL 10 MINUTES]", range_us(10 * MINUTE)),
        ("[RANGE INTERVAL '10 minutes']", range_us(10 * MINUTE)),
        ("[RANGE 1 min 30 s]", range_us(90_000_000)),
        ("[RANGE 1.5 minutes]", range_us(90_000_000)),
        ("[RANGE 10s]", range_us(10_000_000)),
        ("[RANGE 10min]", range_us(10 * MINUTE)),
        ("[RANGE 2d]", range_us(2 * 24 * 60 * MINUTE)),
        ("[RANGE 250 ms]", range_us(250_000)),
        ("[RANGE 250 MILLISECONDS]", range_us(250_000)),
        ("[RANGE 3 hours]", range_us(180 * MINUTE)),
        ("[RANGE 3 h]", range_us(180 * MINUTE)),
        ("[RANGE 1 day]", range_us(24 * 60 * MINUTE)),
        ("[ RANGE\n  10 /* not 20 */ MINUTES -- long enough\n]", range_us(10 * MINUTE)),
        ("[TUMBLE 10 MINUTES]", tumble_us(10 * MINUTE)),
        ("[tumble 100 rows]", tumble_rows(100)),
        ("[TUMBLE 1 ROW]", tumble_rows(1)),
        ("[ROWS 100]", rows(100)),
        ("[rows 1]", rows(1)),
        ("[PARTITION BY dest ROWS 1]", last_of_each(["dest"])),
        ("[partition  by `DEST` , ts\n rows 3 rows]", last_of_each(["dest", "ts"], 3)),
        ("[UNBOUNDED]", UNBOUNDED),
        ("[range unbounded]", UNBOUNDED),
        ("[RANGE UNBOUNDED PRECEDING]", UNBOUNDED),
        ("", UNBOUNDED),
    ],
)
def test_a_window_stands_before_or_after_the_alias(written: str, window: Window) -> None:
    for stream in (
        f"S1{written}",
        f"s1 {written} AS a",
        f"S1 {written} a",
        f"S1 AS a {written}",
        f"S1 a{written}",
    ):
        assert bind(f"SELECT dest FROM {stream}").inputs[0].window == window
    joined = f"SELECT a.dest FROM S2 AS b JOIN S1 {written} AS a ON a.dest = b.dest"
    assert bind(joined).inputs[1].window == window
    assert bind(joined.replace(" JOIN ", ", ").replace(" ON ", " WHERE ")).inputs[1].window == window


def test_brackets_in_expressions_are_still_subscripts() -> None:
    query = bind(
        "SELECT a.tags[0], b.rows[1] FROM S1 a [ROWS 2], S2 b WHERE a.dest = b.dest AND b.rows[0] = 3"
    )
    assert [output.expr.sql for output in query.select] == ["a.tags[0]", "b.rows[1]"]
    assert [expr.sql for expr in query.inputs[1].filters] == ["b.rows[0] = 3"]


def test_brackets_in_strings_and_comments_are_text() -> None:
    query = bind("SELECT dest /* [ROWS 1] */ FROM S1 -- [ROWS 2]\n [ROWS 3] WHERE dest != '[ROWS 4]'")
    assert query.inputs[0].window == rows(3)
    assert query.inputs[0].filters[0].sql == "S1.dest != '[ROWS 4]'"


@pytest.mark.parametrize(
    ("windows", "emit", "tick_us"),
    [
        ("[RANGE 10 MIN]", "", MINUTE),
        ("[TUMBLE 5 ms]", "", 1_000),
        ("[RANGE 10 MIN]", "EMIT EVERY 10 SECONDS", 10_000_000),
        ("[RANGE 10 MIN]", "emit every '250 ms'", 250_000),
        ("[ROWS 5]", "EMIT EVERY INTERVAL 1 HOUR", 60 * MINUTE),
    ],
)
def test_the_tick_is_as_written_or_a_tenth_of_the_shortest_window(
    windows: str, emit: str, tick_us: int
) -> None:
    for where in ("", "WHERE dest = 'x'", "GROUP BY dest", "GROUP BY dest HAVING count(*) > 1"):
        query = bind(f"SELECT count(*) FROM S1 {windows} {where} {emit}")
        assert query.aggregate is not None
        assert query.aggregate.emit_every_us == tick_us


def test_emit_and_every_are_still_names() -> None:
    stream = Stream("s", (Column("emit", "int"), Column("every", "int")))
    query = bind_query("SELECT s.emit, every FROM s [ROWS 5] AS s WHERE emit = 1", [stream])
    assert [output.name for output in query.select] == ["emit", "every"]

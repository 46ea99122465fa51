"""Names with dots, spaces and quotes in them: streams, aliases, columns and answers."""

from __future__ import annotations

import pytest

from watersmeet.errors import SqlError
from watersmeet.query import Stream
from watersmeet.sql import bind_query
from watersmeet.testing import Result, declare, run_query

COLUMNS = "`a.b` BIGINT, `the id` STRING, ```x``` BIGINT, `event.ts` TIMESTAMP"
STREAMS = [declare(name, COLUMNS, event_time="event.ts") for name in ("`my orders`", "`other.s`")]
BATCHES = [
    {
        "my orders": [(1, "o1", 10, "00:00:01"), (2, "o2", 20, "00:00:02"), (None, "o3", 5, "00:00:02")],
        "other.s": [(1, "p1", 3, "00:00:02"), (2, "p2", 30, "00:00:03"), (1, "p3", 1, "00:00:03")],
    }
]
JOIN = (
    'FROM "my orders" [RANGE 5 SECONDS], `other.s` [{window}] AS "x.y" WHERE "my orders"."a.b" = `x.y`.`a.b`'
)


def run(
    select: str, window: str = "RANGE 5 SECONDS", streams: list[Stream] = STREAMS, **settings: str
) -> Result:
    return run_query(
        f"{select} {JOIN.format(window=window)}", BATCHES, streams=streams, flush=True, **settings
    )


@pytest.mark.parametrize("routing", ["shares", "pipeline"])
@pytest.mark.parametrize("window", ["RANGE 5 SECONDS", "ROWS 5"])
def test_a_join_takes_any_names(window: str, routing: str) -> None:
    if routing == "pipeline" and window.startswith("ROWS"):
        pytest.skip("ROWS windows are routed by shares")
    result = run(
        'SELECT "my orders"."the id", "x.y".`the id` AS `other.id`, "x.y".*', window, routing=routing
    )
    assert sorted(row[:2] for row in result.rows) == [("o1", "p1"), ("o1", "p3"), ("o2", "p2")]
    assert [output.name for output in result.query.select] == [
        *("my orders_the id", "other.id", "a.b", "x.y_the id", "`x`", "event.ts"),
    ]
    assert result.matches_oracle()


def test_residual_conditions_distinct_values_and_groups_take_any_names() -> None:
    result = run('SELECT DISTINCT upper("x.y"."the id") AS `u u`, `my orders`.```x``` + 1 AS `n.1`')
    assert sorted(result.rows) == [("P1", 11), ("P2", 21), ("P3", 11)]
    text = f"{JOIN.format(window='RANGE 5 SECONDS')} AND `my orders`.```x``` < `x.y`.```x```"
    grouped = run_query(
        f"SELECT `x.y`.`the id`, count(*) AS `how many` {text} GROUP BY `x.y`.`the id` EMIT EVERY 1 SECOND",
        BATCHES,
        streams=STREAMS,
        flush=True,
    )
    assert set(grouped.rows) == {("p2", 1)}
    assert grouped.matches_oracle()


def test_a_star_is_every_column_of_every_input() -> None:
    result = run("SELECT *", streams=STREAMS)
    assert len(result.query.select) == 8
    assert len(result.rows) == 3
    assert result.matches_oracle()


def test_names_that_could_not_be_told_apart_are_refused() -> None:
    streams = [
        declare("a", "k BIGINT, `y.z` BIGINT, ts TIMESTAMP", event_time="ts"),
        declare("b", "k BIGINT, z BIGINT, ts TIMESTAMP", event_time="ts"),
    ]
    with pytest.raises(SqlError, match=r"x\.y\.z could be two columns"):
        bind_query("SELECT 1 AS one FROM a AS x, b AS `x.y` WHERE x.k = `x.y`.k", streams)

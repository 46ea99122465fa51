"""What explain says of hot values."""

from __future__ import annotations

from watersmeet.plan.explain.hot_values import describe_hot_values
from watersmeet.plan.physical import plan_physical
from watersmeet.plan.routing.routing import Shares
from watersmeet.plan.statistics.statistics import AttributeStatistics, Statistics, StreamStatistics
from watersmeet.query import Column, Stream
from watersmeet.sql import bind_query

COLUMNS = (Column("k", "string"), Column("v", "bigint"), Column("ts", "timestamp"))
STREAMS = [Stream(name, COLUMNS, "ts") for name in ("s1", "s2")]


def hot(share: float) -> StreamStatistics:
    listed = (("x", 1000 * share),) if share else ()
    return StreamStatistics(1000.0, attributes={"k": AttributeStatistics(1000, listed)})


def lines(window: str, first: float, second: float, filters: str = "") -> str:
    sql = f"SELECT a.v FROM s1 {window} AS a, s2 [RANGE 10 MS] AS b WHERE a.k = b.k{filters}"
    statistics = Statistics({"s1": hot(first), "s2": hot(second)}, filters={"a.v > 5": 0.1})
    plan = plan_physical(bind_query(sql, STREAMS), 4, statistics)
    assert isinstance(plan.routing, Shares)
    return "\n".join(line for each in plan.routing.hot_values for line in describe_hot_values(each))


def test_a_measured_heavy_hitter_is_listed_with_the_input_that_would_be_spread() -> None:
    assert lines("[RANGE 10 MS]", 0.5, 0.02) == (
        'a.k = b.k: 1 by these statistics\n  "x" of a (500/s) over 4 buckets, of b to each'
    )
    assert '"x" of b (600/s)' in lines("[RANGE 10 MS]", 0.02, 0.6)


def test_a_filter_that_leaves_little_of_a_value_makes_it_rare() -> None:
    assert '"x" of b (200/s)' in lines("[RANGE 10 MS]", 0.5, 0.2, " AND a.v > 5")


def test_an_even_stream_has_none() -> None:
    shown = lines("[RANGE 10 MS]", 0.0, 0.0)
    assert shown == "a.k = b.k: none by these statistics; watched for while running"


def test_windows_without_an_end_keep_values_in_their_buckets() -> None:
    assert lines("[UNBOUNDED]", 0.5, 0.02) == "a.k = b.k: stay in one bucket, as the window of a has no end"
    assert "with ROWS windows" in lines("[ROWS 10]", 0.5, 0.02)

"""Sets of streams with a watermark of their own: where one may fall idle, and only there."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from watersmeet.errors import QueryError
from watersmeet.plan.multiquery import Registered, plan_dataflow
from watersmeet.plan.multiquery.plan_dataflow import MAX_STREAMS
from watersmeet.plan.physical import plan_physical
from watersmeet.plan.routing.routing import Pipeline
from watersmeet.query import Column, Stream
from watersmeet.query.shared_dataflow import SharedDataflow
from watersmeet.query.shared_dataflow_json import dataflow_from_json, dataflow_to_json
from watersmeet.spark.jobs.resume.record import resumed_dataflow
from watersmeet.sql import bind_query

COLUMNS = (Column("k", "bigint"), Column("ts", "timestamp"))


def streams(count: int, idle: str) -> list[Stream]:
    """s0, s1 and so on; those whose digits are named may fall idle."""
    return [
        Stream(f"s{n}", COLUMNS, "ts", idle_after_us=1 if str(n) in idle.split() else None)
        for n in range(count)
    ]


def plan(
    pairs: Mapping[int, tuple[int, int]], declared: list[Stream], kept: SharedDataflow | None = None
) -> SharedDataflow:
    """The dataflow of joins of two streams each, by the number of the query."""
    registered = []
    for number, (a, b) in pairs.items():
        text = f"SELECT a.k FROM s{a} [RANGE 1 SECOND] AS a, s{b} [RANGE 1 SECOND] AS b WHERE a.k = b.k"
        registered.append(Registered(f"q{number}", number, bind_query(text, declared)))
    return plan_dataflow(registered, declared, 1, kept=kept)


def test_a_set_is_followed_where_one_of_its_streams_may_fall_idle() -> None:
    dataflow = plan({0: (0, 1), 1: (1, 2), 2: (2, 1)}, streams(3, "0"))
    assert dataflow.sets == (("{s0, s1}", ("s0", "s1")),)
    assert dataflow.streams == ("s0", "s1", "s2", "{s0, s1}")
    assert [tail.streams for tail in dataflow.tails] == [("{s0, s1}",), ("s1", "s2"), ("s1", "s2")]
    assert dataflow.reads(dataflow.tails[0]) == {"s0", "s1"}
    shared = {one.streams for one in dataflow.relations if one.name.startswith("s1")}
    assert all("{s0, s1}" in names for names in shared if "s2" not in names)


def test_the_bit_of_a_set_that_nobody_reads_is_given_to_another() -> None:
    declared = streams(4, "0 1 2 3")
    before = plan({0: (0, 1), 1: (1, 2)}, declared)
    after = plan({1: (1, 2), 2: (2, 3)}, declared, kept=before)
    assert after.streams == (*before.streams[:4], "{s2, s3}", "{s1, s2}")
    alone = plan({1: (1, 2)}, declared, kept=after)
    assert plan({1: (1, 2), 3: (0, 3)}, declared, kept=alone).streams == (
        *before.streams[:4],
        "{s0, s3}",
        "{s1, s2}",
    )


def test_more_sets_than_there_are_bits_are_refused() -> None:
    declared = streams(20, " ".join(map(str, range(20))))
    pairs = [(a, b) for a in range(20) for b in range(a)]
    count = MAX_STREAMS - len(declared)
    plan(dict(enumerate(pairs[:count])), declared)
    with pytest.raises(
        QueryError, match=rf"63 streams, not 20, and {count + 1} sets of streams with idle_after"
    ):
        plan(dict(enumerate(pairs[: count + 1])), declared)


def test_sets_outlast_a_restart_as_json() -> None:
    dataflow = plan({0: (0, 1)}, streams(2, "1"))
    assert dataflow_from_json(dataflow_to_json(dataflow)).sets == dataflow.sets
    written = {name: value for name, value in dataflow_to_json(dataflow).items() if name != "sets"}
    assert dataflow_from_json(written).sets == (), "older versions knew none"


@pytest.mark.parametrize("idle_before", ["", "1"])
@pytest.mark.parametrize("idle_now", ["", "0 1"])
def test_a_pipeline_is_resumed_whether_or_not_its_streams_may_fall_idle_now(
    idle_before: str, idle_now: str
) -> None:
    text = "SELECT a.k FROM s0 [RANGE 1 SECOND] AS a, s1 [RANGE 1 SECOND] AS b WHERE a.k = b.k"
    planned = []
    for idle in (idle_before, idle_now):
        routing = plan_physical(bind_query(text, streams(2, idle)), 2, None, "pipeline").routing
        assert isinstance(routing, Pipeline)
        planned.append(routing.dataflow)
    kept, fresh = planned
    resumed = resumed_dataflow(kept, fresh)
    assert resumed.streams[: len(kept.streams)] == kept.streams
    assert {name for tail in resumed.tails for name in tail.streams} <= {*resumed.streams}
    assert {one.streams for one in resumed.relations} == {fresh.tails[0].streams}
    assert resumed.sets == fresh.sets

"""Queries that share a dataflow get a stream's tuples at every level that needs them."""

from __future__ import annotations

import random

import pytest

from watersmeet.oracle import oracle
from watersmeet.oracle.oracle import MicroBatch, Tuple
from watersmeet.plan.multiquery.plan_dataflow import Registered, plan_dataflow
from watersmeet.query import Column, Stream
from watersmeet.sql import bind_query
from watersmeet.testing import InProcessEngine, Setup

COLUMNS = tuple(Column(name, "bigint") for name in "xyv")
STREAMS = tuple(Stream(f"s{n}", (*COLUMNS, Column("ts", "timestamp")), "ts") for n in range(1, 5))
A, B, C, D = (f"s{n} [RANGE 20 US]" for n in range(1, 5))
SELECTS = {
    "four": f"SELECT a.v, b.v AS vb, c.v AS vc, d.v AS vd FROM {D} AS d, {A} AS a, {B} AS b, {C} AS c "
    "WHERE d.y = a.x AND a.y = b.x AND b.y = c.y",
    "two": f"SELECT a.v, d.v AS vd FROM {D} AS d, {A} AS a WHERE d.y = a.x",
    "three": f"SELECT a.v, c.v AS vc, d.v AS vd FROM {D} AS d, {C} AS c, {A} AS a "
    "WHERE d.y = c.x AND c.y = a.y",
}
QUERIES = {name: bind_query(select, STREAMS) for name, select in SELECTS.items()}


@pytest.mark.parametrize("direct_files", [False, True])
def test_tuples_that_three_levels_need_reach_each_of_them(direct_files: bool) -> None:
    registered = [Registered(name, number, query) for number, (name, query) in enumerate(QUERIES.items())]
    feeds = {feed.name: feed.levels for feed in plan_dataflow(registered, STREAMS, 3).feeds}
    assert feeds["s4 by y"] == (1, 2, 3), "a case in which nothing goes past a level proves nothing"
    batches = draw_batches()
    with InProcessEngine(QUERIES, Setup(direct_files=direct_files)) as engine:
        steps = [engine.step(batch) for batch in batches]
    for name, query in QUERIES.items():
        expected = oracle.run(query, batches).rows
        assert expected, f"{name} without answers proves nothing"
        assert oracle.bag(row for step in steps for row in step.by_query[name]) == oracle.bag(expected), name


def draw_batches() -> list[MicroBatch]:
    rng = random.Random(7)
    return [
        {
            stream.name: [
                Tuple(15 * number + n, {name: rng.randrange(4) for name in "xyv"}) for n in range(12)
            ]
            for stream in STREAMS
        }
        for number in range(4)
    ]

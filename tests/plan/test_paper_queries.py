"""The papers' example queries in examples/papers: each binds, and is planned from its statistics."""

from __future__ import annotations

import pytest

from tests.plan.papers import example
from watersmeet.plan.probing import plan_probing
from watersmeet.plan.routing.shares import plan_shares
from watersmeet.plan.sites.dhtjoin import plan_dhtjoin
from watersmeet.plan.sites.semijoin.semijoin import plan_semijoin
from watersmeet.plan.sizing.completeness import size, stream_demands

SHAPES = {
    "dhtjoin-completeness": "type 1",
    "dhtjoin-links": "type 1",
    "dhtjoin-q1": "type 1",
    "dhtjoin-q2": "type 2",
    "rjoin-example-2": "type 1",
    "rjoin-four-way": "type 2",
    "rjoin-q1": "type 2",
    "semijoin-example-1": "type 1",
    "semijoin-example-2": "type 1",
    "semijoin-example-3": "type 1",
    "semijoin-figure-9": "type 2",
    "semijoin-world-cup": "type 1",
}


@pytest.mark.parametrize("name", SHAPES)
def test_every_example_is_planned_by_every_strategy(name: str) -> None:
    query, statistics = example(name)
    assert query.graph.shape == SHAPES[name]
    known = {stream.lower() for stream in statistics.streams}
    assert {stream.name.lower() for stream in query.streams} == known
    aliases = set(query.graph.aliases)
    assert {head for step in plan_semijoin(query, statistics).steps for head in step.source} == aliases
    assert set(plan_dhtjoin(query, statistics).root.streams) == aliases
    assert [sequence.head for sequence in plan_probing(query, statistics)] == list(query.graph.aliases)
    assert plan_shares(query, statistics, 16).buckets_used <= 16


@pytest.mark.parametrize("name", SHAPES)
def test_statistics_name_columns_the_query_joins_on(name: str) -> None:
    """A misspelt column in a statistics file would silently plan with defaults."""
    query, statistics = example(name)
    for cls in query.graph.classes:
        for side in cls.attributes:
            stream = query.input(side.alias).stream.name
            column = side.expr.columns[0].column if side.expr.is_column else side.expr.sql
            assert column in statistics.stream(stream).attributes


def test_figure_9_greedy_equals_exhaustive() -> None:
    query, statistics = example("semijoin-figure-9")
    for ordering in ("linear", "tree"):
        greedy = plan_semijoin(query, statistics, ordering=ordering)
        exhaustive = plan_semijoin(query, statistics, ordering=ordering, search="exhaustive")
        assert greedy.cost == pytest.approx(exhaustive.cost)


def test_figure_10_greedy_is_within_a_quarter_of_optimal() -> None:
    """The paper's largest difference, at windows of 800 ms, is below 25 %."""
    query, statistics = example("semijoin-world-cup")
    greedy = plan_semijoin(query, statistics).cost
    exhaustive = plan_semijoin(query, statistics, search="exhaustive").cost
    assert exhaustive <= greedy < exhaustive * 1.25


def test_the_type_2_query_sends_on_the_pair_with_the_slow_stream() -> None:
    query, statistics = example("dhtjoin-q2")
    plan = plan_dhtjoin(query, statistics)
    assert [child.streams for child in plan.root.inputs] == [("x",), ("y", "z")]


def test_the_completeness_query_is_sized() -> None:
    """Equation (8): windows of 30/s * 300 s = 9000 tuples, room for 90 of each, half the answers."""
    query, statistics = example("dhtjoin-completeness")
    demands = stream_demands(query, statistics, {"s1": 90, "s2": 90})
    assert size(demands, 0.5).needed == 71

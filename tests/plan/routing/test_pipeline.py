"""Pipelines of single queries: the tree that is priced is the tree that is planned, and it answers."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernel.multiquery.feeding import run_dataflow
from tests.plan.joins import TOPOLOGIES, edges, join_query, random_statistics
from tests.plan.papers import example
from tests.strategies import TIME_WINDOWS, cases
from watersmeet.errors import ConfigurationError, QueryError
from watersmeet.oracle import oracle
from watersmeet.oracle.oracle import MicroBatch
from watersmeet.plan.explain import explain
from watersmeet.plan.physical import plan_physical
from watersmeet.plan.routing.pipeline import plan_pipeline
from watersmeet.plan.routing.pipeline_or_shares import price_pipeline
from watersmeet.plan.routing.routing import Pipeline, Shares
from watersmeet.plan.statistics.statistics import Statistics
from watersmeet.query import Query, rows


@pytest.mark.parametrize("topology", TOPOLOGIES)
@pytest.mark.parametrize("seed", range(3))
def test_the_tree_that_is_priced_is_the_tree_that_is_planned(topology: str, seed: int) -> None:
    query = join_query("rstuv", edges(topology, "rstuv"))
    statistics = random_statistics(query, random.Random(seed))
    dataflow = plan_pipeline(query, statistics=statistics)
    joins = {join.name: join for join in dataflow.joins}
    delivered = sorted(
        "".join(sorted(joins[one.source].slots)) if one.slot is None else one.slot
        for one in dataflow.relations
    )
    priced = price_pipeline(query, statistics).deliveries
    assert delivered == sorted("".join(sorted(each.name.split(" ⋈ "))) for each in priced)


def test_random_pipelines_answer_as_the_oracle_does(examples: Callable[[int], settings]) -> None:
    """Filters are applied where a pipeline's feeds are read, so the queries here have none."""
    seen: list[tuple[int, bool]] = []  # levels, and whether there were answers

    @examples(30)
    @given(
        cases(min_inputs=2, kinds=("plain",), windows=TIME_WINDOWS, key_expressions=True), st.integers(1, 3)
    )
    def holds(case: tuple[Query, list[MicroBatch]], buckets: int) -> None:
        query, batches = case
        plain = replace(query, inputs=tuple(replace(item, filters=()) for item in query.inputs))
        dataflow = plan_pipeline(plain)
        outcome = run_dataflow(lambda _: dataflow, {"": plain}, batches, buckets)
        expected = oracle.bag(oracle.run(plain, batches, flush=True).rows)
        assert oracle.bag(outcome.rows[""]) == expected
        seen.append((dataflow.levels, bool(expected)))

    holds()
    assert sum(answered for _, answered in seen) > len(seen) / 2
    assert sum(levels > 1 and answered for levels, answered in seen) > len(seen) / 5


def test_levels_bound_the_tree() -> None:
    chain = join_query("rstu", edges("chain", "rstu"))
    assert plan_pipeline(chain, levels=2).levels == 2
    with pytest.raises(QueryError, match="needs 2 levels, not 1"):
        plan_pipeline(chain, levels=1)


def test_every_input_is_a_feed_of_its_own() -> None:
    query, statistics = example("rjoin-four-way")
    dataflow = plan_pipeline(query, statistics=statistics)
    assert [feed.name for feed in dataflow.feeds] == sorted(query.graph.aliases)
    (ending,) = dataflow.tails
    assert ending.outputs is None
    assert ending.payload == ("r.a", "s.c", "j.c", "k.d")


def test_shares_are_run_unless_a_pipeline_is_asked_for() -> None:
    query, statistics = example("rjoin-four-way")
    default = plan_physical(query, 4, statistics)
    assert isinstance(default.routing, Shares)
    piped = plan_physical(query, 4, statistics, "pipeline")
    assert piped.routing == Pipeline(plan_pipeline(query, statistics=statistics), "asked for")
    assert piped.identity.routing == "pipeline"
    assert [join["level"] for join in piped.identity.state["routing"]["joins"]] == [1, 2, 3]
    assert "shares" not in piped.fingerprint
    with pytest.raises(ConfigurationError, match="no routing 'any': choose one of shares, pipeline"):
        plan_physical(query, 4, statistics, "any")


def test_left_to_itself_the_engine_takes_a_pipeline_where_it_saves_half_and_says_why() -> None:
    query, statistics = example("rjoin-four-way")
    few = explain(query, statistics, partitions=4)
    assert few.to_json()["runs_as"] == "shares"
    shown = explain(query, statistics, partitions=64)
    assert shown.to_json()["runs_as"] == "pipeline"
    assert "runs as   pipeline, moves 9,366 bytes/s and keeps 7,001 bytes, where shares" in shown.pretty()
    assert "level 2: j ⋈ k by j.f, s by c" in shown.pretty()
    one_key = plan_physical(join_query("rst", [("r", "s", "t")]), 4, Statistics(), None)
    assert (one_key.routing.name, one_key.routing.reason) == ("shares", "one stage either way")
    counted = join_query("rs", [("r", "s")], {"r": rows(5)})
    plan = plan_physical(counted, 4, Statistics(), None)
    assert plan.routing.name == "shares"
    assert "counts rows" in plan.routing.reason
    with pytest.raises(QueryError, match=r"does not run as a pipeline: r \[ROWS 5\] counts rows"):
        plan_physical(counted, 4, Statistics(), "pipeline")

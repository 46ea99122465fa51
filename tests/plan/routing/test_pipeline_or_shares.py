"""Pipeline versus hypercube: what each moves and keeps, by hand and for random queries."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from tests.plan.joins import TOPOLOGIES, edges, join_query, random_statistics
from watersmeet.errors import ConfigurationError
from watersmeet.plan.routing.pipeline_or_shares import (
    Delivery,
    PricedPipeline,
    choose_routing,
    price_pipeline,
    price_shares,
)
from watersmeet.plan.statistics.rate_model import rate_model
from watersmeet.plan.statistics.statistics import AttributeStatistics, Statistics, StreamStatistics
from watersmeet.query import Query


def chain(distinct: float) -> tuple[Query, Statistics]:
    """R(a), S(a, b), T(b): 100 bytes/s each, 10 s windows of 10 tuples."""
    query = join_query("rst", [("r", "s"), ("s", "t")])
    values = {name: AttributeStatistics(distinct=distinct) for name in ("c0", "c1")}
    return query, Statistics(
        {name: StreamStatistics(rate_per_s=1.0, tuple_bytes=100.0, attributes=values) for name in "rst"}
    )


def test_shares_copy_tuples_and_keep_the_copies() -> None:
    query, statistics = chain(1000.0)
    routing = price_shares(query, statistics, 4)
    assert routing.hypercube.shares == (2, 2)
    assert {d.name: (d.copies, d.bytes_per_s, d.state_bytes) for d in routing.deliveries} == {
        "r": (2, 200.0, 2000.0),
        "s": (1, 100.0, 1000.0),
        "t": (2, 200.0, 2000.0),
    }
    assert (routing.bytes_per_s, routing.state_bytes) == (500.0, 5000.0)


def test_a_pipeline_sends_and_keeps_partial_results() -> None:
    """Of 10 x 10 pairs a thousandth match: W = 0.1 pairs of 200 bytes, turned over 0.2 times a second."""
    query, statistics = chain(1000.0)
    routing = price_pipeline(query, statistics)
    assert len(routing.stages) == 2
    partial = routing.deliveries[2:]
    (pair,) = [delivery for delivery in partial if "⋈" in delivery.name]
    assert pair.bytes_per_s == pytest.approx(0.02 * 200)
    assert pair.state_bytes == pytest.approx(0.1 * 200)
    assert routing.bytes_per_s == pytest.approx(304.0)
    assert routing.state_bytes == pytest.approx(3020.0)


@pytest.mark.parametrize(("distinct", "winner"), [(1000.0, "pipeline"), (10.0, "shares")])
def test_few_partial_results_favour_the_pipeline(distinct: float, winner: str) -> None:
    """With 10 values the pairs are 2 tuples/s of 200 bytes, more than the 200 bytes/s of copies."""
    query, statistics = chain(distinct)
    chosen = choose_routing(price_shares(query, statistics, 4), price_pipeline(query, statistics))
    assert chosen.strategy == winner


def test_one_attribute_is_one_stage_either_way_and_shares_win_the_tie() -> None:
    query = join_query("rst", [("r", "s", "t")])
    statistics = Statistics()
    shares, pipeline = price_shares(query, statistics, 8), price_pipeline(query, statistics)
    assert pipeline.bytes_per_s == shares.bytes_per_s
    assert pipeline.state_bytes == shares.state_bytes
    assert choose_routing(shares, pipeline) is shares


def test_where_both_move_the_same_less_state_wins() -> None:
    query, statistics = chain(1000.0)

    def deliveries(state: float) -> tuple[Delivery, ...]:
        return (Delivery("r", "join", 1, 100.0, state),)

    def pipeline(state: float) -> PricedPipeline:
        return replace(price_pipeline(query, statistics), deliveries=deliveries(state))

    shares = replace(price_shares(query, statistics, 4), deliveries=deliveries(200.0))
    assert choose_routing(shares, pipeline(100.0)).strategy == "pipeline"
    assert choose_routing(shares, pipeline(300.0)).strategy == "shares"
    assert choose_routing(shares, pipeline(199.0)).strategy == "shares"


@pytest.mark.parametrize("topology", TOPOLOGIES)
@pytest.mark.parametrize("seed", range(5))
def test_the_chosen_one_never_moves_more(topology: str, seed: int) -> None:
    rng = random.Random(seed)
    query = join_query("rstu", edges(topology, "rstu"))
    statistics = random_statistics(query, rng)
    shares = price_shares(query, statistics, rng.choice([2, 8, 32]))
    pipeline = price_pipeline(query, statistics)
    least = min(shares.bytes_per_s, pipeline.bytes_per_s)
    assert choose_routing(shares, pipeline).bytes_per_s <= least * 1.01 + 1e-9
    base = sum(source.rate_per_s * source.tuple_bytes for source in rate_model(query, statistics).sources)
    for routing in (shares, pipeline):
        assert routing.bytes_per_s >= base * (1 - 1e-9)
        names = [name for d in routing.deliveries for name in [d.name] if "⋈" not in name]
        assert sorted(names) == sorted("rstu")


def test_a_single_stream_has_no_pipeline() -> None:
    query = join_query("r", [])
    assert price_shares(query, Statistics(), 4).bytes_per_s == 1000 * 100
    with pytest.raises(ConfigurationError, match="at least two inputs"):
        price_pipeline(query, Statistics())

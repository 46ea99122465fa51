"""The case that showed that advice was not to be trusted: two streams with many values, and few in common."""

from __future__ import annotations

import pytest

from tests.plan.joins import join_query
from watersmeet.lab.wan.advice import draw_sample, simulate_advice
from watersmeet.plan.sites.advice import advise_sites
from watersmeet.plan.statistics.statistics import AttributeStatistics, Statistics, StreamStatistics
from watersmeet.query import Query, range_us

SECOND = 1_000_000


def many_and_few_values() -> tuple[Query, Statistics]:
    """100 tuples/s of 1,000 bytes each, windows of 60 s, 100,000 and 4,000 values."""
    query = join_query("rs", [("r", "s")], {"r": range_us(60 * SECOND), "s": range_us(60 * SECOND)})
    streams = {
        name: StreamStatistics(100.0, 1000.0, site, {"c0": AttributeStatistics(distinct=distinct)})
        for name, site, distinct in (("r", "paris", 100_000.0), ("s", "oslo", 4000.0))
    }
    return query, Statistics(streams)


def test_what_is_advised_ships_what_was_predicted_and_less_than_simple_shipping() -> None:
    query, statistics = many_and_few_values()
    sample = draw_sample(query, statistics, 70.0, seed=1, reason="a test")
    chosen, simple = simulate_advice(advise_sites(query, statistics), statistics, sample, 10.0).options
    shipped = sum(chosen.crossed.values())
    assert chosen.option.method == "semijoin"
    assert shipped == pytest.approx(chosen.option.bytes_per_s * 10, rel=0.1)
    assert shipped < sum(simple.crossed.values())

"""Advice put to the test: predicted bytes beside those that crossed simulated links."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.plan.joins import join_query
from tests.plan.papers import example
from watersmeet.errors import ConfigurationError
from watersmeet.lab.wan.advice.advice import (
    SiteSimulation,
    Span,
    run_option,
    sample_seconds,
    simulate_advice,
    window_fill_s,
)
from watersmeet.lab.wan.advice.sample import draw_sample, taken_sample
from watersmeet.plan.sites.advice import advise_sites
from watersmeet.plan.statistics.statistics import (
    AttributeStatistics,
    Link,
    Network,
    Statistics,
    StreamStatistics,
)
from watersmeet.query import NEVER, Query, rows

SECOND = 1_000_000


def simulated(name: str, seconds: float) -> SiteSimulation:
    query, statistics = example(name)
    sample = draw_sample(
        query, statistics, sample_seconds(query, statistics, seconds), seed=1, reason="a test"
    )
    return simulate_advice(advise_sites(query, statistics), statistics, sample, seconds)


def two(window_s: int = 2, many: float = 4000.0) -> tuple[Query, Statistics]:
    """Large tuples at two sites, of which few match: a semijoin is advised."""
    query = join_query("rs", [("r", "s")])
    inputs = tuple(
        replace(item, window=replace(item.window, size=window_s * SECOND)) for item in query.inputs
    )
    streams = {
        name: StreamStatistics(20.0, 2000.0, site, {"c0": AttributeStatistics(distinct=distinct)})
        for name, site, distinct in (("r", "paris", many), ("s", "oslo", 100.0))
    }
    return replace(query, inputs=inputs), Statistics(streams)


def test_a_distributed_plan_ships_what_was_predicted() -> None:
    """PMJoin's Example 2, whose selectivities are given: values are drawn to fit them."""
    found = simulated("pmjoin-example-2", 60.0)
    assert (found.seconds, found.filled_s) == (60.0, 10.0)
    chosen, simple = found.options
    assert chosen.option.method == "distributed"
    for one in (chosen, simple):
        assert sum(one.crossed.values()) == pytest.approx(one.option.bytes_per_s * 60, rel=0.1)
    assert simple.crossed.keys() == simple.option.by_link().keys()


def test_the_report_says_what_it_is_of() -> None:
    text = simulated("pmjoin-example-1", 20.0).pretty()
    assert text.startswith(
        "simulated 20 s of tuples drawn from the statistics (a test), after 500 ms to fill"
    )
    assert "too few" not in text
    assert "predicted 2,002 bytes, simulated" in text


def test_a_semijoin_plan_is_run_by_its_own_executor() -> None:
    query, statistics = two()
    advice = advise_sites(query, statistics)
    assert advice.chosen.method == "semijoin"
    sample = draw_sample(query, statistics, 42.0, seed=2, reason="a test")
    chosen, simple = simulate_advice(advice, statistics, sample, 40.0).options
    assert set(chosen.crossed) <= {("paris", "oslo"), ("oslo", "paris")}
    assert 0 < sum(chosen.crossed.values()) < sum(simple.crossed.values())
    assert sum(simple.crossed.values()) == pytest.approx(simple.option.bytes_per_s * 40, rel=0.05)


def test_windows_that_could_not_be_filled_are_reported() -> None:
    query, statistics = two(window_s=100)
    sample = draw_sample(query, statistics, 30.0, seed=2, reason="a test")
    found = simulate_advice(advise_sites(query, statistics), statistics, sample, 20.0)
    assert (found.filled_s, found.wanted_s) == (10.0, 100.0)
    assert "after 10 s to fill the windows; the longest window is 100 s, so results" in found.pretty()
    assert found.to_json()["windows_filled_s"] == 10.0


def test_a_sample_of_sources_reaches_as_far_as_all_its_inputs() -> None:
    inputs = [[(5, ("a",)), (9, None), (20, ("b",))], [(7, ("a",)), (15, ("a",))]]
    sample = taken_sample(inputs)
    assert (sample.start_us, sample.end_us) == (7, 15)
    assert sample.inputs[0] == [(9, None), (20, ("b",))]
    assert sample.until(16).inputs[0] == [(9, None)]


def test_refused_tuples_take_their_place_under_a_rows_window() -> None:
    query = join_query("rs", [("r", "s")], {"r": rows(1)})
    sample = taken_sample([[(0, ("a",)), (2, None), (6, ("a",))], [(0, ("a",)), (8, ("a",))]])
    known = [(one.at_us, one.tuple_.t, one.tuple_.end) for one in sample.arrivals(query) if one.input == 0]
    assert known == [(2, 0, 2), (8, 6, NEVER)]
    feed = sample.feeds(query)["r"]
    assert [member.ts for member in feed.members] == [0, 6]
    assert feed.times == (0, 2, 6)


def test_a_sample_without_common_time_is_refused() -> None:
    query, statistics = two()
    sample = taken_sample([[(0, ("a",))], [(5, ("a",))]])
    with pytest.raises(ConfigurationError, match="no time in which all streams have tuples"):
        simulate_advice(advise_sites(query, statistics), statistics, sample, 5.0)


def test_windows_of_every_kind_are_filled() -> None:
    query, statistics = two()
    assert window_fill_s(query, statistics) == 2.0
    counted = replace(query, inputs=(replace(query.inputs[0], window=rows(100)), query.inputs[1]))
    assert window_fill_s(counted, statistics) == 5.0


def counted_rows() -> tuple[Query, Statistics]:
    """Two streams under windows of rows, at two sites."""
    query, statistics = two()
    inputs = tuple(replace(item, window=rows(40)) for item in query.inputs)
    return replace(query, inputs=inputs), statistics


@pytest.mark.parametrize("name", ["SM-S1 and SM-D1", "SM-S2 and SM-D2", "SP-S and SP-D", "SM-S1 and SM-B"])
def test_ends_of_rows_are_booked_on_the_link_they_cross(name: str) -> None:
    """Link by link, not only in all: what is predicted for each way is what crosses it."""
    query, statistics = counted_rows()
    advice = advise_sites(query, statistics, interval_s=0.5)
    option = next(one for one in advice.options if f"{name} only" in one.name)
    sample = draw_sample(query, statistics, 162.0, seed=4, reason="a test")
    found = run_option(option, advice, statistics, sample, Span(2 * SECOND, 162 * SECOND))
    assert found.crossed.keys() == option.by_link().keys()
    for way, crossed in found.crossed.items():
        assert crossed == pytest.approx(found.predicted(way), rel=0.25)


def test_notices_of_ended_members_cross_from_their_home_to_the_level() -> None:
    """A tree over three sites: c0 joins all; the level of two streams is told which members have ended."""
    query = join_query("rst", ["rst"], dict.fromkeys("rst", rows(40)))
    streams = {
        name: StreamStatistics(20.0, size, site, {"c0": AttributeStatistics(distinct=40.0)})
        for name, size, site in (("r", 100.0, "a"), ("s", 100.0, "b"), ("t", 2000.0, "c"))
    }
    statistics = Statistics(streams)
    advice = advise_sites(query, statistics, interval_s=0.5)
    option = next(one for one in advice.options if "tree" in one.name)
    sample = draw_sample(query, statistics, 102.0, seed=4, reason="a test")
    found = run_option(option, advice, statistics, sample, Span(2 * SECOND, 102 * SECOND))
    notices = [load for load in option.loads if load.stream.startswith("ends of")]
    assert [load.bytes_per_s for load in notices] == [20.0 * 12] * len(notices) != []
    for way, crossed in found.crossed.items():
        assert crossed == pytest.approx(found.predicted(way), rel=0.25)


def test_links_delay_as_the_statistics_say_and_the_same_bytes_cross() -> None:
    query, statistics = two(many=400.0)
    slow = replace(statistics, network=Network(default=Link(bytes_per_s=30_000.0, latency_s=0.4)))
    sample = draw_sample(query, statistics, 122.0, seed=2, reason="a test")
    span = Span(2 * SECOND, 122 * SECOND)
    for known in (statistics, slow):
        advice = advise_sites(query, known, interval_s=0.5)
        for option in (advice.chosen, advice.baseline):
            found = run_option(option, advice, known, sample, span)
            assert sum(found.crossed.values()) == pytest.approx(option.bytes_per_s * 120, rel=0.15)


def test_a_longer_interval_ships_fewer_values_and_less_framing() -> None:
    query, statistics = two(many=400.0)
    sample = draw_sample(query, statistics, 122.0, seed=2, reason="a test")
    framing = []
    for interval_s in (0.1, 2.0):
        advice = advise_sites(query, statistics, interval_s=interval_s)
        option = next(one for one in advice.options if "SM-S1 and SM-D2 only" in one.name)
        found = run_option(option, advice, statistics, sample, Span(2 * SECOND, 122 * SECOND))
        framing.append(found.framing_bytes)
        assert sum(found.crossed.values()) == pytest.approx(option.bytes_per_s * 120, rel=0.15)
    assert framing[1] < framing[0] / 10

"""Advice on sites: every option priced in bytes, the cheapest first, and what cannot be priced refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.plan.joins import edges, join_query
from tests.plan.papers import example
from watersmeet.errors import ConfigurationError
from watersmeet.plan.sites.advice import AS_CHEAP, advise_sites
from watersmeet.plan.sites.plan_tree import links
from watersmeet.plan.sites.pmjoin.pmjoin import plan_centralized, plan_distributed, plan_pmjoin
from watersmeet.plan.sites.semijoin.plan import SemijoinPlan
from watersmeet.plan.statistics.statistics import (
    AttributeStatistics,
    Statistics,
    StreamStatistics,
)

EXAMPLES = ("pmjoin-example-1", "pmjoin-example-2", "semijoin-world-cup", "semijoin-figure-9")


def two_sites(**changed: object) -> Statistics:
    """A fast stream of few tuples that match, and a slow one."""
    many = {"c0": AttributeStatistics(distinct=1000.0)}
    streams = {
        "r": StreamStatistics(100.0, 10.0, "paris", many),
        "s": StreamStatistics(10.0, 10.0, "oslo", many),
    }
    return replace(Statistics(streams), **changed)  # type: ignore[arg-type]


def few_matches() -> Statistics:
    """Large tuples, of which one stream's hardly ever find a partner."""
    rare = StreamStatistics(10.0, 10_000.0, "paris", {"c0": AttributeStatistics(distinct=100_000.0)})
    few = StreamStatistics(10.0, 10_000.0, "oslo", {"c0": AttributeStatistics(distinct=100.0)})
    return Statistics({"r": rare, "s": few})


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_option_is_priced_by_what_crosses_its_links(name: str) -> None:
    query, statistics = example(name)
    advice = advise_sites(query, statistics)
    costs = [option.bytes_per_s for option in advice.options]
    assert costs == sorted(costs, key=lambda cost: float(f"{cost:.9g}"))
    assert {option.method for option in advice.options} >= {"simple", "distributed", "semijoin"}
    sites = set(advice.sites.values())
    assert {o.detail for o in advice.options if o.method == "simple"} == {f"all at {site}" for site in sites}
    for option in advice.options:
        loads = option.plan.links() if isinstance(option.plan, SemijoinPlan) else links(option.plan)
        assert sum(option.by_link().values()) == pytest.approx(sum(load.bytes_per_s for load in loads))
        assert all(a != b and {a, b} <= sites for a, b in option.by_link())


def test_the_costs_are_those_of_the_planners() -> None:
    """Example 1: 100.1, 54.03 and 0.0696 bytes/s."""
    query, statistics = example("pmjoin-example-1")
    cost = {option.name: option.bytes_per_s for option in advise_sites(query, statistics).options}
    assert cost["simple, all at n1"] == pytest.approx(plan_centralized(query, statistics).cost_bytes_per_s)
    assert cost["distributed, Algorithm 1"] == pytest.approx(
        plan_distributed(query, statistics).cost_bytes_per_s
    )
    assert cost["pmjoin, by rate, 3 partitions"] == pytest.approx(
        plan_pmjoin(query, statistics, partitions=100).cost_bytes_per_s
    )


def test_on_a_tie_the_simpler_plan_is_advised() -> None:
    """Two streams: a distributed plan cannot beat shipping the slow one."""
    advice = advise_sites(join_query("rs", [("r", "s")]), two_sites())
    assert advice.chosen.name == "simple, all at paris"
    assert advice.chosen is advice.baseline
    assert advice.chosen.by_link() == {("oslo", "paris"): pytest.approx(100.0)}


def test_a_plan_that_saves_next_to_nothing_is_not_advised() -> None:
    """The World Cup's access logs: a tree of semijoins ships 3 % less than simple shipping."""
    advice = advise_sites(*example("semijoin-world-cup"))
    cheapest = advice.options[0]
    assert cheapest.method == "semijoin"
    assert cheapest.bytes_per_s < advice.chosen.bytes_per_s <= cheapest.bytes_per_s * AS_CHEAP
    assert advice.chosen is advice.baseline


def test_both_pairs_of_two_step_and_one_step_semijoins_are_priced() -> None:
    names = {option.name for option in advise_sites(join_query("rs", [("r", "s")]), few_matches()).options}
    assert {f"semijoin, linear, SM-S1 and {other} only" for other in ("SM-D1", "SM-D2", "SM-B")} <= names


def test_semijoins_win_where_tuples_are_large_and_few_match() -> None:
    advice = advise_sites(join_query("rs", [("r", "s")]), few_matches())
    assert advice.chosen.method == "semijoin"


def placed(*sites: str | None) -> Statistics:
    return Statistics({name: StreamStatistics(site=site) for name, site in zip("rst", sites, strict=False)})


@pytest.mark.parametrize(
    ("statistics", "message"),
    [
        (placed(None, None, None), "no stream of the query has a site: declare where r, s, t arrive"),
        (placed("paris", None, "oslo"), "stream s has no site, the others have"),
        (placed("paris", "paris", "paris"), "all streams are at one site, paris"),
    ],
)
def test_what_has_no_sites_is_refused(statistics: Statistics, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        advise_sites(join_query("rst", edges("chain", "rst")), statistics)


def test_streams_without_statistics_are_refused_with_the_command() -> None:
    query = join_query("rs", [("r", "s")])
    inputs = tuple(replace(i, stream=replace(i.stream, site=f"at {i.alias}")) for i in query.inputs)
    known = Statistics({"r": StreamStatistics()})
    with pytest.raises(ConfigurationError, match=r"no statistics for s, .* run `watersmeet analyze it.sql`"):
        advise_sites(replace(query, inputs=inputs), known, statistics_command="watersmeet analyze it.sql")


def test_a_single_stream_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="this query reads one stream"):
        advise_sites(join_query("r", []), placed("paris"))


def test_values_and_groups_have_the_plans_whose_answers_come_together() -> None:
    """PMJoin's plans of Example 1 find answers at three sites; nothing is left out but such plans."""
    query, statistics = example("pmjoin-example-1")
    every = advise_sites(query, statistics).options
    found = advise_sites(replace(query, distinct=True), statistics).options
    assert [option.name for option in found] == [one.name for one in every if len(one.answer_sites) == 1]
    assert {option.method for option in every} - {"pmjoin"} <= {option.method for option in found}
    assert len(found) < len(every)

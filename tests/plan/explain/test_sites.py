"""Advice on sites: every option priced in bytes, the cheapest first, and what cannot be priced refused.

`python -m tests.plan.explain.test_sites` writes the golden texts again.
"""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest

from tests.plan.explain.test_paper_queries import example
from tests.plan.joins import edges, join_query
from watersmeet.errors import ConfigurationError
from watersmeet.plan.explain.sites import MONTH_S, SiteAdvice, advise_sites, size
from watersmeet.plan.sites.plan_tree import links
from watersmeet.plan.sites.pmjoin.pmjoin import plan_centralized, plan_distributed, plan_pmjoin
from watersmeet.plan.sites.semijoin.plan import SemijoinPlan
from watersmeet.plan.statistics.statistics import (
    AttributeStatistics,
    Link,
    Network,
    Statistics,
    StreamStatistics,
)

GOLDEN = Path(__file__).parent / "golden"
EXAMPLES = ("pmjoin-example-1", "pmjoin-example-2", "semijoin-world-cup", "semijoin-figure-9")


def two_sites(**changed: object) -> Statistics:
    """A fast stream of few tuples that match, and a slow one."""
    many = {"c0": AttributeStatistics(distinct=1000.0)}
    streams = {
        "r": StreamStatistics(100.0, 10.0, "paris", many),
        "s": StreamStatistics(10.0, 10.0, "oslo", many),
    }
    return replace(Statistics(streams), **changed)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", EXAMPLES)
def test_advice_reads_as_before(name: str) -> None:
    golden = (GOLDEN / f"sites-{name}.txt").read_text(encoding="utf-8")
    assert advise_sites(*example(name)).pretty() + "\n" == golden


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


def test_the_json_says_the_same() -> None:
    advice = advise_sites(*example("pmjoin-example-1"))
    data = json.loads(json.dumps(advice.to_json()))
    assert data["version"] == 1
    assert data["sites"] == {"s1": "n1", "s2": "n2", "s3": "n3"}
    chosen = data["chosen"]
    assert chosen["bytes_per_month"] == pytest.approx(chosen["bytes_per_s"] * MONTH_S)
    assert sum(link["bytes_per_s"] for link in chosen["links"]) == pytest.approx(chosen["bytes_per_s"])
    assert sum(load["bytes_per_s"] for load in data["streams"]) == pytest.approx(chosen["bytes_per_s"])
    assert data["baseline"]["detail"] == "all at n1"
    assert len(data["options"]) == len(advice.options)
    ET.fromstring(advice.svg())


def test_on_a_tie_the_simpler_plan_is_advised() -> None:
    """Two streams: a distributed plan cannot beat shipping the slow one."""
    advice = advise_sites(join_query("rs", [("r", "s")]), two_sites())
    assert advice.chosen.name == "simple, all at paris"
    assert advice.chosen is advice.baseline
    assert advice.chosen.by_link() == {("oslo", "paris"): pytest.approx(100.0)}
    assert "simple shipping is the cheapest there is" in advice.pretty()


def test_semijoins_win_where_tuples_are_large_and_few_match() -> None:
    rare = StreamStatistics(10.0, 10_000.0, "paris", {"c0": AttributeStatistics(distinct=100_000.0)})
    few = StreamStatistics(10.0, 10_000.0, "oslo", {"c0": AttributeStatistics(distinct=100.0)})
    advice = advise_sites(join_query("rs", [("r", "s")]), Statistics({"r": rare, "s": few}))
    assert advice.chosen.method == "semijoin"
    assert "SM-" in advice.pretty().split("\nplan\n")[1]


def test_a_link_that_is_too_slow_is_noted() -> None:
    slow = two_sites(network=Network(default=Link(bytes_per_s=50.0)))
    notes = advise_sites(join_query("rs", [("r", "s")]), slow).notes
    assert notes == ("link oslo -> paris is too slow: the plan sends 100 bytes/s over 50",)


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


def test_sizes_are_those_of_a_bill() -> None:
    assert [size(n) for n in (0.0, 999, 25_920_000, 3.5e12, 2e16)] == [
        "0 bytes",
        "999 bytes",
        "25.92 MB",
        "3.5 TB",
        "20 PB",
    ]


def write_golden() -> None:
    for name in EXAMPLES:
        advice: SiteAdvice = advise_sites(*example(name))
        (GOLDEN / f"sites-{name}.txt").write_text(advice.pretty() + "\n", encoding="utf-8")


if __name__ == "__main__":
    write_golden()

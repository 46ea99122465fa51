"""Which plan runs: the cheapest that does, or the one asked for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.plan.papers import example
from watersmeet.errors import ConfigurationError
from watersmeet.plan.sites.advice import advise_sites
from watersmeet.plan.sites.semijoin.plan import SemijoinPlan
from watersmeet.plan.statistics.statistics import Statistics
from watersmeet.sites.choose_plan import choose_plan

COMMAND = "watersmeet analyze FILE.sql"


def test_the_advised_plan_is_taken() -> None:
    """A semijoin would ship 3 % less there than shipping all to one site."""
    query, statistics = example("semijoin-world-cup")
    advice = advise_sites(query, statistics)
    assert advice.options[0].method == "semijoin"
    assert choose_plan(query, statistics, command=COMMAND).name == advice.chosen.name == "simple, all at n4"


def test_a_semijoin_plan_that_is_advised_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    query, statistics = example("pmjoin-example-1")
    advice = advise_sites(query, statistics)
    semijoins = [option for option in advice.options if isinstance(option.plan, SemijoinPlan)]
    assert semijoins
    advised = replace(advice, options=tuple(option for option in advice.options if option.method != "pmjoin"))
    monkeypatch.setattr("watersmeet.sites.choose_plan.advise_sites", lambda *_, **__: advised)
    assert choose_plan(query, statistics, command=COMMAND) is semijoins[0]


def test_a_plan_is_asked_for_by_the_beginning_of_its_name() -> None:
    query, statistics = example("pmjoin-example-1")
    assert choose_plan(query, statistics, command=COMMAND).name == "pmjoin, by hash, 3 partitions"
    assert choose_plan(query, statistics, "PMJoin, by rate", command=COMMAND).name.startswith(
        "pmjoin, by rate"
    )
    assert choose_plan(query, statistics, "simple, all at n2", command=COMMAND).name == "simple, all at n2"


def test_an_unknown_plan_is_refused_with_those_that_there_are() -> None:
    query, statistics = example("pmjoin-example-1")
    with pytest.raises(ConfigurationError, match=r"no such plan\. Those that there are:\n  pmjoin, by") as it:
        choose_plan(query, statistics, "pmjin", command=COMMAND)
    assert "semijoin, linear" in str(it.value)


def test_without_statistics_nothing_can_be_chosen() -> None:
    query, _ = example("pmjoin-example-1")
    with pytest.raises(ConfigurationError, match=r"run `watersmeet analyze FILE\.sql` first"):
        choose_plan(query, Statistics(), command=COMMAND)

"""Advice on sites as it is shown: golden texts, JSON, a picture, notes."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest

from tests.golden import check_golden
from tests.plan.joins import join_query
from tests.plan.papers import example
from tests.plan.sites.test_advice import EXAMPLES, few_matches, two_sites
from watersmeet.plan.explain.sites import MONTH_S, explain_sites, size
from watersmeet.plan.statistics.statistics import Link, Network

GOLDEN = Path(__file__).parent / "golden"


@pytest.mark.parametrize("name", EXAMPLES)
def test_advice_reads_as_before(name: str) -> None:
    check_golden(GOLDEN / f"sites-{name}.txt", explain_sites(*example(name)).pretty())


def test_the_json_says_the_same() -> None:
    explained = explain_sites(*example("pmjoin-example-1"))
    data = json.loads(json.dumps(explained.to_json()))
    assert data["version"] == 1
    assert data["sites"] == {"s1": "n1", "s2": "n2", "s3": "n3"}
    chosen = data["chosen"]
    assert chosen["bytes_per_month"] == pytest.approx(chosen["bytes_per_s"] * MONTH_S)
    assert sum(link["bytes_per_s"] for link in chosen["links"]) == pytest.approx(chosen["bytes_per_s"])
    assert sum(load["bytes_per_s"] for load in data["streams"]) == pytest.approx(chosen["bytes_per_s"])
    assert data["baseline"]["detail"] == "all at n1"
    assert len(data["options"]) == len(explained.advice.options)
    ET.fromstring(explained.svg())


def test_simple_shipping_that_cannot_be_beaten_is_said_to_be() -> None:
    explained = explain_sites(join_query("rs", [("r", "s")]), two_sites())
    assert "simple shipping is the cheapest there is" in explained.pretty()


def test_simple_shipping_that_hardly_any_plan_beats_is_said_to_be() -> None:
    text = explain_sites(*example("semijoin-world-cup")).pretty()
    assert "simple shipping is within 5% of the cheapest" in text


def test_a_plan_of_semijoins_names_its_methods() -> None:
    explained = explain_sites(join_query("rs", [("r", "s")]), few_matches())
    assert "SM-" in explained.pretty().split("\nplan\n")[1]


def test_a_link_that_is_too_slow_is_noted() -> None:
    slow = two_sites(network=Network(default=Link(bytes_per_s=50.0)))
    notes = explain_sites(join_query("rs", [("r", "s")]), slow).notes
    assert notes == ("link oslo -> paris is too slow: the plan sends 100 bytes/s over 50",)


def test_what_combines_answers_says_which_plans_are_left_out() -> None:
    query, statistics = example("pmjoin-example-1")
    assert not any("left out" in note for note in explain_sites(query, statistics).notes)
    notes = explain_sites(replace(query, distinct=True), statistics).notes
    assert notes[-1].startswith("plans that find answers at several sites are left out")


def test_sizes_are_those_of_a_bill() -> None:
    assert [size(n) for n in (0.0, 999, 25_920_000, 3.5e12, 2e16)] == [
        "0 bytes",
        "999 bytes",
        "25.92 MB",
        "3.5 TB",
        "20 PB",
    ]

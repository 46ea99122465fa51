"""Explain: the papers' examples word for word, the JSON form, and that only like is compared with like."""

from __future__ import annotations

import json
import os
import random
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests.golden import check_golden
from tests.paths import ROOT
from tests.plan.joins import TOPOLOGIES, edges, join_query, random_statistics
from tests.plan.papers import PAPERS, example
from watersmeet.errors import ConfigurationError
from watersmeet.plan.explain import KNOWN_STRATEGIES, Explanation, explain
from watersmeet.plan.explain.physical import stage_lines
from watersmeet.plan.physical import plan_physical
from watersmeet.plan.sites.plan_tree import number
from watersmeet.plan.statistics.statistics import (
    AttributeStatistics,
    Link,
    Network,
    Statistics,
    StreamStatistics,
)
from watersmeet.plan.strategies import SITE_STRATEGIES, STRATEGIES
from watersmeet.query import Column, Stream
from watersmeet.sql import bind_query, parse_pipeline

GOLDEN = Path(__file__).parent / "golden"
DOCS = ROOT / "docs" / "explain.md"
EXAMPLES = sorted(path.stem for path in PAPERS.glob("*.sql"))
UNITS = {
    "centralized": "bytes/s",
    "distributed": "bytes/s",
    "pmjoin": "bytes/s",
    "semijoin": "s/s",
    "dhtjoin": "tuples/s",
    "shares": "shuffled bytes/s",
    "pipeline": "shuffled bytes/s",
}


def documented() -> Explanation:
    """The explanation shown in docs/explain.md."""
    return explain(*example("pmjoin-example-1"), strategy="distributed")


def costs(explanation: Explanation) -> dict[str, float | None]:
    data = explanation.to_json()
    others = {other["strategy"]: other["cost"] for other in data["alternatives"]}
    return {data["strategy"]: data["cost"], **others}


@pytest.mark.parametrize("name", EXAMPLES)
def test_explanations_of_the_examples_read_as_before(name: str) -> None:
    check_golden(GOLDEN / f"explain-{name}.txt", explain(*example(name)).pretty())


@pytest.mark.parametrize("strategy", KNOWN_STRATEGIES)
@pytest.mark.parametrize("name", EXAMPLES)
def test_every_strategy_explains_every_example(name: str, strategy: str) -> None:
    explained = explain(*example(name), strategy=strategy)
    data = json.loads(explained.json_text())
    assert data == explained.to_json()
    assert strategy in ("auto", data["strategy"])
    named = [data["strategy"], *(other["strategy"] for other in data["alternatives"])]
    assert len(set(named)) == len(named)
    assert data["runs_as"] in ("shares", "pipeline")
    assert all(other["why"] for other in data["alternatives"])
    assert {data["strategy"]: data["unit"], **{o["strategy"]: o["unit"] for o in data["alternatives"]}} == {
        strategy: UNITS[strategy] for strategy in named
    }
    assert sum(term["cost"] for term in data["terms"]) == pytest.approx(data["cost"])
    if data["unit"] == "bytes/s":
        assert sum(link["bytes_per_s"] for link in data["links"]) == pytest.approx(data["cost"])
    ET.fromstring(explained.svg())


def test_pmjoin_example_1_costs_of_the_three_strategies() -> None:
    """Section 1 of the paper: 100.1, about 54.03 and about 0.07 bytes/s."""
    explained = explain(*example("pmjoin-example-1"))
    assert explained.to_json()["strategy"] == "pmjoin"
    found = costs(explained)
    assert found["centralized"] == pytest.approx(100.1)
    assert found["distributed"] == pytest.approx(54.0316)
    assert found["pmjoin"] == pytest.approx(0.0696)


def test_pmjoin_example_2_gives_the_simpler_of_two_equal_plans() -> None:
    explained = explain(*example("pmjoin-example-2"))
    assert explained.chosen.strategy == "distributed"
    assert explained.chosen.cost == pytest.approx(34.0)
    why = {other.strategy: other.why for other in explained.alternatives}
    assert why["pmjoin"].startswith("finds nothing to partition")
    assert why["centralized"] == "costs 1.765 times as much"


def test_reasons_say_less_more_and_the_same() -> None:
    query, statistics = example("pmjoin-example-1")
    why = {
        other.strategy: other.why for other in explain(query, statistics, strategy="pipeline").alternatives
    }
    assert why["shares"] == "not asked for; moves and keeps the same"
    why = {o.strategy: o.why for o in explain(query, statistics, strategy="distributed").alternatives}
    assert why["pmjoin"] == "not asked for; costs 776.3 times less"
    why = {o.strategy: o.why for o in explain(*example("dhtjoin-q1")).alternatives}
    assert why["pipeline"] == "moves and keeps the same; a tie goes to shares"


def test_a_link_carries_what_the_plan_says() -> None:
    data = explain(*example("pmjoin-example-1"), strategy="distributed").to_json()
    assert data["links"] == [
        {"from": "n3", "to": "n2", "stream": "s3", "bytes_per_s": pytest.approx(50.03)},
        {"from": "n2", "to": "n1", "stream": "s2 ⋈ s3", "bytes_per_s": pytest.approx(4.0016, rel=1e-3)},
    ]


@pytest.mark.parametrize("topology", TOPOLOGIES)
@pytest.mark.parametrize("sites", [0, 1, 2])
@pytest.mark.parametrize("seed", range(3))
def test_auto_takes_the_cheapest_of_one_unit(topology: str, sites: int, seed: int) -> None:
    """Never one that costs more than another of its unit; engine strategies only where nothing is shipped."""
    query = join_query("rstu", edges(topology, "rstu"))
    statistics = random_statistics(query, random.Random(seed), sites=sites)
    explained = explain(query, statistics, partitions=8)
    chosen = explained.chosen
    apart = len({stream.site for stream in statistics.streams.values()}) > 1
    assert chosen.unit == ("bytes/s" if apart else "shuffled bytes/s")
    alike = [
        other.cost for other in explained.alternatives if other.unit == chosen.unit and other.cost is not None
    ]
    assert all(chosen.cost <= cost * 1.01 for cost in alike)
    for other in explained.alternatives:
        assert other.why.startswith("not compared") == (other.unit != chosen.unit)
        assert apart or other.strategy not in SITE_STRATEGIES


def test_the_same_input_gives_the_same_text() -> None:
    query, statistics = example("pmjoin-example-1")
    first, second = explain(query, statistics), explain(query, statistics)
    assert first.json_text() == second.json_text()
    assert first.svg() == second.svg()


def test_a_single_stream_is_explained() -> None:
    (query,) = parse_pipeline(
        "CREATE STREAM s (a INT, ts TIMESTAMP) WITH (format = 'parquet', path = 's', event_time = 'ts');"
        "SELECT s.a FROM s [RANGE 1 SECOND] WHERE s.a > 3"
    ).queries
    explained = explain(query, Statistics())
    assert (explained.chosen.strategy, explained.chosen.cost) == ("shares", 100_000.0)
    refused = {other.strategy: (other.cost, other.why) for other in explained.alternatives}
    assert refused["pipeline"] == (None, "a join plan needs at least two inputs")
    assert explained.notes == (
        "no statistics for s: taken as 1,000 tuples/s of 100 bytes",
        "filter not measured, taken to keep everything: s.a > 3",
    )
    ET.fromstring(explained.svg())
    with pytest.raises(
        ConfigurationError, match="strategy dhtjoin cannot take this query: a join plan needs"
    ):
        explain(query, Statistics(), strategy="dhtjoin")


def test_an_unknown_strategy_is_refused_with_the_known_ones() -> None:
    known = "auto, centralized, distributed, pmjoin, semijoin, dhtjoin, shares, pipeline"
    with pytest.raises(ConfigurationError, match=f"no strategy 'best': choose one of {known}"):
        explain(*example("pmjoin-example-1"), strategy="best")


@pytest.mark.parametrize("option", ["partitions", "pmjoin_partitions"])
def test_no_partitions_are_refused(option: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{option} must be at least 1, got 0"):
        explain(*example("pmjoin-example-1"), **{option: 0})


def test_notes_say_what_is_assumed_and_what_is_too_slow() -> None:
    query = join_query("rs", [("r", "s")])
    known = AttributeStatistics(distinct=5)
    statistics = Statistics(
        {
            "r": StreamStatistics(100.0, 10.0, "n1", {"c0": known}),
            "s": StreamStatistics(200.0, 10.0, "n2"),
        },
        network=Network({("n1", "n2"): Link(bytes_per_s=999.0)}),
    )
    assert explain(query, statistics).notes == (
        "values not measured: s.c0 taken as 10,000 values, evenly spread",
        "link n1 -> n2 is too slow: the plan sends 1,000 bytes/s over 999",
    )


def test_a_given_selectivity_is_no_assumption() -> None:
    assert explain(*example("pmjoin-example-2")).notes == ()


def test_text_shows_routing_stages_state_and_probing() -> None:
    text = explain(*example("dhtjoin-q2"), partitions=8).pretty()
    assert "runs as   shares" in text
    assert [line for line in text.split("\n") if line and not line.startswith(" ")][2:] == [
        "plan",
        "cost",
        "alternatives",
        "query",
        "routing",
        "hot values",
        "stages",
        "state",
        "probing, at first",
    ]
    assert re.search(r"^  8 buckets = \d x \d$", text, re.MULTILINE)


def test_the_last_join_of_a_pipeline_says_what_answers_wait_for() -> None:
    columns = (Column("k", "bigint"), Column("v", "bigint"), Column("ts", "timestamp"))
    streams = [Stream(name, columns, "ts") for name in ("s1", "s2", "s3")]
    joined = (
        "FROM s1 [RANGE 9 SECONDS] a, s2 [RANGE 9 SECONDS] b, s3 [RANGE 9 SECONDS] c "
        "WHERE a.k = b.k AND b.v = c.v"
    )
    for select, ending, waits in (
        ("sum(a.v) AS total", " EMIT EVERY 2 SECONDS", "sampled every 2 s"),
        ("DISTINCT a.v", "", "held until the watermark is past them"),
    ):
        query = bind_query(f"SELECT {select} {joined}{ending}", streams)
        joins = [line for line in stage_lines(plan_physical(query, 4, routing="pipeline")) if "join" in line]
        assert [line.endswith(f"in 4 buckets, {waits}") for line in joins] == [False, True]


def test_the_picture_names_every_site_stream_and_link() -> None:
    explained = explain(*example("pmjoin-example-1"))
    root = ET.fromstring(explained.svg())
    texts = {"".join(text.itertext()) for text in root.iter("{http://www.w3.org/2000/svg}text")}
    assert {"n1", "n2", "n3", "s1", "s2", "s3", "partition a", "partition b", "partition c"} <= texts
    for load in explained.chosen.links:
        assert f"{load.stream}: {number(load.bytes_per_s)} B/s" in texts
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    for box in root.iter("{http://www.w3.org/2000/svg}rect"):
        right = float(box.get("x", "0")) + float(box.attrib["width"])
        bottom = float(box.get("y", "0")) + float(box.attrib["height"])
        assert 0 <= float(box.get("x", "0")) < right <= width
        assert 0 <= float(box.get("y", "0")) < bottom <= height


def test_boxes_of_a_picture_do_not_overlap() -> None:
    for name in ("pmjoin-example-1", "pmjoin-example-2", "semijoin-world-cup", "rjoin-four-way"):
        for strategy in STRATEGIES:
            root = ET.fromstring(explain(*example(name), strategy=strategy).svg())
            boxes = [
                tuple(float(box.attrib[key]) for key in ("x", "y", "width", "height"))
                for box in root.iter("{http://www.w3.org/2000/svg}rect")
                if box.get("stroke")
            ]
            for n, (x, y, width, height) in enumerate(boxes):
                for left, top, wide, high in boxes[n + 1 :]:
                    apart = x + width <= left or left + wide <= x or y + height <= top or top + high <= y
                    assert apart, (name, strategy)


def test_names_with_markup_are_drawn() -> None:
    query = join_query("rs", [("r", "s")])
    statistics = Statistics({"r": StreamStatistics(site="<a & b>"), "s": StreamStatistics(site='"c"')})
    root = ET.fromstring(explain(query, statistics).svg())
    assert "<a & b>" in {text.text for text in root.iter("{http://www.w3.org/2000/svg}text")}


def test_statistics_that_contradict_themselves_are_refused_as_such() -> None:
    query, _ = example("pmjoin-example-1")
    apart = {
        name: StreamStatistics(1.0, attributes={"dest": AttributeStatistics(1, ((name, 1.0),))})
        for name in ("s1", "s2", "s3")
    }
    given = {frozenset(("s1.dest", "s2.dest")): 0.5}
    with pytest.raises(ConfigurationError, match="the two columns list no common value"):
        explain(query, Statistics(apart, given))


def test_numbers_beyond_all_bounds_are_refused() -> None:
    query = join_query("rst", edges("chain", "rst"))
    huge = StreamStatistics(rate_per_s=1e200)
    with pytest.raises(ConfigurationError, match="beyond any number"):
        explain(query, Statistics(dict.fromkeys("rst", huge)))


def test_the_documented_example_is_what_comes_out() -> None:
    """WATERSMEET_GOLDEN=write puts it into the page."""
    page, text = DOCS.read_text(encoding="utf-8"), documented().json_text()
    if os.environ.get("WATERSMEET_GOLDEN") == "write":
        page = re.sub(r"```json\n.*?\n```", lambda _: f"```json\n{text}\n```", page, flags=re.DOTALL)
        DOCS.write_text(page, encoding="utf-8")
    (shown,) = re.findall(r"```json\n(.*?)\n```", page, re.DOTALL)
    assert text == shown

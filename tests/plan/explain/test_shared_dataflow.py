"""What queries share and save in one dataflow, in numbers and as text."""

from __future__ import annotations

from pathlib import Path

from tests.golden import check_golden
from tests.plan.multiquery.test_plan_dataflow import STREAMS, THREE, TWO, plan
from watersmeet.plan.explain.shared_dataflow import explain_dataflow
from watersmeet.plan.multiquery.describe import queries_sharing
from watersmeet.plan.multiquery.savings import measure_savings

GOLDEN = Path(__file__).parent / "golden" / "shared-dataflow.txt"
QUERIES = (
    f"SELECT a.v, b.t0 FROM {TWO} WHERE a.b0 = b.b0",
    f"SELECT a.v, b.v AS w FROM {TWO} WHERE a.b0 = b.b0 AND a.v = 3",
    f"SELECT a.v, c.v AS w FROM {THREE} WHERE a.b0 = b.b0 AND b.b1 = c.b1 AND a.t0 = c.t0",
    f"SELECT a.v, c.v AS w FROM {THREE} WHERE a.b0 = b.b0 AND b.b1 = c.b1 AND a.t0 = c.t0 AND c.v > 2",
)


def test_explain_shows_levels_sharing_feeds_and_savings() -> None:
    text = explain_dataflow(plan(*QUERIES), STREAMS)
    check_golden(GOLDEN, text)


def test_explain_shows_where_values_meet() -> None:
    text = explain_dataflow(plan(f"SELECT DISTINCT a.v FROM {TWO} WHERE a.b0 = b.b0"))
    assert "level 2\n  values of 1 query, let out as they appear" in text


def test_long_lists_are_cut_short() -> None:
    texts = [f"SELECT a.v FROM {TWO} WHERE a.b{n} = b.b{m}" for n in range(3) for m in range(3)]
    assert "  and 7 more" in explain_dataflow(plan(*texts), shown=2)


def test_joins_below_count_for_the_queries_above() -> None:
    dataflow = plan(*QUERIES)
    shared = queries_sharing(dataflow)
    assert [shared[join.name] for join in dataflow.joins] == [4, 2]


def test_savings_count_copies_and_values_against_all_attributes() -> None:
    """s1 is sent once, by b0, with b0, t0 and v, of ten attributes that RJoin would index it under."""
    savings = measure_savings(plan(*QUERIES), STREAMS)
    by_stream = {each.stream: each for each in savings.streams}
    assert (by_stream["s1"].attributes, by_stream["s1"].sent, by_stream["s1"].values) == (10, 1, 3)
    assert (by_stream["s4"].sent, by_stream["s4"].values, by_stream["s4"].kept) == (0, 0, 0)
    assert savings.sent_share() == 3 / 40
    assert savings.sent_share({"s1": 10.0, "s4": 0.0}) == 1 / 10
    assert savings.values_share({"s1": 1.0}) == 3 / 100
    assert by_stream["s1"].kept == 1
    assert measure_savings(plan(), STREAMS).sent_share() == 0.0

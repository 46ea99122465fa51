"""Explain of outer, semi and anti joins: the tree, its one plan, how long a tuple without a match waits."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.golden import check_golden
from tests.state_format.cases import STREAMS
from watersmeet.errors import ConfigurationError
from watersmeet.plan.explain import explain
from watersmeet.plan.statistics.statistics import Statistics
from watersmeet.sql import bind_query

GOLDEN = Path(__file__).parent / "golden"

CASES = {
    "left-joins": "SELECT o.id, p.method, v.page FROM orders [RANGE 1 HOUR] AS o "
    "LEFT JOIN payments [RANGE 1 HOUR] AS p ON o.customer = p.customer AND o.amount > 10 "
    "LEFT JOIN visits [TUMBLE 10 MINUTES] AS v ON o.customer = v.customer WHERE p.method IS NULL",
    "two-keys": "SELECT o.id, p.method, v.page FROM orders [RANGE 1 HOUR] AS o "
    "LEFT JOIN payments [RANGE 1 HOUR] AS p ON o.id = p.order_id AND o.amount > 10 "
    "LEFT JOIN visits [TUMBLE 10 MINUTES] AS v ON o.customer = v.customer WHERE p.method IS NULL",
    "not-in": "SELECT o.id FROM orders [ROWS 5] AS o "
    "WHERE o.customer NOT IN (SELECT v.customer FROM visits [RANGE 5 MINUTES] AS v)",
}


@pytest.mark.parametrize("name", CASES)
def test_the_explanation_of_a_tree(name: str) -> None:
    query = bind_query(CASES[name], STREAMS)
    check_golden(GOLDEN / f"tree-{name}.txt", explain(query, Statistics()).pretty())


def test_a_null_answer_of_a_late_partner_is_later_still() -> None:
    sql = (
        "SELECT o.id FROM orders [RANGE 1 HOUR] AS o FULL JOIN "
        "(payments [RANGE 10 MINUTES] AS p LEFT JOIN visits [UNBOUNDED] AS v ON p.customer = v.customer) "
        "ON o.customer = p.customer"
    )
    assert explain(bind_query(sql, STREAMS), Statistics()).notes[-2:] == (
        "left join: p without a match is answered with NULLs when it is 10 min behind the watermark, "
        "at the latest",
        "full join: o or p, v without a match is answered with NULLs when it is 70 min behind the "
        "watermark, at the latest",
    )


def test_only_shares_and_pipelines_take_a_tree() -> None:
    query = bind_query(CASES["left-joins"], STREAMS)
    assert explain(query, Statistics(), strategy="shares").chosen.strategy == "shares"
    assert explain(query, Statistics(), strategy="pipeline").chosen.strategy == "pipeline"
    with pytest.raises(ConfigurationError, match="only shares and pipelines take"):
        explain(query, Statistics(), strategy="pmjoin")


def test_what_runs_can_be_asked_for() -> None:
    query = bind_query(CASES["two-keys"], STREAMS)
    asked = explain(query, Statistics(), routing="shares")
    assert (asked.chosen.strategy, asked.physical.routing.name) == ("shares", "shares")
    assert asked.chosen.cost < explain(query, Statistics()).chosen.cost


def test_the_stages_can_be_drawn() -> None:
    svg = explain(bind_query(CASES["two-keys"], STREAMS), Statistics()).svg()
    assert "o.id = p.order_id" in svg
    assert "o.customer = v.customer" in svg

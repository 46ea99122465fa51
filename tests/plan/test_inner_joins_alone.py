"""What runs inner joins alone refuses a tree of outer, semi and anti joins, in words."""

from __future__ import annotations

from typing import Any

import pytest

from tests.state_format.cases import STREAMS
from watersmeet.errors import ConfigurationError, QueryError
from watersmeet.lab.overlay.dhtjoin.operators import operator_tree
from watersmeet.lab.overlay.rjoin.query import check_supported
from watersmeet.plan.multiquery.plan_dataflow import Registered, plan_dataflow, why_beside
from watersmeet.plan.sites.advice import advise_sites
from watersmeet.plan.sites.site_dataflow import why_not_across_sites
from watersmeet.plan.statistics.statistics import Statistics
from watersmeet.sql import bind_query, bind_select, parse_statements

SQL = (
    "SELECT o.id FROM orders [RANGE 1 MINUTE] AS o "
    "WHERE NOT EXISTS (SELECT 1 FROM visits [RANGE 1 MINUTE] AS v WHERE v.customer = o.customer)"
)
QUERY = bind_query(SQL, STREAMS)


@pytest.mark.parametrize(
    "ask",
    [
        lambda: advise_sites(QUERY, Statistics()),
        lambda: check_supported(QUERY),
        lambda: operator_tree(QUERY, None),  # type: ignore[arg-type]
        lambda: plan_dataflow([Registered("q", 0, QUERY)], STREAMS, 1),
    ],
    ids=["advice on sites", "RJoin", "DHTJoin", "a shared dataflow"],
)
def test_it_is_refused(ask: Any) -> None:
    with pytest.raises((ConfigurationError, QueryError), match=r"inner joins|outer, semi or anti joins"):
        ask()


def test_it_does_not_run_across_sites() -> None:
    assert why_not_across_sites(QUERY) == "it has outer, semi or anti joins"


def test_a_query_for_a_shared_dataflow_runs_beside_it() -> None:
    [select] = parse_statements(SQL).selects
    query = bind_select(select, {stream.name: stream for stream in STREAMS}, shared=True)
    assert why_beside(query) == "it has outer, semi or anti joins"

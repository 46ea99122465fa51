"""Plans of `[PARTITION BY k ROWS n]`: where rows are counted, what is copied, what is refused."""

from __future__ import annotations

import pytest

from watersmeet.errors import WatersmeetError
from watersmeet.plan.explain import explain_plan
from watersmeet.plan.physical import PhysicalPlan, plan_physical
from watersmeet.plan.routing.routing import Shares
from watersmeet.plan.statistics.attribute import AttributeStatistics
from watersmeet.plan.statistics.rate_model import rate_model
from watersmeet.plan.statistics.statistics import Statistics, StreamStatistics
from watersmeet.query import Query
from watersmeet.sql import bind_query, parse_pipeline

STREAMS = parse_pipeline(
    """
    CREATE STREAM orders (currency STRING, shop BIGINT, ts TIMESTAMP)
      WITH (format = 'parquet', path = 'orders', event_time = 'ts');
    CREATE STREAM rates (currency STRING, venue STRING, factor DOUBLE, ts TIMESTAMP)
      WITH (format = 'parquet', path = 'rates', event_time = 'ts');
    """
).streams


def query(window: str, condition: str = "o.currency = r.currency", of: str = "[RANGE 1 HOUR]") -> Query:
    return bind_query(
        f"SELECT o.shop, r.venue FROM orders {of} o, rates {window} r WHERE {condition}", STREAMS
    )


def plan(asked: Query, routing: str | None = Shares.name) -> PhysicalPlan:
    return plan_physical(asked, 4, routing=routing)


def buckets(made: PhysicalPlan) -> int:
    assert isinstance(made.routing, Shares)
    return made.routing.hypercube.buckets_used


@pytest.mark.parametrize("by", ["currency", "currency, venue", "venue, currency"])
def test_where_the_value_decides_the_key_each_bucket_counts_its_own(by: str) -> None:
    made = plan(query(f"[PARTITION BY {by} ROWS 1]"))
    assert (buckets(made), made.copies("o"), made.copies("r")) == (4, 1, 1)
    assert f"rows of r are counted by {by} in its bucket, behind the watermark" in explain_plan(made)
    assert "single partition" not in explain_plan(made)


def test_counted_by_other_columns_the_stream_is_copied_to_every_bucket() -> None:
    made = plan(query("[PARTITION BY venue ROWS 2]"))
    assert (buckets(made), made.copies("o"), made.copies("r")) == (4, 1, 4)
    assert "rows of r are counted by venue in every one of 4 buckets" in explain_plan(made)
    assert "in 4 copies; the last 2 tuples of each venue" in explain_plan(made)


@pytest.mark.parametrize("condition", ["o.currency = lower(r.currency)", "CAST(o.shop AS DOUBLE) = r.factor"])
def test_a_key_that_is_computed_decides_nothing(condition: str) -> None:
    assert plan(query("[PARTITION BY currency ROWS 1]", condition)).copies("r") == 4


def test_where_no_input_is_sent_by_its_key_one_bucket_has_all() -> None:
    made = plan(query("[PARTITION BY venue ROWS 1]", of="[PARTITION BY shop ROWS 1]"))
    assert buckets(made) == 1


def test_the_state_is_estimated_by_the_number_of_values() -> None:
    rates = StreamStatistics(attributes={"currency": AttributeStatistics(distinct=150)})
    model = rate_model(query("[PARTITION BY currency ROWS 2]"), Statistics({"rates": rates}))
    assert model.sources[1].window_tuples == 300


@pytest.mark.parametrize("routing", ["pipeline", "rewrite"])
def test_a_pipeline_is_refused_in_words(routing: str) -> None:
    with pytest.raises(WatersmeetError, match=r"PARTITION BY currency ROWS 1.*counts rows"):
        plan(query("[PARTITION BY currency ROWS 1]"), routing)


def test_by_cost_it_goes_by_shares() -> None:
    assert isinstance(plan(query("[PARTITION BY currency ROWS 1]"), None).routing, Shares)


@pytest.mark.parametrize("side", ["LEFT", "LEFT ANTI"])
def test_an_outer_join_is_in_one_bucket_unless_the_value_decides_the_key(side: str) -> None:
    """Copies would each be answered with NULLs."""

    def joined(by: str) -> PhysicalPlan:
        inputs = f"orders [RANGE 1 HOUR] o {side} JOIN rates [PARTITION BY {by} ROWS 1] r"
        return plan(bind_query(f"SELECT o.shop FROM {inputs} ON o.currency = r.currency", STREAMS), None)

    assert buckets(joined("venue, currency")) == 4
    elsewhere = joined("venue")
    assert buckets(elsewhere) == 1
    assert (
        "is counted by columns that o.currency = r.currency does not follow from" in elsewhere.routing.reason
    )


def test_values_behind_outer_joins_of_windows_that_count_rows_are_refused_in_words() -> None:
    inputs = "orders [RANGE 1 HOUR] o LEFT SEMI JOIN rates [ROWS 5] r ON o.currency = r.currency"
    with pytest.raises(WatersmeetError, match="DISTINCT over a semi join needs to know when r leaves"):
        plan(bind_query(f"SELECT DISTINCT o.shop FROM {inputs}", STREAMS))

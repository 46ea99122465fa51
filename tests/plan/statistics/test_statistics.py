"""Statistics: defaults, selectivities, and refusals that name the field."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watersmeet.errors import ConfigurationError
from watersmeet.plan.statistics.statistics import (
    DEFAULT_DISTINCT,
    DEFAULT_RATE_PER_S,
    DEFAULT_SITE,
    DEFAULT_TUPLE_BYTES,
    AttributeStatistics,
    Bin,
    Link,
    Network,
    Statistics,
    StreamStatistics,
)
from watersmeet.query import Column, Stream
from watersmeet.sql import bind_query


def test_what_nobody_measured_has_a_default() -> None:
    known = Statistics()
    assert known.stream("s").rate_per_s == DEFAULT_RATE_PER_S == 1000
    assert known.stream("s").tuple_bytes == DEFAULT_TUPLE_BYTES == 100
    assert known.attribute("s", "k").distinct == DEFAULT_DISTINCT == 10_000
    assert known.selectivity("s", "k", "t", "k") == pytest.approx(1 / 10_000)
    assert known.network.link("a", "b") == Link(math.inf, 0.0)


def test_names_are_found_whatever_their_case() -> None:
    streams = {"Clicks": StreamStatistics(5.0, attributes={"UserId": AttributeStatistics(7)})}
    known = Statistics(streams, {frozenset({"Clicks.UserId", "views.user"}): 0.5})
    assert known.stream("clicks").rate_per_s == 5.0
    assert known.attribute("CLICKS", "userid").distinct == 7
    assert known.selectivity("VIEWS", "User", "clicks", "userid") == 0.5


def test_a_given_selectivity_goes_before_the_estimate_in_either_order() -> None:
    known = Statistics(selectivities={frozenset({"r.a", "s.b"}): 0.25})
    assert known.selectivity("r", "a", "s", "b") == known.selectivity("s", "b", "r", "a") == 0.25
    assert known.selectivity("r", "a", "s", "a") == pytest.approx(1e-4)


@given(st.integers(1, 10**6), st.integers(1, 10**6))
def test_without_hot_values_selectivity_is_one_over_the_larger_count(left: int, right: int) -> None:
    streams = {
        "r": StreamStatistics(3.0, attributes={"k": AttributeStatistics(left)}),
        "s": StreamStatistics(5.0, attributes={"k": AttributeStatistics(right)}),
    }
    assert Statistics(streams).selectivity("r", "k", "s", "k") == pytest.approx(1 / max(left, right))


def test_hot_values_and_the_even_rest_add_up() -> None:
    """Sum of p_i(v) p_j(v) over hot values, plus the rests over the larger number of remaining values."""
    streams = {
        "r": StreamStatistics(10.0, attributes={"k": AttributeStatistics(102, (("x", 4.0), ("y", 1.0)))}),
        "s": StreamStatistics(20.0, attributes={"k": AttributeStatistics(52, (("x", 2.0), ("y", 8.0)))}),
    }
    expected = 0.4 * 0.1 + 0.1 * 0.4 + 0.5 * 0.5 / 100
    assert Statistics(streams).selectivity("r", "k", "s", "k") == pytest.approx(expected)


def test_a_query_reads_sites_filters_and_selectivities_by_its_own_names() -> None:
    columns = (Column("k", "bigint"), Column("ts", "timestamp"))
    streams = [Stream("r", columns, "ts", site="paris"), Stream("s", columns, "ts", site="oslo")]
    query = bind_query(
        "SELECT a.k FROM r AS a, s AS b, s AS c WHERE a.k = b.k AND b.k = c.k AND a.k > 3 AND a.k < 9",
        streams,
    )
    filters = [expr.sql for expr in query.inputs[0].filters]
    known = Statistics(
        {"s": StreamStatistics(site="rome")},
        {frozenset({"s.k"}): 0.2},
        filters={filters[0]: 0.5, filters[1]: 0.1},
    )
    assert [known.site(item) for item in query.inputs] == ["paris", "rome", "rome"]
    assert known.filter_selectivity(query.inputs[0]) == pytest.approx(0.05)
    assert known.filter_selectivity(query.inputs[1]) == 1.0
    first, second, third = query.graph.classes[0].attributes
    assert known.join_selectivity(query, second, third) == 0.2
    assert known.join_selectivity(query, first, second) == pytest.approx(1e-4)
    nowhere = bind_query("SELECT d.k FROM t AS d", [Stream("t", columns, "ts")])
    assert known.site(nowhere.inputs[0]) == DEFAULT_SITE


def test_an_unlisted_link_is_as_its_reverse_else_the_default() -> None:
    network = Network({("a", "b"): Link(10.0, 0.1)}, Link(5.0, 0.2))
    assert network.link("a", "b") == network.link("b", "a") == Link(10.0, 0.1)
    assert network.link("a", "c") == Link(5.0, 0.2)
    assert network.link("a", "a") == Link()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: StreamStatistics(rate_per_s=-3), "rate_per_s: must be positive, got -3"),
        (lambda: StreamStatistics(rate_per_s=math.inf), "rate_per_s: must be positive, got inf"),
        (lambda: StreamStatistics(tuple_bytes=0), "tuple_bytes: must be positive, got 0"),
        (lambda: StreamStatistics(site=""), "site: must be a name, got an empty one"),
        (lambda: AttributeStatistics(0.5), "distinct: must be at least 1, got 0.5"),
        (
            lambda: AttributeStatistics(9, (("a", 1.0), ("a", 2.0))),
            "heavy_hitters[1].value: must be listed once, got 'a'",
        ),
        (
            lambda: AttributeStatistics(9, (("a", -1.0),)),
            "heavy_hitters[0].rate_per_s: must be zero or more, got -1.0",
        ),
        (lambda: Bin(3, 3, 1, 1), "high: must be above low (3), got 3"),
        (
            lambda: AttributeStatistics(9, histogram=(Bin(0, 5, 1, 1), Bin(4, 9, 1, 1))),
            "histogram[1].low: must be at or above the previous high (5), got 4",
        ),
        (
            lambda: StreamStatistics(1.0, attributes={"k": AttributeStatistics(9, (("a", 2.0),))}),
            "attributes.k: must be within the stream's rate (1/s) when its listed rates are added up, "
            "got 2/s",
        ),
        (
            lambda: Statistics(selectivities={frozenset({"r.a", "s.b"}): 1.5}),
            "selectivities.r.a = s.b: must be between 0 and 1, got 1.5",
        ),
        (lambda: Statistics(filters={"r.a > 1": -1}), "filters.r.a > 1: must be between 0 and 1, got -1"),
        (lambda: Statistics(result_tuple_bytes=0), "result_tuple_bytes: must be positive, got 0"),
        (lambda: Link(latency_s=-1), "latency_s: must be zero or more, got -1"),
    ],
)
def test_impossible_numbers_are_refused_by_name(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        make()
    assert str(refused.value) == message

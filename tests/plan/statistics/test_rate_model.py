"""PMJoin section 3.2: equations (1)-(4), and the closed form of them that the planner uses."""

from __future__ import annotations

import itertools
import math
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.plan.joins import join_query
from tests.plan.papers import example
from tests.plan.sites.pmjoin.models import models
from watersmeet.errors import ConfigurationError
from watersmeet.plan.sites.pmjoin.exhaustive import all_bytes_per_s
from watersmeet.plan.statistics.attribute import AttributeStatistics
from watersmeet.plan.statistics.rate_model import (
    RateModel,
    adding_costs,
    crosses,
    joined_rate,
    joined_window,
    rate_model,
    window_tuples,
)
from watersmeet.plan.statistics.statistics import Statistics, StreamStatistics
from watersmeet.query import UNBOUNDED, Column, Query, Stream, Window, range_us, rows, tumble_rows, tumble_us
from watersmeet.sql import bind_query

STREAMS = [
    Stream(
        "s1", (Column("k", "bigint"), Column("x", "bigint"), Column("ts", "timestamp")), "ts", site="paris"
    ),
    Stream("s2", (Column("k", "bigint"), Column("ts", "timestamp")), "ts"),
    Stream("s3", (Column("k", "bigint"), Column("ts", "timestamp")), "ts"),
]


def query(text: str) -> Query:
    return bind_query(text, STREAMS)


def test_equation_1_counts_only_streams_apart() -> None:
    assert (crosses("n1", "n1"), crosses("n1", "n2")) == (0, 1)


def test_equations_2_and_3_give_table_2() -> None:
    assert joined_rate(0.004, 10, 100, 15, 75) == pytest.approx(9)
    assert joined_window(0.004, 100, 75) == pytest.approx(30)


def test_equation_4_prices_both_cases() -> None:
    """Example 2, second turn: S4 joins S0,2,3 (9/s at n1), then S1 joins both."""
    assert adding_costs([(9, "n1")], [(15, "n2"), (35, "n0")], [18, 42]) == [(27, 24), (51, 44)]
    assert adding_costs([(9, "n1"), (15, "n2")], [(35, "n2")], [78]) == [(87, 59)]


@pytest.mark.parametrize(
    ("window", "tuples"),
    [
        (range_us(500_000), 25.0),
        (tumble_us(2_000_000), 50.0),
        (rows(40), 40.0),
        (tumble_rows(40), 20.0),
        (UNBOUNDED, 180_000.0),
    ],
)
def test_expected_tuples_in_a_window(window: Window, tuples: float) -> None:
    assert window_tuples(window, 50.0, 3600.0) == tuples


@given(models(smallest=2, largest=5), st.randoms(use_true_random=False))
@settings(max_examples=100)
def test_any_order_of_equations_2_and_3_gives_the_closed_form(model: RateModel, random: Random) -> None:
    parts = [(1 << n, model.rate(1 << n), model.window(1 << n)) for n in range(len(model.sources))]
    while len(parts) > 1:
        random.shuffle(parts)
        (left, rate_l, window_l), (right, rate_r, window_r) = parts.pop(), parts.pop()
        f = model.selectivity(left, right)
        rate = joined_rate(f, rate_l, window_l, rate_r, window_r)
        parts.append((left | right, rate, joined_window(f, window_l, window_r)))
    assert model.rate(model.everything) == pytest.approx(parts[0][1], rel=1e-9, abs=1e-300)
    assert model.window(model.everything) == pytest.approx(parts[0][2], rel=1e-9, abs=1e-300)


@given(models(smallest=2, largest=5))
@settings(max_examples=60)
def test_the_batched_ways_agree_with_one_set_at_a_time(model: RateModel) -> None:
    count = len(model.sources)
    table = all_bytes_per_s(model, [1 << n for n in range(count)])
    assert table[1:] == pytest.approx([model.bytes_per_s(mask) for mask in range(1, 1 << count)])
    others = [1 << n for n in range(1, count)]
    assert model.bytes_with_each(1, others) == pytest.approx([model.bytes_per_s(1 | o) for o in others])


@given(models(one_attribute=True))
@settings(max_examples=60)
def test_substreams_add_up_to_the_stream(model: RateModel) -> None:
    groups = model.attributes[0].groups
    parts = [model.part(0, groups.part(np.array([cell]), np.ones(1))) for cell in range(len(groups.cells))]
    for mask in range(1, model.everything + 1):
        assert sum(part.rate(mask) for part in parts) == pytest.approx(model.rate(mask))


def test_agreement_is_the_sum_over_values() -> None:
    """Three streams, full value rates: checked against every combination of values."""
    shares = [{"a": 0.5, "b": 0.3, "c": 0.2}, {"a": 0.1, "b": 0.9}, {"b": 0.25, "c": 0.75}]
    statistics = Statistics(
        {
            f"s{n + 1}": StreamStatistics(
                10.0, attributes={"k": AttributeStatistics(len(s), tuple((v, 10 * p) for v, p in s.items()))}
            )
            for n, s in enumerate(shares)
        }
    )
    text = "SELECT s1.k FROM s1 [ROWS 1], s2 [ROWS 1], s3 [ROWS 1] WHERE s1.k = s2.k AND s2.k = s3.k"
    model = rate_model(query(text), statistics)
    naive = sum(
        math.prod(p for _, p in combination)
        for combination in itertools.product(*(s.items() for s in shares))
        if len({value for value, _ in combination}) == 1
    )
    assert model.window(0b111) == pytest.approx(naive)


def test_windows_filters_sites_and_defaults_come_from_the_query() -> None:
    text = "SELECT s1.x FROM s1 [RANGE 2 SECONDS], s2 [ROWS 50] WHERE s1.k = s2.k AND s1.x > 5"
    model = rate_model(query(text), Statistics(filters={"s1.x > 5": 0.25}))
    first, second = model.sources
    assert (first.site, second.site) == ("paris", "local")
    assert (first.rate_per_s, first.window_tuples) == (250.0, 500.0)
    assert (second.rate_per_s, second.window_tuples) == (1000.0, 50.0)
    assert model.window(0b11) == pytest.approx(500 * 50 / 10_000)
    assert model.rate(0b11) == pytest.approx(joined_rate(1e-4, 250, 500, 1000, 50))
    assert model.tuple_bytes(0b11) == 200


def test_given_selectivities_of_a_shared_attribute_multiply_along_a_tree() -> None:
    text = "SELECT s1.k FROM s1 [ROWS 1], s2 [ROWS 1], s3 [ROWS 1] WHERE s1.k = s2.k AND s2.k = s3.k"
    pairs = {frozenset({"s1.k", "s2.k"}): 0.5, frozenset({"s2.k", "s3.k"}): 0.1}
    model = rate_model(query(text), Statistics(selectivities=pairs))
    assert model.window(0b011) == pytest.approx(0.5)
    assert model.window(0b110) == pytest.approx(0.1)
    assert model.window(0b111) == pytest.approx(0.05)


def test_a_selectivity_against_the_listed_values_is_refused() -> None:
    streams = {
        "s1": StreamStatistics(1.0, attributes={"k": AttributeStatistics(1, ((1, 1.0),))}),
        "s2": StreamStatistics(1.0, attributes={"k": AttributeStatistics(1, ((2, 1.0),))}),
    }
    statistics = Statistics(streams, {frozenset({"s1.k", "s2.k"}): 0.5})
    with pytest.raises(ConfigurationError, match=r"selectivities\.s1\.k = s2\.k: is given as 0\.5, but"):
        rate_model(query("SELECT s1.k FROM s1, s2 WHERE s1.k = s2.k"), statistics)


def test_a_zero_selectivity_is_taken_as_given() -> None:
    query, statistics = example("pmjoin-example-1")
    none = Statistics(statistics.streams, {frozenset({"s1.dest", "s2.dest"}): 0.0})
    assert rate_model(query, none).rate(0b011) == 0.0


@pytest.mark.parametrize("sizes", [(10, 10, 10), (10, 20, 5), (7, 7)])
def test_tumbling_windows_that_end_together_hold_more_than_the_product_of_their_averages(
    sizes: tuple[int, ...],
) -> None:
    """One value, a tuple of each stream a second: every combination in the windows is a result."""
    aliases = "rst"[: len(sizes)]
    windows = {alias: tumble_us(size * 1_000_000) for alias, size in zip(aliases, sizes, strict=True)}
    one = StreamStatistics(1.0, attributes={"c0": AttributeStatistics(distinct=1.0)})
    model = rate_model(join_query(aliases, [aliases], windows), Statistics(dict.fromkeys(aliases, one)))
    span, steps = math.lcm(*sizes), 20_000
    moments = [(n + 0.5) * span / steps for n in range(steps)]
    held = [math.prod(moment % size for size in sizes) for moment in moments]
    arriving = [
        sum(math.prod(moment % other for m, other in enumerate(sizes) if m != n) for n in range(len(sizes)))
        for moment in moments
    ]
    assert model.window(model.everything) == pytest.approx(math.fsum(held) / steps, rel=0.02)
    assert model.rate(model.everything) == pytest.approx(math.fsum(arriving) / steps, rel=0.02)

"""Aligning the columns of several streams: shares add up, and selectivities are the classical ones."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.plan.sites.pmjoin.models import attribute_statistics
from watersmeet.plan.statistics.attribute import AttributeStatistics, Bin
from watersmeet.plan.statistics.value_groups import Cell, align


def test_two_distinct_counts_give_one_over_the_larger() -> None:
    groups = align([(AttributeStatistics(20), 5.0), (AttributeStatistics(500), 1.0)])
    assert groups.selectivity((0, 1)) == pytest.approx(1 / 500)


def test_many_distinct_counts_drop_the_smallest() -> None:
    groups = align([(AttributeStatistics(d), 1.0) for d in (10, 20, 40)])
    assert groups.selectivity((0, 1, 2)) == pytest.approx(1 / (20 * 40))


def test_values_hot_in_one_stream_meet_the_even_rest_of_the_other() -> None:
    """p_1(v) p_2(v) summed: 0.5 * 1/10 for the hot value, then 0.5 * 0.9 over nine values of ten."""
    hot = AttributeStatistics(11, (("v", 5.0),))
    groups = align([(hot, 10.0), (AttributeStatistics(10), 10.0)])
    assert groups.selectivity((0, 1)) == pytest.approx(0.5 * 0.1 + 9 * (0.5 / 10) * (0.9 / 9))


def test_streams_that_list_all_their_values_meet_only_in_common_ones() -> None:
    left = AttributeStatistics(2, (("a", 1.0), ("b", 3.0)))
    right = AttributeStatistics(2, (("b", 1.0), ("c", 1.0)))
    assert align([(left, 4.0), (right, 2.0)]).selectivity((0, 1)) == pytest.approx(0.75 * 0.5)


def test_histograms_with_different_edges_meet_in_their_overlaps() -> None:
    left = AttributeStatistics(40, histogram=(Bin(0, 20, 8.0, 20), Bin(20, 40, 2.0, 20)))
    right = AttributeStatistics(40, histogram=(Bin(10, 50, 4.0, 40),))
    groups = align([(left, 10.0), (right, 4.0)])
    assert [(cell.low, cell.high) for cell in groups.cells] == [(0, 10), (10, 20), (20, 40), (40, 50)]
    per_value = 0.4 / 10 * 0.25 / 10 * 10 + 0.2 / 20 * 0.5 / 20 * 20
    assert groups.selectivity((0, 1)) == pytest.approx(per_value)


def test_a_heavy_hitter_takes_its_part_of_the_other_streams_bucket() -> None:
    left = AttributeStatistics(1, ((7, 10.0),))
    right = AttributeStatistics(10, histogram=(Bin(0, 10, 5.0, 10),))
    groups = align([(left, 10.0), (right, 5.0)])
    assert groups.cells[0] == Cell(value=7)
    assert groups.shares[1].tolist() == pytest.approx([0.1, 0.9])


def test_a_stream_without_histogram_lies_where_the_others_values_are() -> None:
    left = AttributeStatistics(40, histogram=(Bin(0, 10, 1.0, 10), Bin(10, 100, 1.0, 30)))
    groups = align([(left, 2.0), (AttributeStatistics(40), 8.0)])
    assert groups.cell_sums(groups.shares)[1].tolist() == pytest.approx([0.25, 0.75])


@st.composite
def columns(draw: st.DrawFn) -> tuple[AttributeStatistics, float]:
    rate = draw(st.floats(1.0, 100.0))
    if draw(st.booleans()):
        return draw(attribute_statistics(rate)), rate
    edges = sorted(draw(st.sets(st.integers(-5, 20), min_size=2, max_size=5)))
    weights = [draw(st.floats(0.1, 1.0)) for _ in edges[1:]]
    part = draw(st.sampled_from([0.5, 1.0]))
    buckets = tuple(
        Bin(low, high, rate * part * weight / sum(weights), draw(st.integers(1, 30)))
        for low, high, weight in zip(edges, edges[1:], weights, strict=False)
    )
    return AttributeStatistics(60, histogram=buckets), rate


@given(st.lists(columns(), min_size=1, max_size=4))
@settings(max_examples=150)
def test_every_tuple_is_somewhere(attributes: list[tuple[AttributeStatistics, float]]) -> None:
    groups = align(attributes)
    assert groups.shares.sum(axis=1) == pytest.approx(np.ones(len(attributes)))
    assert (groups.counts > 0).all()
    assert set(groups.cell_of.tolist()) == set(range(len(groups.cells)))


@given(st.lists(columns(), min_size=2, max_size=4))
@settings(max_examples=100)
def test_a_set_agrees_no_more_often_than_its_pairs(
    attributes: list[tuple[AttributeStatistics, float]],
) -> None:
    groups = align(attributes)
    everyone = groups.selectivity(range(len(attributes)))
    assert everyone <= groups.selectivity((0, 1)) * (1 + 1e-9)
    assert groups.selectivity((0, 1)) == pytest.approx(groups.selectivity((1, 0)))


@given(columns(), columns())
def test_the_order_of_streams_does_not_matter(
    left: tuple[AttributeStatistics, float], right: tuple[AttributeStatistics, float]
) -> None:
    assert align([left, right]).selectivity((0, 1)) == pytest.approx(align([right, left]).selectivity((0, 1)))

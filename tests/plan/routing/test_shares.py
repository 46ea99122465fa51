"""Hypercube shares: the known optima, and a brute-force twin."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.plan.joins import join_graph, join_query
from watersmeet.errors import ConfigurationError
from watersmeet.plan.routing.shares import Hypercube, choose_shares, plan_shares
from watersmeet.plan.statistics.statistics import AttributeStatistics, Statistics, StreamStatistics
from watersmeet.query import JoinGraph

Values = Mapping[str, float]

TRIANGLE = join_graph("RST", ["RS", "ST", "TR"])
CHAIN = join_graph("RST", ["RS", "ST"])


def test_the_same_attribute_everywhere_needs_no_copies() -> None:
    chosen = choose_shares(join_graph("RST", ["RST"]), {"R": 10, "S": 500, "T": 3}, 12)
    assert chosen.shares == (12,)
    assert [chosen.replication(alias) for alias in "RST"] == [1, 1, 1]
    assert chosen.cost_bytes_per_s == 513


def test_of_several_classes_that_cover_everything_one_takes_all() -> None:
    graph = join_graph("RST", ["RST", "RST"])
    rates = dict.fromkeys("RST", 1.0)
    assert choose_shares(graph, rates, 8).shares == (8, 1)
    few, many = dict.fromkeys("RST", 100.0), dict.fromkeys("RST", 5000.0)
    assert choose_shares(graph, rates, 8, [few, many]).shares == (1, 8)


def test_a_share_counts_only_up_to_the_distinct_values() -> None:
    graph = join_graph("RST", ["RST", "RST"])
    rates = dict.fromkeys("RST", 1.0)
    two, four = dict.fromkeys("RST", 2.0), dict.fromkeys("RST", 4.0)
    assert choose_shares(graph, rates, 8, [two, four]).shares == (2, 4)
    assert choose_shares(join_graph("RS", ["RS"]), rates, 64, [{"R": 3.0, "S": 3.0}]).shares == (3,)
    assert choose_shares(join_graph("RS", ["RS"]), rates, 64, [{"R": 3.0}]).shares == (64,)


def test_a_class_with_few_values_yields_to_one_with_many() -> None:
    """Both classes join all inputs; on the first, R would fill two buckets and leave the others empty."""
    graph = join_graph("RST", ["RST", "RST"])
    values = [{"R": 2.0, "S": 1e6, "T": 1e6}, dict.fromkeys("RST", 1000.0)]
    assert choose_shares(graph, dict.fromkeys("RST", 1.0), 64, values).shares == (1, 64)


def test_shares_of_a_query_come_from_its_statistics() -> None:
    query = join_query("rst", ["rs", "st"])
    columns = {f"c{n}": AttributeStatistics(distinct=100) for n in range(2)}
    rates = {"r": 100.0, "s": 100.0, "t": 1.0}
    known = {name: StreamStatistics(rate, 10, attributes=columns) for name, rate in rates.items()}
    chosen = plan_shares(query, Statistics(known), 8)
    assert chosen.shares == (8, 1)
    assert chosen.bytes_per_s == (1000, 1000, 10)


def test_a_triangle_at_equal_rates_becomes_a_cube() -> None:
    """Afrati and Ullman's cube: P^(1/3) on each axis, each input copied P^(1/3) times."""
    chosen = choose_shares(TRIANGLE, {"R": 5, "S": 5, "T": 5}, 64)
    assert chosen.shares == (4, 4, 4)
    assert [chosen.replication(alias) for alias in "RST"] == [4, 4, 4]
    assert choose_shares(TRIANGLE, {"R": 5, "S": 5, "T": 5}, 67).shares == (4, 4, 4)
    assert choose_shares(TRIANGLE, {"R": 5, "S": 5, "T": 5}, 100).shares == (5, 5, 4)


def test_a_chain_copies_its_ends_and_a_heavy_end_is_not_copied() -> None:
    even = choose_shares(CHAIN, {"R": 1, "S": 1, "T": 1}, 4)
    assert even.shares == (2, 2)
    assert [even.replication(alias) for alias in "RST"] == [2, 1, 2]
    heavy = choose_shares(CHAIN, {"R": 1000, "S": 1000, "T": 1}, 8)
    assert heavy.shares == (8, 1)
    assert heavy.replication("R") == 1
    assert heavy.replication("T") == 8


def test_pretty_tells_shares_copies_and_cost() -> None:
    text = choose_shares(CHAIN, {"R": 1, "S": 1, "T": 1}, 4).pretty()
    assert text == (
        "4 buckets = 2 x 2\n"
        "     2 for R.c0 = S.c0\n"
        "     2 for S.c1 = T.c1\n"
        "  copies: R x2, S x1, T x2\n"
        "  5 bytes/s, 1.25 a bucket"
    )


def test_inputs_that_carry_nothing_are_still_routed() -> None:
    assert choose_shares(CHAIN, {"R": 0, "S": 0, "T": 0}, 4).shares == (2, 2)
    idle_end = choose_shares(CHAIN, {"R": 1, "S": 1, "T": 0}, 6)
    assert idle_end.shares == (6, 1)


@pytest.mark.parametrize(
    ("rates", "buckets", "distinct", "message"),
    [
        ({"R": 1, "S": 1}, 4, None, "no bytes per second known for T"),
        ({"R": 1, "S": -1, "T": 1}, 4, None, "S cannot carry -1.0 bytes"),
        ({"R": 1, "S": math.nan, "T": 1}, 4, None, "S cannot carry nan"),
        ({"R": 1, "S": 1, "T": 1}, 0, None, "at least one bucket"),
        ({"R": 1, "S": 1, "T": 1}, 4, [{}], "distinct values for 1 of 2 attribute classes"),
    ],
)
def test_bad_input_is_refused(
    rates: dict[str, float], buckets: int, distinct: list[dict[str, float]] | None, message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        choose_shares(CHAIN, rates, buckets, distinct)


def load(graph: JoinGraph, rates: Sequence[float], shares: Sequence[int], values: Sequence[Values]) -> float:
    """Bytes of the fullest bucket, an input spreading over no more coordinates than it has values."""
    total = 0.0
    for alias, rate in zip(graph.aliases, rates, strict=True):
        for n in graph.classes_of(alias):
            rate /= min(shares[n], values[n].get(alias, math.inf))
        total += rate
    return total


def brute_force_load(
    graph: JoinGraph, rates: Sequence[float], buckets: int, values: Sequence[Values]
) -> float:
    """The least load over every tuple of shares there is."""
    return min(
        load(graph, rates, shares, values)
        for shares in itertools.product(range(1, buckets + 1), repeat=len(graph.classes))
        if math.prod(shares) <= buckets
    )


@st.composite
def routed_joins(draw: st.DrawFn) -> tuple[JoinGraph, list[float], int]:
    count = draw(st.integers(2, 5))
    aliases = [f"s{n}" for n in range(count)]
    classes = draw(
        st.lists(st.lists(st.sampled_from(aliases), min_size=2, unique=True), min_size=1, max_size=4)
    )
    rates = draw(st.lists(st.floats(0.5, 1e4), min_size=count, max_size=count))
    return join_graph(aliases, classes), rates, draw(st.integers(1, 12))


@settings(max_examples=150)
@given(routed_joins(), st.data())
def test_no_choice_of_shares_has_a_lower_load(
    case: tuple[JoinGraph, list[float], int], data: st.DataObject
) -> None:
    graph, rates, buckets = case
    values = [
        data.draw(st.dictionaries(st.sampled_from(cls.aliases), st.floats(1, 20))) for cls in graph.classes
    ]
    chosen = choose_shares(graph, dict(zip(graph.aliases, rates, strict=True)), buckets, values)
    assert math.prod(chosen.shares) == chosen.buckets_used <= buckets
    assert load(graph, rates, chosen.shares, values) == pytest.approx(
        brute_force_load(graph, rates, buckets, values), rel=1e-6
    )
    unknown = choose_shares(graph, dict(zip(graph.aliases, rates, strict=True)), buckets)
    nothing: list[Values] = [{} for _ in graph.classes]
    assert unknown.load_bytes_per_s == pytest.approx(
        brute_force_load(graph, rates, buckets, nothing), rel=1e-6
    )


@settings(max_examples=30)
@given(
    st.integers(6, 12),
    st.sampled_from([16, 100, 512]),
    st.lists(st.floats(0.5, 1e4), min_size=12, max_size=12),
    st.sampled_from(["chain", "cycle", "star"]),
)
def test_wide_joins_stay_within_the_buckets_and_beat_any_single_class(
    count: int, buckets: int, rates: list[float], shape: str
) -> None:
    aliases = [f"s{n}" for n in range(count)]
    pairs = {
        "chain": [aliases[n : n + 2] for n in range(count - 1)],
        "cycle": [[aliases[n], aliases[(n + 1) % count]] for n in range(count)],
        "star": [[aliases[0], other] for other in aliases[1:]],
    }[shape]
    graph = join_graph(aliases, pairs)
    used = tuple(rates[:count])
    chosen = choose_shares(graph, dict(zip(aliases, used, strict=True)), buckets)
    assert chosen.buckets_used <= buckets
    for index in range(len(pairs)):
        alone = tuple(buckets if n == index else 1 for n in range(len(pairs)))
        assert chosen.load_bytes_per_s <= Hypercube(graph, alone, used).load_bytes_per_s * (1 + 1e-9)

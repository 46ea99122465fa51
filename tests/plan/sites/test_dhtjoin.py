"""DHTJoin plans (section 3.3): bushy trees that send few partial results."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.plan.joins import TOPOLOGIES, edges, join_query, random_statistics
from watersmeet.errors import ConfigurationError
from watersmeet.plan.sites.dhtjoin import EXHAUSTIVE_LIMIT, DhtJoinPlan, plan_dhtjoin
from watersmeet.plan.sites.plan_tree import MJoin, StreamLeaf
from watersmeet.plan.statistics.rate_model import RateModel, rate_model
from watersmeet.plan.statistics.statistics import AttributeStatistics, Statistics, StreamStatistics
from watersmeet.query import Query

Naive = tuple[int, int, float]  # inputs joined, the class at the top (-1 for a base stream), cost


def naive_trees(mask: int, rates: RateModel) -> Iterator[Naive]:
    """Every bushy tree over a set, each join under every class both halves have."""
    if mask & (mask - 1) == 0:
        yield mask, -1, 0.0
        return
    left = (mask - 1) & mask
    while left:
        right = mask ^ left
        if left > right:
            for one in naive_trees(left, rates):
                for two in naive_trees(right, rates):
                    for cls, attribute in enumerate(rates.attributes):
                        if attribute.mask & left and attribute.mask & right:
                            sent = sum(rates.rate(h[0]) for h in (one, two) if h[1] not in (-1, cls))
                            yield mask, cls, one[2] + two[2] + sent
        left = (left - 1) & mask


def check_plan(plan: DhtJoinPlan, query: Query) -> None:
    """Each input once; every join has a class all its inputs hold; the cost is what is sent."""
    assert sorted(plan.root.streams) == sorted(query.graph.aliases)
    sent = 0.0

    def visit(node: MJoin) -> None:
        nonlocal sent
        cls = next(c for c in query.graph.classes if node.site == f"h({c.pretty()})")
        assert len(node.inputs) >= 2
        for child in node.inputs:
            assert set(child.streams) & set(cls.aliases)
            if isinstance(child, MJoin):
                assert child.site != node.site
                sent += child.rate_per_s
                visit(child)
            else:
                assert isinstance(child, StreamLeaf)

    visit(plan.root)
    assert plan.cost == pytest.approx(sent)


def statistics(xy: float, yz: float) -> Statistics:
    streams = {
        name: StreamStatistics(10, attributes={f"c{n}": AttributeStatistics(distinct=100) for n in range(2)})
        for name in "xyz"
    }
    given = {frozenset(("x.c0", "y.c0")): xy, frozenset(("y.c1", "z.c1")): yz}
    return Statistics(streams, selectivities=given)


def test_the_papers_type_2_query_joins_the_selective_pair_first() -> None:
    """q2, section 3.3.2: X.B = Y.B, Y.C = Z.C; the pipeline starts where fewer results are sent on."""
    query = join_query("xyz", ["xy", "yz"])
    plan = plan_dhtjoin(query, statistics(xy=0.001, yz=0.02))
    assert plan.cost == pytest.approx(2 * 10 * 100 * 0.001)
    assert plan.pretty().splitlines() == [
        "dhtjoin, exhaustive search: 2 tuples/s of partial results",
        "MJoin at h(y.c1 = z.c1): 6 tuples/s",
        "├─ MJoin at h(x.c0 = y.c0): 2 tuples/s, 400 bytes/s -> h(y.c1 = z.c1)",
        "│  ├─ x at local: 10 tuples/s, 1,000 bytes/s -> h(x.c0 = y.c0)",
        "│  └─ y at local: 10 tuples/s, 1,000 bytes/s -> h(x.c0 = y.c0)",
        "└─ z at local: 10 tuples/s, 1,000 bytes/s -> h(y.c1 = z.c1)",
    ]
    other = plan_dhtjoin(query, statistics(xy=0.02, yz=0.001))
    assert [child.streams for child in other.root.inputs] == [("x",), ("y", "z")]


def test_a_type_1_query_is_one_mjoin_and_sends_nothing_on() -> None:
    """Section 3.3.1: all tuples with the same value are at one node."""
    query = join_query("rstu", ["rstu"])
    plan = plan_dhtjoin(query, random_statistics(query, random.Random(1)))
    assert plan.cost == 0
    assert all(isinstance(child, StreamLeaf) for child in plan.root.inputs)
    assert len(plan.links()) == 4


def test_a_long_chain_may_be_bushy() -> None:
    """Two selective ends joined apart, their results meeting in the middle."""
    query = join_query("abcd", ["ab", "bc", "cd"])
    columns = {f"c{n}": AttributeStatistics(distinct=100) for n in range(3)}
    given = {
        frozenset(("a.c0", "b.c0")): 1e-4,
        frozenset(("b.c1", "c.c1")): 0.5,
        frozenset(("c.c2", "d.c2")): 1e-4,
    }
    known = Statistics({name: StreamStatistics(10, attributes=columns) for name in "abcd"}, given)
    assert [child.streams for child in plan_dhtjoin(query, known).root.inputs] == [("a", "b"), ("c", "d")]


@settings(max_examples=60)
@given(st.sampled_from(TOPOLOGIES), st.integers(2, 5), st.integers(0, 10**6))
def test_no_bushy_tree_sends_fewer_partial_results(topology: str, count: int, seed: int) -> None:
    aliases = [f"s{n}" for n in range(count)]
    classes = edges(topology, aliases)[: 6 if count == 5 else None]
    query = join_query(aliases, classes)
    known = random_statistics(query, random.Random(seed))
    rates = rate_model(query, known)
    plan = plan_dhtjoin(query, known, search="exhaustive")
    check_plan(plan, query)
    assert plan.cost == pytest.approx(min(tree[2] for tree in naive_trees(rates.everything, rates)))
    greedy = plan_dhtjoin(query, known, search="greedy")
    check_plan(greedy, query)
    assert plan.cost <= greedy.cost * (1 + 1e-9)


def test_wide_queries_are_planned_greedily_and_refused_exhaustively() -> None:
    aliases = [f"s{n}" for n in range(EXHAUSTIVE_LIMIT + 2)]
    query = join_query(aliases, edges("chain", aliases))
    known = random_statistics(query, random.Random(2))
    plan = plan_dhtjoin(query, known)
    assert plan.search == "greedy"
    check_plan(plan, query)
    with pytest.raises(ConfigurationError, match=f"at most {EXHAUSTIVE_LIMIT} inputs, not {len(aliases)}"):
        plan_dhtjoin(query, known, search="exhaustive")


def test_what_is_no_join_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="at least two inputs"):
        plan_dhtjoin(join_query("r", []), Statistics())
    with pytest.raises(ConfigurationError, match="separate parts: r, s; t"):
        plan_dhtjoin(join_query("rst", ["rs"]), Statistics())

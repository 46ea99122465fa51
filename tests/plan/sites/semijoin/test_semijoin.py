"""The semijoin optimizers (Tran and Lee 2010, section 4)."""

from __future__ import annotations

import importlib.util
import itertools
import random
import sys
from collections.abc import Iterator
from dataclasses import replace
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.paths import ROOT
from tests.plan.joins import TOPOLOGIES, edges, join_graph, join_query, random_statistics
from watersmeet.errors import ConfigurationError
from watersmeet.plan.sites.semijoin.cost import PAPER_METHODS, Method, OneWayJoin, join_cost
from watersmeet.plan.sites.semijoin.model import SemijoinModel, SiteStream, semijoin_model
from watersmeet.plan.sites.semijoin.plan import Ordering, SemijoinPlan
from watersmeet.plan.sites.semijoin.semijoin import EXHAUSTIVE_LIMIT, optimize_semijoin, plan_semijoin
from watersmeet.plan.statistics.statistics import (
    AttributeStatistics,
    Link,
    Network,
    Statistics,
    StreamStatistics,
)
from watersmeet.query import JoinGraph


def table3_module() -> ModuleType:
    path = ROOT / "benchmarks" / "semijoin_table3.py"
    spec = importlib.util.spec_from_file_location("semijoin_table3", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def uniform_model(graph: JoinGraph) -> SemijoinModel:
    """Every stream as in the caption of Figure 9, each at its own node."""
    return SemijoinModel(
        graph,
        tuple(
            SiteStream(
                alias,
                f"n_{alias}",
                rate_per_s=100,
                window_tuples=120,
                tuple_bytes=500,
                distinct=dict.fromkeys(graph.classes_of(alias), 1 / 0.06),
                key_bytes=dict.fromkeys(graph.classes_of(alias), 5),
            )
            for alias in graph.aliases
        ),
    )


def random_model(topology: str, count: int, seed: int, sites: int = 0) -> SemijoinModel:
    """Random streams over random links: every pair of sites has its own latency and bandwidth."""
    rng = random.Random(seed)
    aliases = [f"s{n}" for n in range(count)]
    query = join_query(aliases, edges(topology, aliases))
    statistics = random_statistics(query, rng, sites=sites)
    links = {
        (f"n{a}", f"n{b}"): Link(rng.choice([3e4, 1e5, 1e6]), rng.choice([0.005, 0.025, 0.05]))
        for a, b in itertools.permutations(range(count), 2)
    }
    return semijoin_model(query, replace(statistics, network=Network(links)))


def one_way_cost(
    model: SemijoinModel,
    source: frozenset[str],
    target: frozenset[str],
    sites: tuple[str, str],
    head: str | None,
    method: Method,
) -> float:
    join = OneWayJoin(
        model.side(source, target, head),
        model.side(target, source),
        link=model.network.link(*sites),
        back=model.network.link(sites[1], sites[0]),
        interval_s=model.interval_s,
        costs=model.costs,
    )
    return join_cost(join, method).total


def naive_linear_cost(model: SemijoinModel) -> float:
    """The cheapest plan over every order and every choice of the six methods, nothing pruned."""
    total = 0.0
    for head in model.graph.aliases:
        costs = []
        for order in itertools.permutations(alias for alias in model.graph.aliases if alias != head):
            for methods in itertools.product(PAPER_METHODS, repeat=len(order)):
                joined, site, cost = frozenset([head]), model.stream(head).site, 0.0
                for alias, method in zip(order, methods, strict=True):
                    if alias not in model.reachable(joined):
                        break
                    sites = (site, model.stream(alias).site)
                    cost += one_way_cost(model, joined, frozenset([alias]), sites, head, method)
                    site = sites[0] if method.output_at_source else sites[1]
                    joined |= {alias}
                else:
                    costs.append(cost)
        total += min(costs)
    return total


def naive_tree_costs(
    model: SemijoinModel, order: tuple[str, ...], joined: frozenset[str], site: str
) -> Iterator[float]:
    """The cost of every choice of methods for the levels above `joined`, in one fixed order."""
    if not order:
        yield 0.0
    elif order[0] in model.reachable(joined):
        single, there = frozenset([order[0]]), model.stream(order[0]).site
        for onto, out in itertools.product(PAPER_METHODS, PAPER_METHODS):
            ends = (
                there if onto.output_at_source else site,
                site if out.output_at_source else there,
            )
            if ends[0] != ends[1] and len(order) > 1:
                continue
            level = one_way_cost(model, single, joined, (there, site), None, onto)
            level += one_way_cost(model, joined, single, (site, there), None, out)
            for rest in naive_tree_costs(model, order[1:], joined | single, ends[0]):
                yield level + rest


def check_plan(plan: SemijoinPlan, model: SemijoinModel) -> None:
    """Every input joined once per sequence or tree, each step along an edge, sites handed on."""
    aliases = set(model.graph.aliases)
    if plan.ordering == "linear":
        for head in model.graph.aliases:
            sequence = plan.sequence(head)
            assert [len(step.source) for step in sequence] == list(range(1, len(aliases)))
            assert {head, *(step.target[0] for step in sequence)} == aliases
            for before, step in itertools.pairwise(sequence):
                assert step.source == (*before.source, *before.target)
                assert step.source_site == before.output_site
    else:
        assert len(plan.steps) == 2 * (len(aliases) - 1)
        assert {alias for step in plan.steps for alias in step.source + step.target} == aliases
        for onto, out in zip(plan.steps[::2], plan.steps[1::2], strict=True):
            assert (onto.source, onto.target) == (out.target, out.source)
            if len(onto.source) + len(onto.target) < len(aliases):
                assert onto.output_site == out.output_site
    for step in plan.steps:
        assert not set(step.source) & set(step.target)
        assert any(set(model.graph.neighbours(alias)) & set(step.target) for alias in step.source)


orderings = st.sampled_from(["linear", "tree"])


@settings(max_examples=80)
@given(st.sampled_from(TOPOLOGIES), st.integers(2, 5), st.integers(0, 10**6), orderings, st.integers(0, 3))
def test_plans_respect_the_graph_and_greedy_never_beats_exhaustive(
    topology: str, count: int, seed: int, ordering: Ordering, sites: int
) -> None:
    model = random_model(topology, count, seed, sites)
    greedy = optimize_semijoin(model, ordering=ordering, search="greedy")
    exhaustive = optimize_semijoin(model, ordering=ordering, search="exhaustive")
    check_plan(greedy, model)
    check_plan(exhaustive, model)
    assert exhaustive.cost <= greedy.cost * (1 + 1e-9)


@pytest.mark.parametrize("topology", TOPOLOGIES)
@pytest.mark.parametrize("seed", range(3))
def test_no_order_and_no_methods_beat_the_exhaustive_plan(topology: str, seed: int) -> None:
    model = random_model(topology, 3, seed)
    assert optimize_semijoin(model, search="exhaustive").cost == pytest.approx(naive_linear_cost(model))


@pytest.mark.parametrize("topology", TOPOLOGIES)
@pytest.mark.parametrize("sites", [0, 2])
def test_no_tree_and_no_methods_beat_the_exhaustive_tree(topology: str, sites: int) -> None:
    model = random_model(topology, 3, seed=9, sites=sites)
    costs = [
        cost
        for first, *rest in itertools.permutations(model.graph.aliases)
        for cost in naive_tree_costs(model, tuple(rest), frozenset([first]), model.stream(first).site)
    ]
    plan = optimize_semijoin(model, ordering="tree", search="exhaustive")
    assert plan.cost == pytest.approx(min(costs))


@pytest.mark.parametrize("topology", TOPOLOGIES)
@pytest.mark.parametrize("count", [2, 3, 4, 5])
@pytest.mark.parametrize("ordering", ["linear", "tree"])
def test_greedy_is_optimal_when_all_streams_are_alike(topology: str, count: int, ordering: Ordering) -> None:
    """Section 5.3.2 and Figure 9."""
    aliases = [f"s{n}" for n in range(count)]
    model = uniform_model(join_graph(aliases, edges(topology, aliases)))
    greedy = optimize_semijoin(model, ordering=ordering, search="greedy")
    exhaustive = optimize_semijoin(model, ordering=ordering, search="exhaustive")
    assert greedy.cost == pytest.approx(exhaustive.cost)


def test_greedy_follows_algorithm_10_step_by_step() -> None:
    """The cheapest of the six methods to the cheapest neighbour, its own method remembered with it."""
    model = random_model("fully-connected", 4, seed=5)
    plan = optimize_semijoin(model)
    for head in model.graph.aliases:
        joined, site = frozenset([head]), model.stream(head).site
        for step in plan.sequence(head):
            offers = {
                (alias, method): one_way_cost(
                    model, joined, frozenset([alias]), (site, model.stream(alias).site), head, method
                )
                for alias in model.reachable(joined)
                for method in PAPER_METHODS
            }
            assert offers[step.target[0], step.method] == min(offers.values())
            joined, site = joined | set(step.target), step.output_site


def test_the_rate_of_a_partial_join_is_the_papers_product() -> None:
    """Section 4.1: r_new = r_old * w_next * rho, with rho = 1 / max(d) between two streams."""
    graph = join_graph(["r", "s", "t"], [("r", "s"), ("s", "t")])
    model = uniform_model(graph)
    after_one = 100 * 120 * 0.06
    assert model.head_rate_per_s("r", frozenset("rs")) == pytest.approx(after_one)
    assert model.head_rate_per_s("r", frozenset("rst")) == pytest.approx(after_one * 120 * 0.06)
    side = model.side(frozenset("rs"), frozenset("t"), "r")
    assert side.tuple_bytes == 1000
    assert side.distinct == pytest.approx(1 / 0.06)


@given(st.sampled_from(TOPOLOGIES), st.integers(2, 5), st.integers(0, 10**6))
def test_with_distinct_counts_alone_the_rate_model_gives_the_papers_selectivities(
    topology: str, count: int, seed: int
) -> None:
    model = random_model(topology, count, seed)
    uniform = replace(model, selectivity=None)
    for size in range(1, count + 1):
        joined = frozenset(model.graph.aliases[:size])
        assert model.joined_selectivity(joined) == pytest.approx(uniform.joined_selectivity(joined))


def test_streams_at_one_site_ship_nothing() -> None:
    model = random_model("chain", 4, seed=1, sites=1)
    plan = optimize_semijoin(model)
    assert plan.links() == ()
    assert plan.communication == 0
    assert plan.processing == pytest.approx(plan.cost)
    assert plan.cost > 0


def test_a_slow_stream_is_joined_where_the_fast_one_is() -> None:
    """R at 1 tuple/s and S at 100/s of the same size: R's tuples travel, S's stay."""
    query = join_query("rs", ["rs"])
    streams = {
        name: StreamStatistics(rate, 1000.0, site, {"c0": AttributeStatistics(distinct=100)})
        for name, rate, site in (("r", 1.0, "paris"), ("s", 100.0, "rome"))
    }
    plan = plan_semijoin(query, Statistics(streams, network=Network(default=Link(128_000, 0.025))))
    assert plan.sequence("r")[0].output_site == "rome"
    assert plan.sequence("s")[0].output_site == "rome"
    assert {(load.source, load.target) for load in plan.links()} == {("paris", "rome")}
    assert plan.unit == "s/s"
    assert plan.pretty().splitlines() == [
        "semijoin, linear ordering, greedy search: 0.516027 s/s",
        "  r -> s  SP-D at rome  0.258014 s/s",
        "  s -> r  SP-S at rome  0.258014 s/s",
    ]
    assert plan.to_json()["steps"][0]["method"] == "SP-D"


def test_the_exhaustive_search_refuses_wide_queries() -> None:
    aliases = [f"s{n}" for n in range(EXHAUSTIVE_LIMIT + 1)]
    model = uniform_model(join_graph(aliases, edges("chain", aliases)))
    with pytest.raises(ConfigurationError, match=f"at most {EXHAUSTIVE_LIMIT} inputs, not {len(aliases)}"):
        optimize_semijoin(model, search="exhaustive")
    assert optimize_semijoin(model).cost > 0


def test_unknown_options_and_unconnected_graphs_are_refused() -> None:
    model = uniform_model(join_graph("rs", ["rs"]))
    with pytest.raises(ConfigurationError, match="no ordering 'zigzag'"):
        optimize_semijoin(model, ordering="zigzag")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="no search 'lucky'"):
        optimize_semijoin(model, search="lucky")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="separate parts: r, s; t"):
        optimize_semijoin(uniform_model(join_graph("rst", ["rs"])))


def test_random_queries_of_table_2_keep_greedy_close_to_optimal() -> None:
    """Table 3's finding, with fewer queries: on average within a third of optimal, for every topology."""
    table = table3_module().table3(queries=10, seed=3)
    assert set(table) >= {"star", "chain", "cycle", "fully-connected"}
    for summary in table.values():
        assert 1 - 1e-9 <= summary.median <= summary.worst
        assert 1 - 1e-9 <= summary.mean < 1.34

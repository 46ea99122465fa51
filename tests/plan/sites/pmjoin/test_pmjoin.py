"""PMJoin (DASFAA 2006): the paper's two examples, and what its optimizers promise."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.golden import check_golden
from tests.plan.papers import example
from tests.plan.sites.pmjoin.models import check_plan, models
from watersmeet.errors import ConfigurationError
from watersmeet.plan.sites.plan_tree import MJoin, PlanNode, StreamLeaf, cost_bytes_per_s, links
from watersmeet.plan.sites.pmjoin.exhaustive import EXHAUSTIVE_LIMIT, optimal
from watersmeet.plan.sites.pmjoin.heuristic import join_where_it_slows, source_operands
from watersmeet.plan.sites.pmjoin.pmjoin import (
    OPTIMIZERS,
    PmjoinPlan,
    partitioned_plan,
    plan_centralized,
    plan_distributed,
    plan_pmjoin,
    unpartitioned_plan,
)
from watersmeet.plan.sites.stream_partition import PARTITIONINGS
from watersmeet.plan.statistics.attribute import AttributeStatistics, Bin
from watersmeet.plan.statistics.join_attribute import JoinAttribute
from watersmeet.plan.statistics.rate_model import RateModel, Source, rate_model
from watersmeet.plan.statistics.statistics import Statistics, StreamStatistics
from watersmeet.plan.statistics.value_groups import align
from watersmeet.query import Column, Stream
from watersmeet.sql import bind_query

GOLDEN = Path(__file__).parent / "golden"
SLACK = 1 + 1e-9


def describe(plan: PmjoinPlan) -> str:
    shipped = "\n".join(load.pretty() for load in plan.links)
    return f"{plan.strategy}: {plan.cost_bytes_per_s:.4f} bytes/s\n{plan.pretty()}\n{shipped}\n"


def test_example_1_costs_of_the_three_schemes() -> None:
    """Section 1: 100.1, about 54.03 and about 0.07 bytes/s."""
    query, statistics = example("pmjoin-example-1")
    assert plan_centralized(query, statistics).cost_bytes_per_s == pytest.approx(100.1)
    assert plan_distributed(query, statistics).cost_bytes_per_s == pytest.approx(54.0316)
    partitioned = plan_pmjoin(query, statistics, partitions=3, partitioning="rate")
    assert partitioned.cost_bytes_per_s == pytest.approx(0.0696)
    costs = {part.name: cost_bytes_per_s(part.plan) for part in partitioned.partitions}
    assert costs == pytest.approx({"a": 0.036, "b": 0.012, "c": 0.0216})


@pytest.mark.parametrize("optimizer", ["heuristic", "optimal"])
def test_example_1_finds_the_minimum(optimizer: str) -> None:
    """Section 1 speaks of the minimum cost of each scheme."""
    query, statistics = example("pmjoin-example-1")
    model = rate_model(query, statistics)
    assert cost_bytes_per_s(unpartitioned_plan(model, optimizer)) == pytest.approx(54.0316)
    plan = partitioned_plan(model, 3, "hash", optimizer=optimizer)
    assert cost_bytes_per_s(plan) == pytest.approx(0.0696)


def test_example_1_rates_of_the_joined_streams() -> None:
    """Table 1, whole and by value."""
    query, statistics = example("pmjoin-example-1")
    model = rate_model(query, statistics)
    pairs = (0b011, 0b101, 0b110)
    assert [model.rate(pair) for pair in pairs] == pytest.approx([9.003, 7.001, 2.0008])
    by_value = []
    groups = model.attributes[0].groups
    for cell in range(3):
        part = model.part(0, groups.part(np.array([cell]), np.ones(1)))
        by_value.append([part.rate(pair) for pair in pairs])
    assert by_value == [pytest.approx(row) for row in ([0.003, 5, 1.5], [5, 0.001, 0.5], [4, 2, 0.0008])]


def test_example_2_derived_columns_of_table_2() -> None:
    query, statistics = example("pmjoin-example-2")
    model = rate_model(query, statistics)
    assert [source.window_tuples for source in model.sources] == pytest.approx([100, 350, 250, 300, 150])
    assert model.rate(model.mask(["s0", "s1"])) == pytest.approx(70)
    s23, s023 = model.mask(["s2", "s3"]), model.mask(["s0", "s2", "s3"])
    assert (model.rate(s23), model.window(s23)) == pytest.approx((15, 75))
    assert (model.rate(s023), model.window(s023)) == pytest.approx((9, 30))


def test_example_2_gives_the_plan_of_figure_3() -> None:
    """S2 and S3 meet at n1, S0 joins them there; that and S4 travel to S1 at n0."""
    query, statistics = example("pmjoin-example-2")
    plan = plan_distributed(query, statistics)
    assert _shape(plan.root) == ("n0", [("n1", ["s0", ("n1", ["s2", "s3"])]), "s4", "s1"])
    assert plan.cost_bytes_per_s == pytest.approx(10 + 9 + 15)


@pytest.mark.parametrize("name", ["pmjoin-example-1", "pmjoin-example-2"])
def test_plans_of_the_examples_read_as_before(name: str) -> None:
    query, statistics = example(name)
    plans = (
        plan_centralized(query, statistics),
        plan_distributed(query, statistics),
        plan_pmjoin(query, statistics, partitions=3, partitioning="rate"),
    )
    check_golden(GOLDEN / f"{name}.txt", "\n".join(describe(plan) for plan in plans).rstrip("\n"))


def test_simple_goes_to_the_fastest_stream_and_local_joins_all_local_streams() -> None:
    """Section 4.1: the baselines, where they differ from Algorithm 1."""
    query, statistics = example("pmjoin-example-2")
    simple = plan_distributed(query, statistics, optimizer="simple")
    assert simple.root.site == "n0"
    assert simple.cost_bytes_per_s == pytest.approx(25 + 30 + 15)
    local = plan_distributed(query, statistics, optimizer="local")
    assert "s0 ⋈ s1" in {node.name for node in _nodes(local.root)}
    assert "s0 ⋈ s1" not in {node.name for node in _nodes(plan_distributed(query, statistics).root)}


@pytest.mark.parametrize(("joined_per_s", "joined"), [(4.0, True), (6.0, False), (20.0, False)])
def test_co_located_streams_are_joined_first_only_where_both_get_slower(
    joined_per_s: float, joined: bool
) -> None:
    """Section 3.2, first step: streams of 5/s and 10/s, and a third elsewhere."""
    sources = [
        Source.of("s1", "n1", 5.0, 1.0),
        Source.of("s2", "n1", 10.0, 1.0),
        Source.of("s3", "n2", 99.0, 1.0),
    ]
    attribute = AttributeStatistics(1000)
    groups = align([(attribute, 1.0), (attribute, 1.0)])
    correction = {frozenset((0, 1)): joined_per_s / 15 * 1000}
    model = RateModel(
        sources, [JoinAttribute("a", (0, 1), groups, correction), JoinAttribute("b", (1, 2), groups)], 1.0
    )
    assert model.rate(0b011) == pytest.approx(joined_per_s)
    first = join_where_it_slows(model, source_operands(model)[:2])
    assert [operand.mask for operand in first] == ([0b011] if joined else [0b001, 0b010])


def test_exhaustive_counts_the_way_to_a_target() -> None:
    """4/s at p and 5/s at q join to 4.5/s: best at q, but at p when the result is wanted there."""
    attribute = AttributeStatistics(2)
    groups = align([(attribute, 4.0), (attribute, 5.0)])
    sources = [Source.of("s1", "p", 4.0, 1.0), Source.of("s2", "q", 5.0, 1.0)]
    model = RateModel(sources, [JoinAttribute("a", (0, 1), groups)], 1.0)
    assert model.rate(0b11) == pytest.approx(4.5)
    assert [optimal(model, source_operands(model), target).site for target in (None, "p", "q")] == [
        "q",
        "p",
        "q",
    ]


def test_terms_and_links_add_up_to_the_cost() -> None:
    query, statistics = example("pmjoin-example-1")
    plan = plan_pmjoin(query, statistics, partitions=3)
    assert sum(term.bytes_per_s for term in plan.terms) == pytest.approx(plan.cost_bytes_per_s)
    data = plan.to_json()
    assert (data["strategy"], data["unit"]) == ("pmjoin", "bytes/s")
    assert sum(link["bytes_per_s"] for link in data["links"]) == pytest.approx(data["cost"])
    assert {"from": "n2", "to": "n1", "stream": "s2", "bytes_per_s": pytest.approx(0.03)} in data["links"]


@pytest.mark.parametrize("kind", PARTITIONINGS)
def test_histogram_buckets_are_enough_to_partition_by(kind: str) -> None:
    """Section 3.3: s1 is fast in the low half of the values, s2 in the high half."""
    halves = {"s1": (95.0, 5.0), "s2": (5.0, 95.0)}
    streams = {
        name: StreamStatistics(
            100.0,
            1.0,
            name,
            {"k": AttributeStatistics(20, histogram=(Bin(0, 10, low, 10), Bin(10, 20, high, 10)))},
        )
        for name, (low, high) in halves.items()
    }
    columns = (Column("k", "bigint"), Column("ts", "timestamp"))
    query = bind_query(
        "SELECT s1.k FROM s1 [RANGE 100 MS], s2 [RANGE 100 MS] WHERE s1.k = s2.k",
        [Stream(name, columns, "ts") for name in halves],
    )
    whole = plan_distributed(query, Statistics(streams))
    halved = plan_pmjoin(query, Statistics(streams), partitions=2, partitioning=kind)
    assert whole.cost_bytes_per_s == pytest.approx(100.0)
    assert halved.cost_bytes_per_s == pytest.approx(10.0)
    assert [part.name for part in halved.partitions] == ["[0, 10)", "[10, 20)"]


def test_exhaustive_refuses_more_than_its_limit() -> None:
    model = _uniform_model(EXHAUSTIVE_LIMIT + 1)
    with pytest.raises(ConfigurationError, match="takes at most 14 streams, this join has 15"):
        unpartitioned_plan(model, "optimal")


def test_a_disconnected_model_is_refused() -> None:
    model = RateModel([Source.of("s1", "n", 1.0, 1.0), Source.of("s2", "n", 1.0, 1.0)], [])
    with pytest.raises(ConfigurationError, match="no condition connects s1 with s2"):
        unpartitioned_plan(model)


def test_bad_options_are_refused_even_for_one_partition() -> None:
    query, statistics = example("pmjoin-example-1")
    with pytest.raises(ConfigurationError, match="no partitioning 'size': write one of hash, range, rate"):
        plan_pmjoin(query, statistics, partitions=1, partitioning="size")
    with pytest.raises(ConfigurationError, match="at least 1, got 0"):
        plan_pmjoin(query, statistics, partitions=0)
    with pytest.raises(ConfigurationError, match="no optimizer 'best': choose one of heuristic, optimal"):
        plan_distributed(query, statistics, optimizer="best")  # type: ignore[arg-type]


def test_twenty_streams_and_a_thousand_partitions_are_planned() -> None:
    """The size the planner must take; `benchmarks` has the time."""
    plan = partitioned_plan(_uniform_model(20, values=1000), 1000, "rate")
    assert len(plan.partitions) == 1000


@given(models())
@settings(max_examples=80)
def test_exhaustive_finds_what_naming_every_tree_finds(model: RateModel) -> None:
    if len(model.sources) <= 4:
        naive = min(cost for _, cost in _every_plan(model, model.everything))
        assert cost_bytes_per_s(unpartitioned_plan(model, "optimal")) == pytest.approx(naive)


@given(models())
@settings(max_examples=80)
def test_no_optimizer_beats_the_exhaustive_one(model: RateModel) -> None:
    plans = {name: unpartitioned_plan(model, name) for name in OPTIMIZERS}
    costs = {name: cost_bytes_per_s(plan) for name, plan in plans.items()}
    assert all(costs["optimal"] <= cost * SLACK for cost in costs.values())
    assert costs["centralized"] <= costs["simple"] * SLACK
    for plan in plans.values():
        check_plan(model, plan)
        assert cost_bytes_per_s(plan) == pytest.approx(sum(load.bytes_per_s for load in links(plan)))


@given(models(), st.sampled_from(PARTITIONINGS), st.sampled_from(["heuristic", "optimal"]))
@settings(max_examples=60)
def test_one_partition_is_the_unpartitioned_plan(model: RateModel, kind: str, optimizer: str) -> None:
    plan = partitioned_plan(model, 1, kind, optimizer=optimizer)
    assert plan == unpartitioned_plan(model, optimizer)


@given(models(), st.sampled_from(PARTITIONINGS), st.integers(1, 5))
@settings(max_examples=80)
def test_a_partition_per_value_is_never_worse_than_fewer(model: RateModel, kind: str, fewer: int) -> None:
    finest = partitioned_plan(model, 1000, kind, optimizer="optimal")
    coarser = partitioned_plan(model, fewer, kind, optimizer="optimal")
    assert cost_bytes_per_s(finest) <= cost_bytes_per_s(coarser) * SLACK
    check_plan(model, finest)
    check_plan(model, coarser)


@given(models(largest=6), st.sampled_from(PARTITIONINGS), st.integers(2, 6))
@settings(max_examples=80)
def test_partitioned_heuristic_plans_respect_the_join_graph(model: RateModel, kind: str, count: int) -> None:
    plan = partitioned_plan(model, count, kind)
    check_plan(model, plan)
    assert plan.rate_per_s == pytest.approx(model.rate(model.everything))


def _shape(node: PlanNode) -> object:
    if isinstance(node, StreamLeaf):
        return node.name
    return node.site, [_shape(child) for child in node.inputs]


def _nodes(node: PlanNode) -> Iterator[PlanNode]:
    yield node
    for child in node.inputs if isinstance(node, MJoin) else ():
        yield from _nodes(child)


def _uniform_model(count: int, values: int = 4) -> RateModel:
    """Streams at sites of their own whose rates of a value differ."""
    known = []
    for n in range(count):
        rates = [1.0 + (7 * n + 3 * value) % 11 for value in range(values)]
        known.append((AttributeStatistics(values, tuple(enumerate(rates))), sum(rates)))
    sources = [Source.of(f"s{n}", f"n{n}", rate, rate * 0.01) for n, (_, rate) in enumerate(known)]
    return RateModel(sources, [JoinAttribute("k", tuple(range(count)), align(known))])


def _every_plan(model: RateModel, mask: int) -> Iterator[tuple[str, float]]:
    """Site and cost of every tree of two-way joins at any site, named one by one."""
    if not mask & (mask - 1):
        yield model.members(mask)[0].site, 0.0
        return
    sites = sorted({source.site for source in model.sources})
    half = (mask - 1) & mask
    while half:
        other = mask ^ half
        if half > other and model.joinable(half, other):
            for site_a, cost_a in _every_plan(model, half):
                for site_b, cost_b in _every_plan(model, other):
                    for site in sites:
                        a = model.bytes_per_s(half) if site_a != site else 0.0
                        b = model.bytes_per_s(other) if site_b != site else 0.0
                        yield site, cost_a + cost_b + a + b
        half = (half - 1) & mask

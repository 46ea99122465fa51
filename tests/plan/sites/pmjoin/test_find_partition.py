"""PMJoin section 3.3: Algorithm 2 FINDPARTITION, and which of its PMJoins are kept."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from tests.plan.sites.pmjoin.models import models
from watersmeet.plan.sites.plan_tree import (
    MJoin,
    PlanNode,
    PMJoin,
    StreamLeaf,
    cost_bytes_per_s,
    links,
    operators,
)
from watersmeet.plan.sites.pmjoin.find_partition import (
    Candidate,
    find_partition,
    partitionable_on,
    select_partitions,
)
from watersmeet.plan.sites.pmjoin.pmjoin import Partitioner, partitioned_plan, unpartitioned_plan
from watersmeet.plan.statistics.attribute import AttributeStatistics
from watersmeet.plan.statistics.join_attribute import JoinAttribute
from watersmeet.plan.statistics.rate_model import RateModel, Source
from watersmeet.plan.statistics.value_groups import align


def model_of(count: int, **attributes: str) -> RateModel:
    """Streams s0.. at their own sites; an attribute is the digits of the streams it joins."""
    sources = [Source.of(f"s{n}", f"n{n}", 10.0, 10.0) for n in range(count)]
    known = AttributeStatistics(2, (("u", 9.0), ("v", 1.0)))
    return RateModel(
        sources,
        [
            JoinAttribute(name, tuple(map(int, members)), align([(known, 10.0)] * len(members)))
            for name, members in attributes.items()
        ],
    )


def stream(number: int, rate_per_s: float = 10.0) -> StreamLeaf:
    return StreamLeaf(f"s{number}", f"n{number}", rate_per_s, 1.0)


def join(*inputs: PlanNode, rate_per_s: float = 1.0) -> MJoin:
    return MJoin(inputs, inputs[-1].site, rate_per_s, 1.0)


def names(candidates: list[Candidate]) -> list[tuple[str, int, list[str]]]:
    return [(c.operator.name, c.attribute, [node.name for node in c.inputs]) for c in candidates]


def test_a_join_is_partitionable_when_all_its_conditions_are_on_one_attribute() -> None:
    model = model_of(4, a="012", b="23")
    assert partitionable_on(model, [stream(0), stream(1), stream(2)]) == 0
    assert partitionable_on(model, [join(stream(0), stream(2)), stream(3)]) == 1
    assert partitionable_on(model, [stream(0), stream(2), stream(3)]) is None


def test_a_composite_key_counts_as_one_attribute() -> None:
    model = model_of(3, a="012", b="012", c="01")
    assert partitionable_on(model, [join(stream(0), stream(1)), stream(2)]) == 0
    assert partitionable_on(model, [stream(0), stream(1), stream(2)]) is None


def test_children_on_the_same_attribute_are_merged_all_the_way_down() -> None:
    model = model_of(4, a="0123")
    plan = join(join(stream(0), join(stream(1), stream(2))), stream(3))
    found = find_partition(model, plan)
    assert names(found) == [("s0 ⋈ s1 ⋈ s2 ⋈ s3", 0, ["s0", "s1", "s2", "s3"])]
    assert len(found[0].merged) == 2


def test_children_on_other_attributes_become_candidates_of_their_own() -> None:
    model = model_of(4, a="012", b="23")
    plan = join(join(stream(0), join(stream(1), stream(2))), stream(3))
    assert names(find_partition(model, plan)) == [
        ("s0 ⋈ s1 ⋈ s2 ⋈ s3", 1, ["s0 ⋈ s1 ⋈ s2", "s3"]),
        ("s0 ⋈ s1 ⋈ s2", 0, ["s0", "s1", "s2"]),
    ]


def test_a_right_child_is_never_marked_but_its_children_may_be() -> None:
    model = model_of(6, a="012", b="23", c="345")
    inner = join(join(stream(0), join(stream(1), stream(2))), stream(3))
    plan = join(stream(5), stream(4), inner)
    found = find_partition(model, plan)
    assert names(found) == [
        ("s0 ⋈ s1 ⋈ s2 ⋈ s3 ⋈ s4 ⋈ s5", 2, ["s5", "s4", "s0 ⋈ s1 ⋈ s2 ⋈ s3"]),
        ("s0 ⋈ s1 ⋈ s2", 0, ["s0", "s1", "s2"]),
    ]


def test_a_join_on_mixed_attributes_is_left_alone() -> None:
    model = model_of(3, a="01", b="12")
    assert find_partition(model, join(stream(0), stream(1), stream(2))) == []


@pytest.mark.parametrize(("parent_rate", "kept"), [(500.0, "s0 ⋈ s1 ⋈ s2"), (5.0, "s0 ⋈ s1")])
def test_selection_keeps_the_faster_of_parent_and_child(parent_rate: float, kept: str) -> None:
    """Constraint 1: a PMJoin is never the child of another, whichever is chosen first."""
    model = model_of(3, a="01", b="12")
    plan = join(join(stream(0), stream(1), rate_per_s=2.0), stream(2, parent_rate))
    found = find_partition(model, plan)
    assert len(found) == 2
    assert [candidate.operator.name for candidate in select_partitions(found)] == [kept]


def test_selection_keeps_grandparent_and_grandchild() -> None:
    model = model_of(4, a="01", b="12", c="23")
    low = join(stream(0, 90.0), stream(1, 90.0))
    plan = join(join(low, stream(2)), stream(3, 50.0))
    chosen = select_partitions(find_partition(model, plan))
    assert [c.operator.name for c in chosen] == ["s0 ⋈ s1", "s0 ⋈ s1 ⋈ s2 ⋈ s3"]


def test_results_of_an_inner_pmjoin_are_shipped_to_the_join_above() -> None:
    """Section 3.3: its substreams end at several sites; those not yet where the parent runs travel there."""
    hot = [AttributeStatistics(2, (("u", u), ("v", 100.0 - u))) for u in (99.0, 1.0)]
    any_value = AttributeStatistics(2)
    model = RateModel(
        [
            Source.of("s0", "n0", 100.0, 1.0),
            Source.of("s1", "n1", 100.0, 1.0),
            Source.of("s2", "n2", 900.0, 9000.0),
        ],
        [
            JoinAttribute("a", (0, 1), align([(hot[0], 100.0), (hot[1], 100.0)])),
            JoinAttribute("b", (1, 2), align([(any_value, 100.0), (any_value, 900.0)])),
        ],
    )
    plan = partitioned_plan(model, 2, "hash")
    assert isinstance(plan, MJoin)
    assert [type(child) for child in plan.inputs] == [PMJoin, StreamLeaf]
    ends = {part.plan.site for part in plan.inputs[0].partitions}  # type: ignore[union-attr]
    assert ends == {"n0", "n1"}
    to_parent = sum(load.bytes_per_s for load in links(plan) if load.target == "n2")
    assert to_parent == pytest.approx(model.bytes_per_s(0b011))
    assert cost_bytes_per_s(plan) < cost_bytes_per_s(unpartitioned_plan(model))


def test_optimal_partition_plans_know_where_their_results_must_go() -> None:
    """Both values join best at q, but the join above runs at p."""
    known = AttributeStatistics(2, (("u", 0.5), ("v", 0.5)))
    rest = AttributeStatistics(1)
    model = RateModel(
        [
            Source.of("s0", "p", 4.0, 1.0),
            Source.of("s1", "q", 5.0, 1.0),
            Source.of("s2", "p", 900.0, 900.0),
        ],
        [
            JoinAttribute("a", (0, 1), align([(known, 1.0), (known, 1.0)])),
            JoinAttribute("b", (1, 2), align([(rest, 1.0), (rest, 1.0)])),
        ],
        1.0,
    )
    inner = join(stream(0), stream(1))
    chosen = [Candidate(inner, 0, inner.inputs, ())]
    parts = {}
    for target in (None, "p"):
        partitioner = Partitioner(
            model=model, chosen=chosen, partitions=2, partitioning="hash", optimizer="optimal", seed=0
        )
        leaves = (StreamLeaf("s0", "p", 4.0, 1.0), StreamLeaf("s1", "q", 5.0, 1.0))
        parts[target] = [part.plan.site for part in partitioner.plans(0, leaves, target)]
    assert parts == {None: ["q", "q"], "p": ["p", "p"]}


@given(models(smallest=3, largest=6, one_attribute=False))
@settings(max_examples=80)
def test_both_constraints_hold_for_any_plan(model: RateModel) -> None:
    plan = partitioned_plan(model, 4, "hash")
    for node in operators(plan):
        if isinstance(node, PMJoin):
            assert not any(isinstance(child, PMJoin) for child in node.inputs)
        elif isinstance(node, MJoin):
            assert not isinstance(node.inputs[-1], PMJoin)

"""Random models for the tests of PMJoin and of statistics."""

from __future__ import annotations

from hypothesis import strategies as st

from watersmeet.plan.sites.plan_tree import MJoin, PlanNode, PMJoin, StreamLeaf
from watersmeet.plan.statistics.attribute import AttributeStatistics
from watersmeet.plan.statistics.join_attribute import JoinAttribute
from watersmeet.plan.statistics.rate_model import RateModel, Source
from watersmeet.plan.statistics.value_groups import align


def quantities(low: float, high: float) -> st.SearchStrategy[float]:
    return st.floats(low, high, allow_nan=False, allow_subnormal=False)


@st.composite
def attribute_statistics(draw: st.DrawFn, rate_per_s: float, values: int = 5) -> AttributeStatistics:
    """Heavy hitters among a few values, and possibly a rest."""
    hot = draw(st.lists(st.integers(1, values), unique=True, max_size=values))
    weights = [draw(quantities(0.01, 10.0)) for _ in hot]
    listed = draw(st.sampled_from([0.0, 0.3, 0.9, 1.0])) if hot else 0.0
    scale = rate_per_s * listed / sum(weights) if hot else 0.0
    distinct = float(draw(st.integers(len(hot) + 1, 50)))
    return AttributeStatistics(
        distinct, tuple((v, w * scale) for v, w in zip(hot, weights, strict=True)) if listed else ()
    )


@st.composite
def sources(draw: st.DrawFn, count: int) -> list[Source]:
    made = []
    for n in range(count):
        rate = draw(quantities(0.5, 500.0))
        window = draw(st.one_of(quantities(0.05, 20.0).map(lambda s, r=rate: r * s), st.just(30.0)))
        made.append(
            Source.of(f"s{n}", draw(st.sampled_from("pqr")), rate, window, draw(quantities(1.0, 40.0)))
        )
    return made


@st.composite
def models(
    draw: st.DrawFn, smallest: int = 2, largest: int = 5, one_attribute: bool | None = None
) -> RateModel:
    """A few streams at up to three sites, joined on one attribute or along a random tree of attributes."""
    streams = draw(sources(draw(st.integers(smallest, largest))))
    single = draw(st.booleans()) if one_attribute is None else one_attribute
    members = [list(range(len(streams)))] if single else _tree(draw, len(streams))
    attributes = []
    for number, inside in enumerate(members):
        rates = [streams[n].rate_per_s for n in inside]
        groups = align([(draw(attribute_statistics(rate)), rate) for rate in rates])
        pairs = [frozenset((i, j)) for i in inside for j in inside if i < j]
        given = draw(st.dictionaries(st.sampled_from(pairs), quantities(0.1, 3.0), max_size=2))
        attributes.append(JoinAttribute(f"k{number}", tuple(inside), groups, given))
    return RateModel(streams, attributes, draw(st.sampled_from([None, 8.0])))


def _tree(draw: st.DrawFn, count: int) -> list[list[int]]:
    """Attributes that connect the streams: each new stream joins an old attribute, or an old stream anew."""
    members = [[0, 1]]
    for n in range(2, count):
        if draw(st.booleans()):
            members[draw(st.integers(0, len(members) - 1))].append(n)
        else:
            members.append([draw(st.integers(0, n - 1)), n])
    return members


def check_plan(model: RateModel, plan: PlanNode) -> None:
    """A plan names each stream once, joins only what the graph connects, and keeps its rates honest."""
    assert sorted(plan.streams) == sorted(source.alias for source in model.sources)
    _check_joins(model, plan)


def _check_joins(model: RateModel, node: PlanNode) -> None:
    if isinstance(node, StreamLeaf):
        return
    if isinstance(node, MJoin):
        _check_connected(model, node.inputs)
        assert node.inputs[-1].site == node.site
        assert not isinstance(node.inputs[-1], PMJoin)
    else:
        assert not any(isinstance(child, PMJoin) for child in node.inputs)
        for part in node.partitions:
            assert sorted(part.plan.streams) == sorted(child.name for child in node.inputs)
            _check_partition(model, part.plan)
    for child in node.inputs:
        _check_joins(model, child)


def _check_partition(model: RateModel, node: PlanNode) -> None:
    if isinstance(node, MJoin):
        _check_connected(model, node.inputs)
        for child in node.inputs:
            _check_partition(model, child)


def _check_connected(model: RateModel, inputs: tuple[PlanNode, ...]) -> None:
    """The inputs of a join hang together; a substream may be named by several sources."""
    masks = [model.mask([name for part in node.streams for name in part.split(" ⋈ ")]) for node in inputs]
    assert len(masks) > 1
    reached = masks.pop(0)
    while near := [mask for mask in masks if model.joinable(reached, mask)]:
        reached |= near[0]
        masks.remove(near[0])
    assert masks == []

"""Any plan as trees to draw: a join on top, its inputs below, what is sent on the way up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, replace

from watersmeet.plan.routing.pipeline_or_shares import PricedShares, PricedStages
from watersmeet.plan.routing.price_stages import stage_name
from watersmeet.plan.sites.plan_tree import MJoin, PlanNode, PMJoin, StreamLeaf, alike_partitions, number
from watersmeet.plan.sites.semijoin.plan import SemijoinPlan, SemijoinStep


@dataclass(frozen=True)
class PictureNode:
    """A stream or an operator at a site; `sent` labels the edge to the join above, empty if nothing moves."""

    title: str
    site: str
    _: KW_ONLY
    is_stream: bool = False
    detail: str = ""
    sent: str = ""
    inputs: tuple[PictureNode, ...] = ()


@dataclass(frozen=True)
class PictureTree:
    """A tree with the title above it."""

    title: str
    root: PictureNode


def picture_plan(plan: PlanNode) -> tuple[PictureTree, ...]:
    """A plan with sites: one tree, and below a PMJoin one tree for each kind of partition."""
    if isinstance(plan, PMJoin):
        inputs = [child for child in plan.inputs if isinstance(child, MJoin)]
        trees = [PictureTree(f"input {child.name}", _node(child, None)) for child in inputs]
        trees += [PictureTree(part.name, _node(part.plan, None)) for part in alike_partitions(plan)]
        return tuple(trees)
    trees = [PictureTree("plan", _node(plan, None))]
    for inner in _inner_partitions(plan):
        trees += [PictureTree(f"{inner.name}: {part.title}", part.root) for part in picture_plan(inner)]
    return tuple(trees)


def _inner_partitions(plan: PlanNode) -> list[PMJoin]:
    if isinstance(plan, PMJoin):
        return [plan]
    return (
        [] if isinstance(plan, StreamLeaf) else [p for child in plan.inputs for p in _inner_partitions(child)]
    )


def _node(plan: PlanNode, target: str | None) -> PictureNode:
    moves = target is not None and plan.site != target
    sent = f"{number(plan.bytes_per_s)} B/s" if moves else ""
    detail = f"{number(plan.rate_per_s)} tuples/s"
    if isinstance(plan, StreamLeaf):
        return PictureNode(plan.name, plan.site, is_stream=True, detail=detail, sent=sent)
    if isinstance(plan, PMJoin):
        return PictureNode(f"PMJoin: {plan.name}", plan.site, detail=detail, sent=sent)
    inputs = tuple(_node(child, plan.site) for child in plan.inputs)
    return PictureNode("⋈", plan.site, detail=detail, sent=sent, inputs=inputs)


def picture_semijoin(plan: SemijoinPlan) -> tuple[PictureTree, ...]:
    """Linear ordering: the sequence of each head as a left-deep tree, the method of each join named."""
    heads = dict.fromkeys(step.source[0] for step in plan.steps)
    return tuple(PictureTree(f"new tuples of {head}", _sequence(plan.sequence(head))) for head in heads)


def _sequence(steps: tuple[SemijoinStep, ...]) -> PictureNode:
    first = steps[0]
    left = PictureNode(first.source[0], first.source_site, is_stream=True)
    for step in steps:
        there, back = (step.cost.bytes_per_s(to_source=to_source) for to_source in (False, True))
        apart = step.source_site != step.target_site
        right = PictureNode(
            " ⋈ ".join(step.target),
            step.target_site,
            is_stream=True,
            sent=f"{number(back)} B/s" if apart and back else "",
        )
        sent = f"{number(there)} B/s" if apart and there else ""
        left = replace(left, sent=sent)
        detail = f"{number(step.cost.total)} s/s"
        left = PictureNode(step.method.value, step.output_site, detail=detail, inputs=(left, right))
    return left


def picture_shares(routing: PricedShares, sites: Mapping[str, str]) -> tuple[PictureTree, ...]:
    """One stage over a grid of buckets; the edges say how many copies are made."""
    grid = " × ".join(str(share) for share in routing.hypercube.shares) or "1"
    inputs = tuple(
        PictureNode(
            delivery.name,
            sites[delivery.name],
            is_stream=True,
            detail=f"{number(delivery.bytes_per_s / delivery.copies)} B/s",
            sent=f"×{delivery.copies}" if delivery.copies > 1 else "",
        )
        for delivery in routing.deliveries
    )
    buckets = routing.hypercube.buckets_used
    root = PictureNode(
        f"⋈ in {buckets} buckets",
        "engine",
        detail=f"{grid}, {number(routing.bytes_per_s)} B/s",
        inputs=inputs,
    )
    return (PictureTree("hypercube", root),)


def picture_stages(routing: PricedStages, sites: Mapping[str, str]) -> tuple[PictureTree, ...]:
    """The stages of a tree of joins; the edges carry the results from one to the other."""
    made: list[PictureNode] = []
    for number_, stage in enumerate(routing.staged.stages):
        inputs = []
        for delivery in (each for each in routing.deliveries if each.stage == stage_name(number_)):
            flow = f"{number(delivery.bytes_per_s)} B/s"
            if delivery.name in sites:
                inputs.append(PictureNode(delivery.name, sites[delivery.name], is_stream=True, detail=flow))
        for taken in stage.takes:
            named = f"results of {stage_name(taken)}"
            flows = [each.bytes_per_s for each in routing.deliveries if each.name == named]
            inputs.append(replace(made[taken], sent=f"{number(sum(flows))} B/s"))
        by = stage.key.pretty()
        made.append(PictureNode("⋈", "engine", detail=by, inputs=tuple(inputs)))
    return (PictureTree("pipeline", made[-1]),)

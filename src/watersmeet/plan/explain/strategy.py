"""The plan of a strategy in the forms it is shown in: text, JSON and trees to draw."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from watersmeet.plan.explain.picture import (
    PictureTree,
    picture_plan,
    picture_semijoin,
    picture_shares,
    picture_stages,
)
from watersmeet.plan.routing.pipeline_or_shares import (
    PricedPipeline,
    PricedRouting,
    PricedShares,
    PricedStages,
)
from watersmeet.plan.sites.dhtjoin import DhtJoinPlan
from watersmeet.plan.sites.plan_tree import number
from watersmeet.plan.sites.pmjoin.pmjoin import PmjoinPlan
from watersmeet.plan.sites.semijoin.plan import SemijoinPlan
from watersmeet.plan.strategies import StrategyPlan


def strategy_text(plan: StrategyPlan) -> str:
    """The plan for the terminal."""
    match plan:
        case PricedShares(hypercube):
            grid = " x ".join(map(str, hypercube.shares)) or "1"
            return f"1 stage in {grid} buckets (routing below), {number(plan.state_bytes)} bytes of state"
        case PricedPipeline(tree):
            state = f"{number(plan.state_bytes)} bytes of state"
            return f"{len(plan.stages)} stages, {state}\n{tree.pretty()}"
        case PricedStages(staged):
            state = f"{number(plan.state_bytes)} bytes of state"
            return f"{len(staged.stages)} stages, {state}\n{staged.pretty()}"
        case _:
            return plan.pretty()


def strategy_json(plan: StrategyPlan) -> dict[str, Any]:
    """The plan in its documented form."""
    match plan:
        case PmjoinPlan(root=root):
            return root.to_json()
        case PricedShares(hypercube):
            shares = [
                {"attribute": cls.pretty(), "share": share}
                for cls, share in zip(hypercube.graph.classes, hypercube.shares, strict=True)
            ]
            head = {"operator": "shares", "buckets": hypercube.buckets_used, "shares": shares}
            return {**head, **_deliveries(plan)}
        case PricedPipeline(tree):
            return {"operator": "pipeline", "tree": tree.to_json(), **_deliveries(plan)}
        case PricedStages(staged):
            return {"operator": "pipeline", "stages": staged.pretty().split("\n"), **_deliveries(plan)}
        case SemijoinPlan() | DhtJoinPlan():
            return plan.to_json()


def strategy_pictures(plan: StrategyPlan, sites: Mapping[str, str]) -> tuple[PictureTree, ...]:
    """The plan as trees; `sites` are those of the inputs."""
    match plan:
        case PmjoinPlan(root=root) | DhtJoinPlan(root=root):
            return picture_plan(root)
        case SemijoinPlan():
            return picture_semijoin(plan)
        case PricedShares():
            return picture_shares(plan, sites)
        case PricedStages():
            return picture_stages(plan, sites)
        case PricedPipeline(tree):
            return picture_plan(tree)


def _deliveries(routing: PricedRouting) -> dict[str, Any]:
    return {
        "state_bytes": routing.state_bytes,
        "deliveries": [delivery.to_json() for delivery in routing.deliveries],
    }

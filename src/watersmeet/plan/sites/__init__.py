"""Joins over several sites: plan trees, what crosses which link, and the papers' optimizers of it."""

from watersmeet.plan.sites.plan_tree import (
    LinkLoad,
    MJoin,
    PlanNode,
    PMJoin,
    StreamLeaf,
    cost_bytes_per_s,
    links,
)

__all__ = ["LinkLoad", "MJoin", "PMJoin", "PlanNode", "StreamLeaf", "cost_bytes_per_s", "links"]

"""How tuples come to where they meet: by shares, as a pipeline, by rewriting, or by Spark's own joins."""

from watersmeet.plan.routing.decide import decide_routing
from watersmeet.plan.routing.routing import ROUTINGS, Native, Pipeline, Rewrite, Routing, Shares
from watersmeet.plan.routing.shares import Hypercube

__all__ = [
    "ROUTINGS",
    "Hypercube",
    "Native",
    "Pipeline",
    "Rewrite",
    "Routing",
    "Shares",
    "decide_routing",
]

"""One-way joins between sites that ship join values, or a filter of them, before they ship tuples."""

from watersmeet.plan.sites.semijoin.cost import Method
from watersmeet.plan.sites.semijoin.model import SemijoinModel, semijoin_model
from watersmeet.plan.sites.semijoin.plan import SemijoinPlan, SemijoinStep
from watersmeet.plan.sites.semijoin.semijoin import optimize_semijoin, plan_semijoin

__all__ = [
    "Method",
    "SemijoinModel",
    "SemijoinPlan",
    "SemijoinStep",
    "optimize_semijoin",
    "plan_semijoin",
    "semijoin_model",
]

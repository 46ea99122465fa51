"""Plans as text, JSON and pictures; nothing else in the planner imports it."""

from watersmeet.plan.explain.explanation import AUTO, KNOWN_STRATEGIES, Explanation, explain
from watersmeet.plan.explain.physical import explain_plan
from watersmeet.plan.explain.shared_dataflow import explain_dataflow
from watersmeet.plan.explain.sites import SiteExplanation, explain_sites

__all__ = [
    "AUTO",
    "KNOWN_STRATEGIES",
    "Explanation",
    "SiteExplanation",
    "explain",
    "explain_dataflow",
    "explain_plan",
    "explain_sites",
]

"""Plans many queries as one dataflow, so that they share the tuples, joins and state they have in common."""

from watersmeet.plan.multiquery.plan_dataflow import Registered, plan_dataflow, why_beside, why_unfit

__all__ = ["Registered", "plan_dataflow", "why_beside", "why_unfit"]

"""Hot values of a plan as text."""

from __future__ import annotations

import json
from typing import Any

from watersmeet.plan.routing.hot_values import HotClassPlan
from watersmeet.plan.sites.plan_tree import number

SHOWN = 5


def describe_hot_values(plan: HotClassPlan) -> list[str]:
    """What would be spread of one class, or why nothing is."""
    if plan.why_not is not None:
        return [f"{plan.attributes}: stay in one bucket, as {plan.why_not}"]
    if not plan.hot:
        return [f"{plan.attributes}: none by these statistics; watched for while running"]
    lines = [f"{plan.attributes}: {len(plan.hot)} by these statistics"]
    lines += [
        f"  {json.dumps(each.value, ensure_ascii=False)} of {each.spread} ({number(each.rate_per_s)}/s)"
        f" over {plan.cells} buckets, of {', '.join(each.copied)} to each"
        for each in plan.hot[:SHOWN]
    ]
    return [*lines, f"  and {len(plan.hot) - SHOWN} more"] if len(plan.hot) > SHOWN else lines


def hot_values_json(plan: HotClassPlan) -> dict[str, Any]:
    """The same in its documented form."""
    hot = [{**vars(each), "copied": list(each.copied)} for each in plan.hot]
    head = {"attributes": plan.attributes, "places": plan.cells}
    return {**head, "hot": hot, "why_not": plan.why_not}

"""Why a plan lost: how much more it costs, or why its cost cannot be compared."""

from __future__ import annotations

import math

from watersmeet.plan.routing.pipeline_or_shares import SAME, PricedRouting
from watersmeet.plan.sites.plan_tree import number
from watersmeet.plan.strategies import LINK_UNIT, Priced

COUNTS = {
    "bytes/s": "counts bytes between sites",
    "shuffled bytes/s": "counts bytes shuffled inside one cluster",
    "tuples/s": "counts partial results sent around a ring of peers",
    "s/s": "counts seconds of transfer and processing a second",
}


def why_not(other: Priced, chosen: Priced, *, asked_for: bool) -> str:
    """The reason one plan was not chosen; with `asked_for`, the other was named and nothing was compared."""
    if other.unit != chosen.unit:
        return _not_comparable(other, chosen)
    if other.routing and chosen.routing:
        compared = _compare_routings(other.routing, chosen.routing)
        if compared.endswith("the same") and not asked_for:
            compared += f"; a tie goes to {chosen.strategy}"
    elif not other.is_partitioned and other.strategy == "pmjoin":
        compared = "finds nothing to partition: the plan is the distributed one, at the same cost"
        if not math.isclose(other.cost, chosen.cost):
            compared = f"finds nothing to partition; {_ratio('costs', other.cost, chosen.cost)}"
    else:
        compared = _ratio("costs", other.cost, chosen.cost)
        if math.isclose(other.cost, chosen.cost) and not asked_for:
            compared += f"; {chosen.strategy} is the simpler plan"
    return f"not asked for; {compared}" if asked_for else compared


def _not_comparable(other: Priced, chosen: Priced) -> str:
    reason = f"not compared: {COUNTS[other.unit]}, not {chosen.unit}"
    if chosen.unit == LINK_UNIT and other.strategy != "dhtjoin":  # a ring's links are not between sites
        shipped = other.linked_bytes_per_s
        comparison = _ratio("ships", shipped, chosen.cost)
        return f"{reason}; it {comparison} ({number(shipped)} bytes/s)"
    return reason


def _compare_routings(other: PricedRouting, chosen: PricedRouting) -> str:
    """What the engine would move and keep."""
    moved, least = other.bytes_per_s, chosen.bytes_per_s
    kept, state = other.state_bytes, chosen.state_bytes
    if math.isclose(moved, least, rel_tol=SAME) and math.isclose(kept, state, rel_tol=SAME):
        return "moves and keeps the same"
    return f"{_ratio('moves', moved, least)} and {_ratio('keeps', kept, state, of='state')}"


def _ratio(verb: str, cost: float, least: float, of: str = "") -> str:
    what = f" {of}" if of else ""
    if math.isclose(cost, least, rel_tol=1e-9):
        return f"{verb} the same{what}"
    if least == 0:
        return f"{verb} {number(cost)}{what} where the chosen plan has none"
    if cost < least:
        return f"{verb} {number(least / cost)} times less{what}" if cost else f"{verb} nothing{what}"
    return f"{verb} {number(cost / least)} times as much{what}"

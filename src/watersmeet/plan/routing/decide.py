"""Which way of routing the engine takes for a query, and why."""

from __future__ import annotations

from dataclasses import dataclass

from watersmeet.errors import ConfigurationError
from watersmeet.plan.multiquery.plan_dataflow import why_unfit
from watersmeet.plan.routing.pipeline import plan_pipeline
from watersmeet.plan.routing.pipeline_or_shares import Routing, choose_routing, price_pipeline, price_shares
from watersmeet.plan.routing.rewriting import plan_rewriting
from watersmeet.plan.sites.plan_tree import number
from watersmeet.plan.statistics.statistics import Statistics
from watersmeet.query import Query
from watersmeet.query.shared_dataflow import SharedDataflow

ROUTINGS = ("shares", "pipeline", "rewrite", "native")

WORTH = 2  # times fewer bytes: every level of a pipeline is a stage more, whose fixed cost each batch pays


@dataclass(frozen=True)
class ChosenRouting:
    """A pipeline to run, or one of all ways to rewrite, Spark's own joins, or neither for shares, and why."""

    pipeline: SharedDataflow | None
    reason: str
    is_native: bool = False
    rewrites: bool = False


def decide_routing(
    query: Query, statistics: Statistics, partitions: int, wanted: str | None
) -> ChosenRouting:
    """The routing that is wanted, or with None the one that `pipeline_or_shares` takes by cost."""
    if wanted is None:
        return _by_cost(query, statistics, partitions)
    if wanted not in ROUTINGS:
        raise ConfigurationError(f"no routing '{wanted}': choose one of {', '.join(ROUTINGS)}")
    if wanted == "rewrite":
        return ChosenRouting(plan_rewriting(query, statistics), "asked for", rewrites=True)
    pipeline = plan_pipeline(query, statistics=statistics) if wanted == "pipeline" else None
    return ChosenRouting(pipeline, "asked for", wanted == "native")


def _by_cost(query: Query, statistics: Statistics, partitions: int) -> ChosenRouting:
    unfit = why_unfit(query)
    if unfit is not None:
        return ChosenRouting(None, f"a pipeline cannot take the query: {unfit}")
    pipeline = plan_pipeline(query, statistics=statistics)
    if pipeline.levels == 1:
        return ChosenRouting(None, "one stage either way")
    shares, piped = price_shares(query, statistics, partitions), price_pipeline(query, statistics)
    if WORTH * piped.bytes_per_s <= shares.bytes_per_s and choose_routing(shares, piped) is piped:
        return ChosenRouting(pipeline, _compared(piped, shares))
    return ChosenRouting(None, _compared(shares, piped))


def _compared(best: Routing, other: Routing) -> str:
    return (
        f"moves {number(best.bytes_per_s)} bytes/s and keeps {number(best.state_bytes)} bytes, where "
        f"{other.strategy} moves {number(other.bytes_per_s)} and keeps {number(other.state_bytes)}"
    )

"""Which way of routing the engine takes for a query, and why."""

from __future__ import annotations

from watersmeet.errors import ConfigurationError
from watersmeet.plan.multiquery.plan_dataflow import why_unfit
from watersmeet.plan.routing.hot_values import plan_hot_values
from watersmeet.plan.routing.pipeline import plan_pipeline
from watersmeet.plan.routing.pipeline_or_shares import (
    PricedRouting,
    choose_routing,
    price_pipeline,
    price_shares,
)
from watersmeet.plan.routing.rewriting import plan_rewriting
from watersmeet.plan.routing.routing import ROUTINGS, Native, Pipeline, Rewrite, Routing, Shares
from watersmeet.plan.routing.shares import plan_shares
from watersmeet.plan.routing.tree import route_tree
from watersmeet.plan.sites.plan_tree import number
from watersmeet.plan.statistics.statistics import Statistics
from watersmeet.query import Query

LEAST_RATIO = (
    2  # times fewer bytes: every level of a pipeline is a stage more, whose fixed cost each batch pays
)
ASKED_FOR = "asked for"


def decide_routing(query: Query, statistics: Statistics, partitions: int, wanted: str | None) -> Routing:
    """The routing that is wanted, or with None shares or a pipeline, whichever costs less."""
    if query.tree is not None:
        return route_tree(query, query.tree, statistics, partitions, wanted)
    match wanted:
        case None:
            return _by_cost(query, statistics, partitions)
        case Shares.name:
            return _by_shares(query, statistics, partitions, ASKED_FOR)
        case Pipeline.name:
            return Pipeline(plan_pipeline(query, statistics=statistics), ASKED_FOR)
        case Rewrite.name:
            return Rewrite(plan_rewriting(query, statistics), ASKED_FOR)
        case Native.name:
            return Native(ASKED_FOR)
        case _:
            raise ConfigurationError(f"no routing '{wanted}': choose one of {', '.join(ROUTINGS)}")


def _by_shares(query: Query, statistics: Statistics, partitions: int, reason: str) -> Shares:
    hypercube = plan_shares(query, statistics, partitions)
    return Shares(hypercube, reason, plan_hot_values(query, hypercube, statistics))


def _by_cost(query: Query, statistics: Statistics, partitions: int) -> Routing:
    unfit = why_unfit(query)
    if unfit is not None:
        reason = f"a pipeline cannot take the query: {unfit}"
        return _by_shares(query, statistics, partitions, reason)
    pipeline = plan_pipeline(query, statistics=statistics)
    if pipeline.levels == 1:
        return _by_shares(query, statistics, partitions, "one stage either way")
    shares, piped = price_shares(query, statistics, partitions), price_pipeline(query, statistics)
    if LEAST_RATIO * piped.bytes_per_s <= shares.bytes_per_s and choose_routing(shares, piped) is piped:
        return Pipeline(pipeline, _compared(piped, shares))
    return _by_shares(query, statistics, partitions, _compared(shares, piped))


def _compared(best: PricedRouting, other: PricedRouting) -> str:
    return (
        f"moves {number(best.bytes_per_s)} bytes/s and keeps {number(best.state_bytes)} bytes, where "
        f"{other.strategy} moves {number(other.bytes_per_s)} and keeps {number(other.state_bytes)}"
    )

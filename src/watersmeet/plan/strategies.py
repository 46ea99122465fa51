"""Every strategy the planner knows, priced for one query in the strategy's own unit, and the cheapest.

Costs compare only within a unit. `bytes/s` is what crosses the links between sites; `shuffled bytes/s` is
what the engine's exchange carries inside one cluster; `tuples/s` are DHTJoin's partial results on a ring;
`s/s` are the semijoin paper's seconds of transfer and processing per second of stream.

`cheapest` compares like with like. Where the streams are at different sites, the strategies that are priced
in bytes/s between sites compete, the simpler one wins a tie. Where all are at one site, nothing is shipped,
and the engine's two ways of routing compete (`pipeline_or_shares`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from watersmeet.errors import ConfigurationError
from watersmeet.plan.routing.pipeline_or_shares import (
    PricedPipeline,
    PricedRouting,
    PricedShares,
    choose_routing,
    price_hypercube,
    price_pipeline,
    price_shares,
)
from watersmeet.plan.routing.price_stages import price_stages
from watersmeet.plan.routing.routing import TreePipeline
from watersmeet.plan.routing.tree import route_tree
from watersmeet.plan.sites.dhtjoin import DhtJoinPlan, optimize_dhtjoin
from watersmeet.plan.sites.plan_tree import LinkLoad, MJoin, operators
from watersmeet.plan.sites.pmjoin.pmjoin import PmjoinPlan, plan_centralized, plan_distributed, plan_pmjoin
from watersmeet.plan.sites.semijoin.plan import SemijoinPlan
from watersmeet.plan.sites.semijoin.semijoin import plan_semijoin
from watersmeet.plan.statistics.rate_model import RateModel, rate_model
from watersmeet.plan.statistics.statistics import DEFAULT_SITE, Statistics
from watersmeet.query import Query

LINK_UNIT = "bytes/s"
SHUFFLE_UNIT = "shuffled bytes/s"
PMJOIN_PARTITIONS = 100

StrategyPlan = PmjoinPlan | SemijoinPlan | DhtJoinPlan | PricedRouting


@dataclass(frozen=True)
class Planning:
    """What is planned: a query under statistics, for so many buckets of the engine and parts of a PMJoin."""

    query: Query
    statistics: Statistics
    buckets: int
    pmjoin_partitions: int

    @cached_property
    def rates(self) -> RateModel:
        return rate_model(self.query, self.statistics)

    @property
    def sites(self) -> dict[str, str]:
        """The site of every input."""
        return {source.alias: source.site for source in self.rates.sources}

    @property
    def has_sites(self) -> bool:
        return len(set(self.sites.values())) > 1


@dataclass(frozen=True)
class Term:
    """A part of a plan's cost, in the plan's unit."""

    name: str
    cost: float


@dataclass(frozen=True, kw_only=True)
class Priced:
    """The plan of one strategy with its cost."""

    strategy: str
    cost: float
    unit: str
    terms: tuple[Term, ...]
    links: tuple[LinkLoad, ...]
    plan: StrategyPlan

    @property
    def routing(self) -> PricedRouting | None:
        """The plan, where it is one of the engine's own."""
        return self.plan if isinstance(self.plan, PricedRouting) else None

    @property
    def is_partitioned(self) -> bool:
        return isinstance(self.plan, PmjoinPlan) and bool(self.plan.partitions)

    @property
    def linked_bytes_per_s(self) -> float:
        """What all links carry together."""
        return sum(load.bytes_per_s for load in self.links)


def price_all(planning: Planning, strategy: str) -> tuple[dict[str, Priced], dict[str, str]]:
    """The plans to compare when `strategy` is asked for, and the strategies that cannot take the query."""
    between_sites = planning.has_sites or strategy in SITE_STRATEGIES
    priced: dict[str, Priced] = {}
    refused: dict[str, str] = {}
    for name, price in STRATEGIES.items():
        if name in SITE_STRATEGIES and not between_sites:
            continue
        try:
            plan = price(planning)
        except ConfigurationError as error:
            refused[name] = str(error)
            continue
        if not math.isfinite(plan.cost):
            raise ConfigurationError(
                f"the cost by {name} is beyond any number: are the rates and windows real?"
            )
        priced[name] = plan
    return priced, refused


def cheapest(planning: Planning, priced: dict[str, Priced]) -> Priced:
    """The winner among plans of one unit; on a tie the first, as `STRATEGIES` lists simpler plans first."""
    if planning.has_sites:
        rivals = [plan for plan in priced.values() if plan.unit == LINK_UNIT]
        least = min(plan.cost for plan in rivals)
        return next(plan for plan in rivals if math.isclose(plan.cost, least, rel_tol=1e-9))
    shares, pipeline = (priced[name].plan if name in priced else None for name in ENGINE_STRATEGIES)
    if isinstance(shares, PricedShares) and isinstance(pipeline, PricedPipeline):
        return priced[choose_routing(shares, pipeline).strategy]
    return priced["shares"]


def _centralized(planning: Planning) -> Priced:
    return _between_sites(plan_centralized(planning.query, planning.statistics))


def _distributed(planning: Planning) -> Priced:
    return _between_sites(plan_distributed(planning.query, planning.statistics))


def _pmjoin(planning: Planning) -> Priced:
    return _between_sites(
        plan_pmjoin(planning.query, planning.statistics, partitions=planning.pmjoin_partitions)
    )


def _between_sites(plan: PmjoinPlan) -> Priced:
    return Priced(
        strategy=plan.strategy,
        cost=plan.cost_bytes_per_s,
        unit=LINK_UNIT,
        terms=tuple(Term(term.name, term.bytes_per_s) for term in plan.terms),
        links=plan.links,
        plan=plan,
    )


def _semijoin(planning: Planning) -> Priced:
    plan = plan_semijoin(planning.query, planning.statistics)
    spent: dict[str, float] = {}
    for term in (term for step in plan.steps for term in step.cost.terms):
        spent[term.activity] = spent.get(term.activity, 0.0) + term.seconds_per_s
    return Priced(
        strategy="semijoin",
        cost=plan.cost,
        unit=plan.unit,
        terms=tuple(Term(activity, seconds) for activity, seconds in spent.items()),
        links=plan.links(),
        plan=plan,
    )


def _dhtjoin(planning: Planning) -> Priced:
    plan = optimize_dhtjoin(planning.query.graph, planning.rates)
    joins = [node for node in operators(plan.root) if isinstance(node, MJoin)]
    sent = tuple(
        Term(f"send on {child.name} to {join.site}", child.rate_per_s)
        for join in joins
        for child in join.inputs
        if isinstance(child, MJoin)
    )
    return Priced(
        strategy="dhtjoin", cost=plan.cost, unit=plan.unit, terms=sent, links=plan.links(), plan=plan
    )


def _shares(planning: Planning) -> Priced:
    return _in_the_engine(planning, price_shares(planning.query, planning.statistics, planning.buckets))


def price_tree(planning: Planning, wanted: str | None) -> Priced:
    """The plan for outer, semi and anti joins: all that decides about each other in one bucket of a stage.

    `wanted` is shares or pipeline; None leaves the choice to the planner.
    """
    query, statistics = planning.query, planning.statistics
    assert query.tree is not None
    routing = route_tree(query, query.tree, statistics, planning.buckets, wanted)
    if isinstance(routing, TreePipeline):
        return _in_the_engine(planning, price_stages(query, statistics, routing.staged))
    return _in_the_engine(planning, price_hypercube(query, statistics, routing.hypercube))


def _pipeline(planning: Planning) -> Priced:
    return _in_the_engine(planning, price_pipeline(planning.query, planning.statistics))


def _in_the_engine(planning: Planning, routing: PricedRouting) -> Priced:
    """The engine brings every stream to its own cluster, where streams without a site are already."""
    shuffled = tuple(
        Term(
            f"shuffle {delivery.name} to {delivery.stage}"
            + (f" in {delivery.copies} copies" if delivery.copies > 1 else ""),
            delivery.bytes_per_s,
        )
        for delivery in routing.deliveries
    )
    brought = tuple(
        LinkLoad(source.site, DEFAULT_SITE, source.alias, source.rate_per_s * source.tuple_bytes)
        for source in planning.rates.sources
        if planning.has_sites and source.site != DEFAULT_SITE
    )
    return Priced(
        strategy=routing.strategy,
        cost=routing.bytes_per_s,
        unit=SHUFFLE_UNIT,
        terms=shuffled,
        links=brought,
        plan=routing,
    )


STRATEGIES: dict[str, Callable[[Planning], Priced]] = {  # simpler plans first, which win a tie
    "centralized": _centralized,
    "distributed": _distributed,
    "pmjoin": _pmjoin,
    "semijoin": _semijoin,
    "dhtjoin": _dhtjoin,
    "shares": _shares,
    "pipeline": _pipeline,
}
SITE_STRATEGIES = ("centralized", "distributed", "pmjoin", "semijoin")
ENGINE_STRATEGIES = ("shares", "pipeline")

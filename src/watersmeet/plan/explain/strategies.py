"""Every strategy that `explain` knows, priced for one query in the strategy's own unit.

Costs compare only within a unit. `bytes/s` is what crosses the links between sites; `shuffled bytes/s` is
what the engine's exchange carries inside one cluster; `tuples/s` are DHTJoin's partial results on a ring;
`s/s` are the semijoin paper's seconds of transfer and processing per second of stream.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from watersmeet.plan.explain.picture import PictureTree, picture_plan, picture_semijoin, picture_shares
from watersmeet.plan.routing.pipeline_or_shares import Routing, price_pipeline, price_shares
from watersmeet.plan.sites.dhtjoin import optimize_dhtjoin
from watersmeet.plan.sites.plan_tree import LinkLoad, MJoin, number, operators
from watersmeet.plan.sites.pmjoin.pmjoin import PmjoinPlan, plan_centralized, plan_distributed, plan_pmjoin
from watersmeet.plan.sites.semijoin.semijoin import plan_semijoin
from watersmeet.plan.statistics.rate_model import RateModel, rate_model
from watersmeet.plan.statistics.statistics import DEFAULT_SITE, Statistics
from watersmeet.query import Query

LINK_UNIT = "bytes/s"
SHUFFLE_UNIT = "shuffled bytes/s"
PMJOIN_PARTITIONS = 100


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


@dataclass(frozen=True)
class Priced:
    """A plan by one strategy, in every form it is shown in."""

    strategy: str
    cost: float
    unit: str
    terms: tuple[Term, ...]
    links: tuple[LinkLoad, ...]
    plan: dict[str, Any]
    text: str
    pictures: tuple[PictureTree, ...]
    routing: Routing | None = None
    is_partitioned: bool = False

    @property
    def linked_bytes_per_s(self) -> float:
        """What all links carry together."""
        return sum(load.bytes_per_s for load in self.links)


def price(strategy: str, planning: Planning) -> Priced:
    """The plan of one strategy; a strategy that cannot take the query raises a ConfigurationError."""
    return STRATEGIES[strategy](planning)


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
        plan.strategy,
        plan.cost_bytes_per_s,
        LINK_UNIT,
        tuple(Term(term.name, term.bytes_per_s) for term in plan.terms),
        plan.links,
        plan.root.to_json(),
        plan.pretty(),
        picture_plan(plan.root),
        is_partitioned=bool(plan.partitions),
    )


def _semijoin(planning: Planning) -> Priced:
    plan = plan_semijoin(planning.query, planning.statistics)
    spent: dict[str, float] = {}
    for term in (term for step in plan.steps for term in step.cost.terms):
        spent[term.activity] = spent.get(term.activity, 0.0) + term.seconds_per_s
    return Priced(
        "semijoin",
        plan.cost,
        plan.unit,
        tuple(Term(activity, seconds) for activity, seconds in spent.items()),
        plan.links(),
        plan.to_json(),
        plan.pretty(),
        picture_semijoin(plan),
    )


def _dhtjoin(planning: Planning) -> Priced:
    plan = optimize_dhtjoin(planning.query.graph, planning.rates)
    joins = [node for node in operators(plan.root) if isinstance(node, MJoin)]
    sent = [
        Term(f"send on {child.name} to {join.site}", child.rate_per_s)
        for join in joins
        for child in join.inputs
        if isinstance(child, MJoin)
    ]
    return Priced(
        "dhtjoin",
        plan.cost,
        plan.unit,
        tuple(sent),
        plan.links(),
        plan.to_json(),
        plan.pretty(),
        picture_plan(plan.root),
    )


def _shares(planning: Planning) -> Priced:
    routing = price_shares(planning.query, planning.statistics, planning.buckets)
    assert routing.shares is not None
    plan = {
        "operator": "shares",
        "buckets": routing.shares.buckets_used,
        "shares": [
            {"attribute": cls.pretty(), "share": share}
            for cls, share in zip(planning.query.graph.classes, routing.shares.shares, strict=True)
        ],
        **_routing_json(routing),
    }
    grid = " x ".join(map(str, routing.shares.shares)) or "1"
    text = f"1 stage in {grid} buckets (routing below), {number(routing.state_bytes)} bytes of state"
    return _in_the_engine(planning, routing, plan, text, picture_shares(routing, planning.sites))


def _pipeline(planning: Planning) -> Priced:
    routing = price_pipeline(planning.query, planning.statistics)
    assert routing.tree is not None
    plan = {"operator": "pipeline", "tree": routing.tree.to_json(), **_routing_json(routing)}
    text = (
        f"{len(routing.stages)} stages, {number(routing.state_bytes)} bytes of state\n{routing.tree.pretty()}"
    )
    return _in_the_engine(planning, routing, plan, text, picture_plan(routing.tree))


def _routing_json(routing: Routing) -> dict[str, Any]:
    return {
        "state_bytes": routing.state_bytes,
        "deliveries": [delivery.to_json() for delivery in routing.deliveries],
    }


def _in_the_engine(
    planning: Planning, routing: Routing, plan: dict[str, Any], text: str, pictures: tuple[PictureTree, ...]
) -> Priced:
    """The engine gathers every stream in its own cluster, where streams without a site are already."""
    terms = [
        Term(
            f"shuffle {delivery.name} to {delivery.stage}"
            + (f" in {delivery.copies} copies" if delivery.copies > 1 else ""),
            delivery.bytes_per_s,
        )
        for delivery in routing.deliveries
    ]
    gathered = tuple(
        LinkLoad(source.site, DEFAULT_SITE, source.alias, source.rate_per_s * source.tuple_bytes)
        for source in planning.rates.sources
        if planning.has_sites and source.site != DEFAULT_SITE
    )
    return Priced(
        routing.strategy,
        routing.bytes_per_s,
        SHUFFLE_UNIT,
        tuple(terms),
        gathered,
        plan,
        text,
        pictures,
        routing,
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

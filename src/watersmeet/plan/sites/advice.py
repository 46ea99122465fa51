"""Advice on sites: every placement and method priced in bytes, and what would cross each link.

For streams that arrive at different sites, the ways to join them that this project knows are priced in the
one unit a link is paid in: bytes a second, and bytes a month of thirty days.

    simple       all streams go to one site; one placement for each site
    distributed  joins at several sites, whole streams (PMJoin's Algorithm 1, and the best plan)
    pmjoin       streams partitioned by value, by hash, range and rate (plan/sites/pmjoin/pmjoin.py)
    semijoin     one-way joins that ship join values first (plan/sites/semijoin/semijoin.py): the best mix of
                 all methods, along sequences and along a tree, and mixes of a few methods

The cheapest is advised; of plans that are as good as equal, within `AS_CHEAP`, the simplest, as a prediction
is no better than that. Semijoin plans are optimized for bytes here (plan/sites/semijoin/fewest_bytes.py),
and priced by all that their protocols ship.

Example: two streams of 100 and 10 bytes/s at paris and oslo: simple, all at paris, 10 bytes/s, 25.92 MB a
month.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from watersmeet.errors import ConfigurationError
from watersmeet.plan.sites.plan_tree import LinkLoad, PlanNode, PMJoin, links, operators
from watersmeet.plan.sites.pmjoin.exhaustive import EXHAUSTIVE_LIMIT
from watersmeet.plan.sites.pmjoin.heuristic import join, source_operands
from watersmeet.plan.sites.pmjoin.pmjoin import partitioned_plan, unpartitioned_plan
from watersmeet.plan.sites.semijoin.cost import ALL_METHODS, Method, ProcessingCosts
from watersmeet.plan.sites.semijoin.fewest_bytes import StepPrices, fewest_bytes
from watersmeet.plan.sites.semijoin.model import DEFAULT_INTERVAL_S, SemijoinModel, semijoin_model
from watersmeet.plan.sites.semijoin.plan import Ordering, SemijoinPlan
from watersmeet.plan.sites.stream_partition import PARTITIONINGS
from watersmeet.plan.statistics.given_values import given_as_values
from watersmeet.plan.statistics.rate_model import RateModel, rate_model
from watersmeet.plan.statistics.statistics import Statistics
from watersmeet.query import Query

SITE_PARTITIONS = 100
AS_CHEAP = 1.05  # a plan must save more than this to be worth more trouble
METHODS = ("simple", "distributed", "pmjoin", "semijoin")  # simpler ones first, which win a tie
FAMILIES = (
    (Method.SP_S, Method.SP_D),
    (Method.SM_S1, Method.SM_D1),
    (Method.SM_S1, Method.SM_D2),
    (Method.SM_S2, Method.SM_D2),
    (Method.SM_S1, Method.SM_B),
)

SitePlan = PlanNode | SemijoinPlan


@dataclass(frozen=True)
class SiteOption:
    """One way to join streams that are at different sites."""

    method: str  # simple, distributed, pmjoin or semijoin
    detail: str
    plan: SitePlan
    loads: tuple[LinkLoad, ...]
    model: SemijoinModel | None = field(default=None, repr=False, compare=False)  # of a semijoin plan

    @property
    def name(self) -> str:
        return f"{self.method}, {self.detail}"

    @property
    def bytes_per_s(self) -> float:
        return math.fsum(load.bytes_per_s for load in self.loads)

    @property
    def answer_sites(self) -> tuple[str, ...]:
        """The sites at which answers are found."""
        if isinstance(self.plan, SemijoinPlan):
            return self.plan.answer_sites
        if isinstance(self.plan, PMJoin):
            return tuple(dict.fromkeys(part.plan.site for part in self.plan.partitions))
        return (self.plan.site,)

    def by_link(self) -> dict[tuple[str, str], float]:
        """bytes/s over each link, all streams together."""
        carried: dict[tuple[str, str], float] = {}
        for load in self.loads:
            way = (load.source, load.target)
            carried[way] = carried.get(way, 0.0) + load.bytes_per_s
        return carried


@dataclass(frozen=True)
class SiteAdvice:
    """All options for one query, the cheapest first: what is advised, and the best simple one beside it."""

    query: Query
    sites: dict[str, str]  # of every input
    options: tuple[SiteOption, ...]
    interval_s: float  # at which semijoin plans exchange values

    @property
    def chosen(self) -> SiteOption:
        """Of the options about as cheap as the cheapest the simplest."""
        least = self.options[0].bytes_per_s
        near = [option for option in self.options if option.bytes_per_s <= least * AS_CHEAP]
        return min(near, key=lambda option: METHODS.index(option.method))

    @property
    def baseline(self) -> SiteOption:
        """Simple shipping at its best."""
        return next(option for option in self.options if option.method == "simple")


def advise_sites(
    query: Query,
    statistics: Statistics,
    *,
    partitions: int = SITE_PARTITIONS,
    interval_s: float = DEFAULT_INTERVAL_S,
    statistics_command: str = "watersmeet analyze FILE.sql",
) -> SiteAdvice:
    """Every option for a query whose streams are at different sites.

    Of a query with DISTINCT or aggregates those that find all answers at one site, where they come together.
    """
    _check(query, statistics, statistics_command)
    model = rate_model(query, statistics)
    options = [*_simple(model), *_distributed(model), *_partitioned(model, partitions)]
    options += _semijoins(query, statistics, interval_s)
    if query.combines_answers:
        options = [option for option in options if len(option.answer_sites) == 1]
    options.sort(key=lambda option: (float(f"{option.bytes_per_s:.9g}"), METHODS.index(option.method)))
    sites = {source.alias: source.site for source in model.sources}
    return SiteAdvice(query, sites, tuple(options), interval_s)


def _check(query: Query, statistics: Statistics, command: str) -> None:
    """Refuse what cannot be priced, with what to do about it."""
    if len(query.inputs) < 2:
        raise ConfigurationError("--sites is for joins: this query reads one stream")
    if query.tree is not None:
        raise ConfigurationError("--sites is for inner joins: this query has outer, semi or anti joins")
    unplaced = [s.name for s in query.streams if not (statistics.stream(s.name).site or s.site)]
    if len(unplaced) == len(query.streams):
        raise ConfigurationError(
            f"no stream of the query has a site: declare where {', '.join(unplaced)} arrive,"
            " WITH (..., site = 'paris')"
        )
    if unplaced:
        raise ConfigurationError(
            f"stream {', '.join(unplaced)} has no site, the others have: declare WITH (..., site = 'paris')"
        )
    sites = {statistics.site(item) for item in query.inputs}
    if len(sites) == 1:
        raise ConfigurationError(
            f"all streams are at one site, {sites.pop()}: nothing crosses a link; `watersmeet explain`"
            " without --sites shows how the engine joins them"
        )
    known = {name.lower() for name in statistics.streams}
    missing = [stream.name for stream in query.streams if stream.name.lower() not in known]
    if missing:
        raise ConfigurationError(
            f"no statistics for {', '.join(missing)}, and links are priced by measured rates: run `{command}`"
            " first, or name a file with --stats"
        )


def _option(method: str, detail: str, plan: PlanNode) -> SiteOption:
    return SiteOption(method, detail, plan, links(plan))


def _simple(model: RateModel) -> Iterator[SiteOption]:
    """All streams to one site, for each site."""
    operands = source_operands(model)
    for site in dict.fromkeys(source.site for source in model.sources):
        inputs = sorted(operands, key=lambda operand: (operand.site == site, operand.bytes_per_s))
        yield _option("simple", f"all at {site}", join(model, inputs, site).node)


def _distributed(model: RateModel) -> Iterator[SiteOption]:
    yield _option("distributed", "Algorithm 1", unpartitioned_plan(model))
    if len(model.sources) <= EXHAUSTIVE_LIMIT:
        yield _option("distributed", "best plan", unpartitioned_plan(model, "optimal"))


def _partitioned(model: RateModel, partitions: int) -> Iterator[SiteOption]:
    """PMJoin by every partitioning; left out where there is nothing to partition."""
    for kind in PARTITIONINGS:
        plan = partitioned_plan(model, partitions, kind)
        parts = sum(len(node.partitions) for node in operators(plan) if isinstance(node, PMJoin))
        if parts:
            yield _option("pmjoin", f"by {kind}, {parts} partitions", plan)


def shipping_model(query: Query, statistics: Statistics, interval_s: float) -> SemijoinModel:
    """The semijoin model that counts every byte shipped, and nothing else."""
    free = ProcessingCosts(0.0, 0.0, 0.0, 0.0)
    known = given_as_values(query, statistics)
    return semijoin_model(
        query, known, interval_s=interval_s, costs=free, methods=ALL_METHODS, reading="shipped"
    )


def _semijoins(query: Query, statistics: Statistics, interval_s: float) -> Iterator[SiteOption]:
    prices = StepPrices(shipping_model(query, statistics, interval_s))
    orderings: tuple[Ordering, ...] = ("linear", "tree")
    for ordering in orderings:
        plan = fewest_bytes(prices, ALL_METHODS, ordering)
        used = ", ".join(
            method.value for method in Method if any(step.method is method for step in plan.steps)
        )
        yield SiteOption("semijoin", f"{ordering}, any method ({used})", plan, plan.links(), prices.model)
    for methods in FAMILIES:
        plan = fewest_bytes(prices, methods)
        names = " and ".join(method.value for method in methods)
        yield SiteOption("semijoin", f"linear, {names} only", plan, plan.links(), prices.model)

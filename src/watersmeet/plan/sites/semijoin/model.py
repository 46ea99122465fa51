"""A query as the semijoin optimizer sees it: streams at sites, and what their partial joins look like.

The paper describes a stream by rate r, window w, tuple size F, key size P and selectivity factor f = 1 / d,
and prices a partial join like a stream (Tran and Lee 2010, section 4.1). Readings taken:

- The rate of a partial join with head S_i is r_i times the product of the other windows and of the join
  selectivities, as printed; the product makes it a function of the set joined, not of the order.
- Its tuples are as long as their parts together, unless the statistics fix the size of a result.
- A join keeps the values both sides have, and the smaller set of values lies in the larger (Table 4's
  assumption for f_ij), so a class has as many values in the result as in its poorest member.
- Selectivities come from the rate model, so given ones, heavy hitters and histograms count; numbers of
  distinct values are taken as they stand.
- A model has one of two readings: the paper's formulas as `printed` (cost.py), or what is `shipped`
  (shipped.py).
- Where a stream meets a partial join on several classes, the key is their combination: the numbers of
  values multiply, the key sizes add up.

Example: R(a) at 10/s, S(a) with 100 tuples in its window, both with 50 values of a: R joined to S flows at
10 * 100 / 50 = 20/s.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Literal

from watersmeet.errors import ConfigurationError
from watersmeet.plan.sites.semijoin.cost import (
    PAPER_METHODS,
    JoinCost,
    JoinSide,
    Method,
    OneWayJoin,
    ProcessingCosts,
    cheapest_method,
)
from watersmeet.plan.sites.semijoin.values import FlowValues, ValueModel
from watersmeet.plan.statistics.join_attribute import JoinAttribute
from watersmeet.plan.statistics.rate_model import RateModel, Source, rate_model
from watersmeet.plan.statistics.statistics import (
    AttributeStatistics,
    Link,
    Network,
    Statistics,
    attribute_name,
)
from watersmeet.plan.statistics.value_groups import align
from watersmeet.query import JoinGraph, Query, Window

DEFAULT_INTERVAL_S = 0.1  # tau, as in the paper's experiments
PAPER_LINK = Link(bytes_per_s=128_000.0, latency_s=0.025)  # 1024 Kbps and 25 ms, section 5.2

Reading = Literal["printed", "shipped"]  # the paper's formulas and vectors, or ours
Selectivity = Callable[[frozenset[str]], float]
PricedKey = tuple[frozenset[str], frozenset[str], Link, Link, str | None]


@dataclass(frozen=True)
class SiteStream:
    """One input of the query at its site; values and key sizes by attribute class index."""

    alias: str
    site: str
    _: KW_ONLY
    rate_per_s: float
    window_tuples: float
    tuple_bytes: float
    distinct: Mapping[int, float]
    key_bytes: Mapping[int, float]
    window: Window | None = None  # None: one of a time, by its tuples and the rate


@dataclass(frozen=True)
class SemijoinModel:
    """All the optimizer asks: the join graph, the streams, the network, and how selective joins are."""

    graph: JoinGraph
    streams: tuple[SiteStream, ...]  # in FROM order
    _: KW_ONLY
    network: Network = field(default_factory=lambda: Network(default=PAPER_LINK))
    interval_s: float = DEFAULT_INTERVAL_S
    costs: ProcessingCosts = field(default_factory=ProcessingCosts)
    selectivity: Selectivity | None = None  # of a joined set; None takes the values as uniform
    result_tuple_bytes: float | None = None  # None: a joined tuple is as long as its parts together
    methods: tuple[Method, ...] = PAPER_METHODS  # those to choose from
    reading: Reading = "printed"
    rates: RateModel | None = None  # value by value; None takes the values of every class as uniform

    def __post_init__(self) -> None:
        if tuple(stream.alias for stream in self.streams) != self.graph.aliases:
            raise ValueError("the model must describe the join graph's inputs in order")
        if len({method.output_at_source for method in self.methods}) < 2:
            raise ConfigurationError("the methods to choose from need one with its output at either end")
        by_alias = {stream.alias: stream for stream in self.streams}
        near = {alias: frozenset(self.graph.neighbours(alias)) for alias in self.graph.aliases}
        object.__setattr__(self, "_by_alias", by_alias)
        object.__setattr__(self, "_near", near)
        object.__setattr__(self, "_priced", {})
        rates = self.rates if self.rates is not None or self.reading == "printed" else self._uniform_rates()
        windows = [stream.window for stream in self.streams]
        object.__setattr__(self, "_values", ValueModel(rates, windows) if rates else None)

    _by_alias: Mapping[str, SiteStream] = field(init=False, repr=False, compare=False)
    _near: Mapping[str, frozenset[str]] = field(init=False, repr=False, compare=False)
    # A search asks for the same join once per site its sides may be at; most links are alike.
    _priced: dict[PricedKey, dict[bool, JoinCost]] = field(init=False, repr=False, compare=False)
    _values: ValueModel | None = field(init=False, repr=False, compare=False)

    def _uniform_rates(self) -> RateModel:
        """The rate model of streams of whose values only the number is known."""
        sources = [
            Source.of(s.alias, s.site, s.rate_per_s, s.window_tuples, s.tuple_bytes) for s in self.streams
        ]
        attributes = []
        for index, cls in enumerate(self.graph.classes):
            members = tuple(self.graph.aliases.index(alias) for alias in cls.aliases)
            known = [(AttributeStatistics(self.stream(a).distinct[index]), 1.0) for a in cls.aliases]
            attributes.append(JoinAttribute(cls.pretty(), members, align(known)))
        return RateModel(sources, attributes, self.result_tuple_bytes)

    def stream(self, alias: str) -> SiteStream:
        return self._by_alias[alias]

    def reachable(self, joined: frozenset[str]) -> tuple[str, ...]:
        """The inputs not yet joined that share an attribute class with one that is, in FROM order."""
        return tuple(a for a in self.graph.aliases if a not in joined and self._near[a] & joined)

    def joined_selectivity(self, joined: frozenset[str]) -> float:
        """The share of combinations, one tuple of each input, that agree on every class."""
        if self.selectivity is not None:
            return self.selectivity(joined)
        share = 1.0
        for index, cls in enumerate(self.graph.classes):
            values = sorted(self.stream(a).distinct[index] for a in cls.aliases if a in joined)
            share /= math.prod(values[1:])
        return share

    def window_tuples(self, joined: frozenset[str]) -> float:
        """Combinations alive at any moment."""
        return math.prod(self.stream(a).window_tuples for a in joined) * self.joined_selectivity(joined)

    def head_rate_per_s(self, head: str, joined: frozenset[str]) -> float:
        """New combinations a second that the tuples arriving at one input bring about."""
        others = math.prod(self.stream(a).window_tuples for a in joined if a != head)
        return self.stream(head).rate_per_s * others * self.joined_selectivity(joined)

    def tuple_bytes(self, joined: frozenset[str]) -> float:
        if self.result_tuple_bytes is not None and len(joined) > 1:
            return self.result_tuple_bytes
        return math.fsum(self.stream(alias).tuple_bytes for alias in joined)

    def side(self, joined: frozenset[str], other: frozenset[str], head: str | None = None) -> JoinSide:
        """A joined set as it meets another; with a head, only what that input's arrivals bring."""
        heads = joined if head is None else (head,)
        shared = self.key(joined, other)
        members = {index: [a for a in self.graph.classes[index].aliases if a in joined] for index in shared}
        return JoinSide(
            rate_per_s=math.fsum(self.head_rate_per_s(alias, joined) for alias in heads),
            window_tuples=self.window_tuples(joined),
            tuple_bytes=self.tuple_bytes(joined),
            key_bytes=math.fsum(self.stream(aliases[0]).key_bytes[c] for c, aliases in members.items()),
            distinct=math.prod(
                min(self.stream(a).distinct[c] for a in aliases) for c, aliases in members.items()
            ),
            open_ends=any(w is not None and w.counts_rows for w in (self.stream(a).window for a in joined)),
            values=self._flow(joined, shared, head),
        )

    def key(self, joined: frozenset[str], other: frozenset[str]) -> tuple[int, ...]:
        """The attribute classes by which two sets of inputs meet."""
        return tuple(
            index
            for index, cls in enumerate(self.graph.classes)
            if not joined.isdisjoint(cls.aliases) and not other.isdisjoint(cls.aliases)
        )

    def _flow(self, joined: frozenset[str], key: tuple[int, ...], head: str | None) -> FlowValues | None:
        if self._values is None:
            return None
        mask = self._values.rates.mask(tuple(joined))
        return self._values.flow(mask, key, None if head is None else self.graph.aliases.index(head))

    def cheapest_ends(
        self,
        source: frozenset[str],
        target: frozenset[str],
        sites: tuple[str, str],
        head: str | None = None,
    ) -> dict[bool, JoinCost]:
        """A one-way join between sets at two sites: the cheapest method with its output at the source (True),
        and the cheapest with its output at the destination (False).
        """
        link, back = self.network.link(*sites), self.network.link(*reversed(sites))
        key = (source, target, link, back, head)
        if key not in self._priced:
            join = self.one_way(source, target, sites, head)
            self._priced[key] = {
                end: cheapest_method(join, output_at_source=end, methods=self.methods)
                for end in (True, False)
            }
        return self._priced[key]

    def one_way(
        self,
        source: frozenset[str],
        target: frozenset[str],
        sites: tuple[str, str],
        head: str | None = None,
    ) -> OneWayJoin:
        """A one-way join between sets at two sites, about to be priced."""
        return OneWayJoin(
            self.side(source, target, head),
            self.side(target, source),
            link=self.network.link(*sites),
            back=self.network.link(*reversed(sites)),
            interval_s=self.interval_s,
            costs=self.costs,
            agreement=self._agreement(source, target),
        )

    def _agreement(self, source: frozenset[str], target: frozenset[str]) -> float:
        """How far given selectivities move the estimate of how often two sets meet."""
        if self._values is None:
            return 1.0
        rates, factor = self._values.rates, 1.0
        one, other = rates.mask(tuple(source)), rates.mask(tuple(target))
        for index in self.key(source, target):
            attribute = rates.attributes[index]
            inside = (one & attribute.mask, other & attribute.mask)
            apart = attribute.correction(inside[0]) * attribute.correction(inside[1])
            factor *= attribute.correction(inside[0] | inside[1]) / apart
        return factor


def semijoin_model(
    query: Query,
    statistics: Statistics,
    *,
    interval_s: float = DEFAULT_INTERVAL_S,
    costs: ProcessingCosts | None = None,
    methods: tuple[Method, ...] = PAPER_METHODS,
    reading: Reading = "printed",
) -> SemijoinModel:
    """The model of a query under statistics.

    As printed, a network nobody described is the paper's own; where bytes are counted, it is endless.
    """
    rates = rate_model(query, statistics)
    streams = []
    for item, source in zip(query.inputs, rates.sources, strict=True):
        known = {
            index: statistics.attribute(item.stream.name, attribute_name(attribute))
            for index, cls in enumerate(query.graph.classes)
            if (attribute := cls.of(item.alias)) is not None
        }
        streams.append(
            SiteStream(
                item.alias,
                source.site,
                rate_per_s=source.rate_per_s,
                window_tuples=source.window_tuples,
                tuple_bytes=source.tuple_bytes,
                distinct={index: attribute.distinct for index, attribute in known.items()},
                key_bytes={index: attribute.value_bytes for index, attribute in known.items()},
                window=item.window,
            )
        )

    def selectivity(joined: frozenset[str]) -> float:
        mask = rates.mask(tuple(joined))
        return math.prod(attribute.agreement(mask) for attribute in rates.attributes)

    described = statistics.network != Network() or reading == "shipped"
    return SemijoinModel(
        query.graph,
        tuple(streams),
        network=statistics.network if described else Network(default=PAPER_LINK),
        interval_s=interval_s,
        costs=costs or ProcessingCosts(),
        selectivity=selectivity,
        result_tuple_bytes=statistics.result_tuple_bytes,
        methods=methods,
        reading=reading,
        rates=rates if reading == "shipped" else None,
    )

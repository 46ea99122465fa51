"""What the planner knows of the streams: rates, sizes, sites, value distributions, selectivities.

Everything is optional. What nobody measured has a documented default, so that a query can always be
planned, and a plan changes only where a number is known. docs/statistics.md describes the JSON form, which
`statistics_file` reads and writes.

Selectivity of an equality between two streams: the given one where there is one, else estimated as the sum
over values of p_i(v) p_j(v), where p_i(v) is the share of stream i's tuples with value v. Heavy hitters
bring their own shares; the rest is spread evenly over the remaining distinct values, the smaller set of
values taken to lie inside the larger one, which gives the classical 1 / max(distinct) for that part.

    >>> hot = AttributeStatistics(distinct=3, heavy_hitters=(("a", 8.0), ("b", 1.0), ("c", 1.0)))
    >>> streams = {name: StreamStatistics(rate_per_s=10.0, attributes={"k": hot}) for name in ("r", "s")}
    >>> round(Statistics(streams).selectivity("r", "k", "s", "k"), 6)
    0.66
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from types import MappingProxyType
from typing import TypeVar

from watersmeet.plan.statistics.attribute import (
    DEFAULT_DISTINCT,
    DEFAULT_VALUE_BYTES,
    LISTED_RATE_SLACK,
    AttributeStatistics,
    Bin,
    HeavyHitter,
    Value,
    require,
)
from watersmeet.plan.statistics.value_groups import align
from watersmeet.query import Attribute, Input, Query

__all__ = [
    "DEFAULT_DISTINCT",
    "DEFAULT_FILTER_SELECTIVITY",
    "DEFAULT_RATE_PER_S",
    "DEFAULT_SITE",
    "DEFAULT_TUPLE_BYTES",
    "DEFAULT_UNBOUNDED_WINDOW_S",
    "DEFAULT_VALUE_BYTES",
    "AttributeStatistics",
    "Bin",
    "HeavyHitter",
    "Link",
    "Network",
    "Statistics",
    "StreamStatistics",
    "Value",
    "attribute_name",
]

T = TypeVar("T")

DEFAULT_RATE_PER_S = 1000.0
DEFAULT_TUPLE_BYTES = 100.0
DEFAULT_SITE = "local"  # a stream nobody placed is where the engine runs
DEFAULT_FILTER_SELECTIVITY = 1.0  # a filter nobody measured removes nothing
DEFAULT_UNBOUNDED_WINDOW_S = 3600.0  # an unbounded window counts as what arrives in an hour


def _is_positive(number: float) -> bool:
    return 0 < number < math.inf


@dataclass(frozen=True)
class StreamStatistics:
    """A stream's rate, its tuples' size, its site, and what is known of its columns."""

    rate_per_s: float = DEFAULT_RATE_PER_S
    tuple_bytes: float = DEFAULT_TUPLE_BYTES
    site: str | None = None
    attributes: Mapping[str, AttributeStatistics] = field(default_factory=lambda: MappingProxyType({}))

    def __post_init__(self) -> None:
        require(_is_positive(self.rate_per_s), "rate_per_s", "positive", self.rate_per_s)
        require(_is_positive(self.tuple_bytes), "tuple_bytes", "positive", self.tuple_bytes)
        require(self.site != "", "site", "a name", "an empty one")
        for name, attribute in self.attributes.items():
            require(
                attribute.listed_rate_per_s <= self.rate_per_s * LISTED_RATE_SLACK,
                f"attributes.{name}",
                f"within the stream's rate ({self.rate_per_s:g}/s) when its listed rates are added up",
                f"{attribute.listed_rate_per_s:g}/s",
            )

    @property
    def bytes_per_s(self) -> float:
        return self.rate_per_s * self.tuple_bytes

    def attribute(self, column: str) -> AttributeStatistics:
        """What is known of a column, whatever the case of its name, or the defaults."""
        return _by_name(self.attributes, column) or AttributeStatistics()


@dataclass(frozen=True)
class Link:
    """How fast one site reaches another."""

    bytes_per_s: float = math.inf
    latency_s: float = 0.0

    def __post_init__(self) -> None:
        require(self.bytes_per_s > 0, "bytes_per_s", "positive", self.bytes_per_s)
        require(0 <= self.latency_s < math.inf, "latency_s", "zero or more", self.latency_s)


@dataclass(frozen=True)
class Network:
    """Links between sites; one that is not listed is as its reverse is, else the default."""

    links: Mapping[tuple[str, str], Link] = field(default_factory=lambda: MappingProxyType({}))
    default: Link = field(default_factory=Link)

    def link(self, source: str, target: str) -> Link:
        """The link between two sites; within a site nothing is slow."""
        if source == target:
            return Link()
        return self.links.get((source, target)) or self.links.get((target, source)) or self.default


@dataclass(frozen=True)
class Statistics:
    """All that is known. Streams go by their declared names, selectivities by pairs of `stream.column`.

    `result_tuple_bytes` is the size of every joined tuple; None makes it the sum of its parts.
    `filters` maps a local filter, written as `explain` prints it, to the share of tuples it keeps.
    """

    streams: Mapping[str, StreamStatistics] = field(default_factory=lambda: MappingProxyType({}))
    selectivities: Mapping[frozenset[str], float] = field(default_factory=lambda: MappingProxyType({}))
    _: KW_ONLY
    filters: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    network: Network = field(default_factory=Network)
    result_tuple_bytes: float | None = None
    unbounded_window_s: float = DEFAULT_UNBOUNDED_WINDOW_S

    def __post_init__(self) -> None:
        for pair, share in self.selectivities.items():
            name = " = ".join(sorted(pair) if len(pair) > 1 else [*pair] * 2)
            require(1 <= len(pair) <= 2, f"selectivities.{name}", "between two columns", len(pair))
            require(0 <= share <= 1, f"selectivities.{name}", "between 0 and 1", share)
        for text, share in self.filters.items():
            require(0 <= share <= 1, f"filters.{text}", "between 0 and 1", share)
        if self.result_tuple_bytes is not None:
            require(
                _is_positive(self.result_tuple_bytes),
                "result_tuple_bytes",
                "positive",
                self.result_tuple_bytes,
            )
        require(
            _is_positive(self.unbounded_window_s), "unbounded_window_s", "positive", self.unbounded_window_s
        )

    def stream(self, name: str) -> StreamStatistics:
        """What is known of a stream, whatever the case of its name, or the defaults."""
        return _by_name(self.streams, name) or StreamStatistics()

    def attribute(self, stream: str, column: str) -> AttributeStatistics:
        return self.stream(stream).attribute(column)

    def given_selectivity(self, stream: str, column: str, other: str, other_column: str) -> float | None:
        """The selectivity someone wrote down for an equality, if any."""
        wanted = {f"{stream}.{column}".lower(), f"{other}.{other_column}".lower()}
        return next(
            (f for pair, f in self.selectivities.items() if {n.lower() for n in pair} == wanted), None
        )

    def selectivity(self, stream: str, column: str, other: str, other_column: str) -> float:
        """The share of pairs of tuples that agree: given, else estimated from the two columns."""
        given = self.given_selectivity(stream, column, other, other_column)
        if given is not None:
            return given
        sides = ((self.stream(stream), column), (self.stream(other), other_column))
        groups = align([(known.attribute(name), known.rate_per_s) for known, name in sides])
        return groups.selectivity((0, 1))

    def filter_selectivity(self, item: Input) -> float:
        """The share of an input's tuples that pass its local filters, taken as independent."""
        return math.prod(self.filters.get(expr.sql, DEFAULT_FILTER_SELECTIVITY) for expr in item.filters)

    def site(self, item: Input) -> str:
        """Where an input's stream is: as these statistics say, else as declared, else `local`."""
        return self.stream(item.stream.name).site or item.stream.site or DEFAULT_SITE

    def join_selectivity(self, query: Query, left: Attribute, right: Attribute) -> float:
        """The selectivity of one equality of a query."""
        streams = (query.input(left.alias).stream.name, query.input(right.alias).stream.name)
        return self.selectivity(streams[0], attribute_name(left), streams[1], attribute_name(right))


def attribute_name(attribute: Attribute) -> str:
    """The name statistics know an attribute by: its column, or the text of a longer expression."""
    return attribute.expr.columns[0].column if attribute.expr.is_column else attribute.expr.sql


def _by_name(named: Mapping[str, T], name: str) -> T | None:
    exact = named.get(name)
    if exact is not None:
        return exact
    return next((known for key, known in named.items() if key.lower() == name.lower()), None)

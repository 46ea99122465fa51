"""PMJoin's rate-based cost model: how fast joined streams flow, and what shipping them costs.

Paper: Zhou, Yan, Yu, Zhou, "PMJoin: Optimizing Distributed Multi-way Stream Joins by Stream Partitioning",
DASFAA 2006, section 3.2, equations (1)-(4).

Equations (2) and (3) join two streams; applied again and again they give every joined set of streams, and
the paper notes that the order does not matter. `RateModel` uses the closed form that this implies. With
W_i the tuples in the window of stream i, l_i its rate, and F(A) the share of combinations of the streams A
that agree on every attribute:

    W_A = F(A) * prod W_i            rate of A = W_A * sum(l_i / W_i)

Where the paper leaves room, the readings are:

- Equation (4) ends in index i where only the joined stream j makes sense.
- Tuple sizes: all costs are in bytes/s. A joined tuple is as large as its parts together (Example 1), or
  has one fixed size where the statistics say so (Example 2).
- F(A) of one attribute is the sum over values of the product of the shares each stream has of that value
  (`join_attribute`), so it is order-free even where streams favour different values. Attributes are
  independent.
- W of a substream is the whole stream's W times the substream's share, for tuple windows as well: a window
  of K tuples counts all tuples of the stream. TUMBLE windows hold half their size on average, unbounded
  windows the tuples of a stated time.
- TUMBLE windows of a time are full together where their ends meet, so two of them hold more pairs than the
  product of their averages: of n that are equally long, 2^n / (n + 1) times as many (`fullness`).

    >>> two = joined_rate(0.001, 25.0, 250.0, 30.0, 300.0), joined_window(0.001, 250.0, 300.0)
    >>> two  # S2,3 of the paper's Table 2
    (15.0, 75.0)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from watersmeet.errors import ConfigurationError
from watersmeet.plan.statistics.join_attribute import JoinAttribute
from watersmeet.plan.statistics.statistics import Statistics, attribute_name
from watersmeet.plan.statistics.value_groups import ValueGroups, align
from watersmeet.query import AttributeClass, Input, Query, Window
from watersmeet.query.window import TumbleWindow

SECOND_US = 1_000_000
WINDOWS_AVERAGED = 64  # of the longest TUMBLE window, at so many moments altogether
MOMENTS = 8192

Flow = tuple[float, str]  # a stream's bytes/s and its site


def crosses(site_i: str, site_j: str) -> int:
    """col_ij: 0 for co-located streams, else 1."""
    return 0 if site_i == site_j else 1  # PMJoin eq. (1)


def joined_rate(selectivity: float, rate_i: float, window_i: float, rate_j: float, window_j: float) -> float:
    """Tuples/s of S_i joined with S_j: each new tuple probes the other stream's window."""
    return selectivity * (rate_i * window_j + rate_j * window_i)  # PMJoin eq. (2)


def joined_window(selectivity: float, window_i: float, window_j: float) -> float:
    """Tuples in the window of S_i joined with S_j."""
    return selectivity * window_i * window_j  # PMJoin eq. (3)


def adding_costs(
    pending: Sequence[Flow], candidates: Sequence[Flow], joined_bytes_per_s: Sequence[float]
) -> list[tuple[float, float]]:
    """For each candidate S_j the costs of the two cases of adding it to the pending streams.

    First that of joining at the site of S_j and sending the result on, then that of sending all of them to a
    third site; C(pending + S_j) is the smaller one.
    """
    total = 0.0
    shipped = {site: 0.0 for _, site in candidates}
    for rate, site in pending:
        total += rate
        for target in shipped:
            shipped[target] += rate * crosses(site, target)
    return [
        (shipped[site_j] + joined, total + bytes_j)  # PMJoin eq. (4)
        for (bytes_j, site_j), joined in zip(candidates, joined_bytes_per_s, strict=True)
    ]


def window_tuples(window: Window, rate_per_s: float, unbounded_window_s: float) -> float:
    """W_i, the expected number of tuples in a window: l_i * T_i for time, K_i for tuples."""
    expected = window.expected_tuples(rate_per_s)
    return rate_per_s * unbounded_window_s if expected is None else expected


@dataclass(frozen=True, kw_only=True)
class Source:
    """A source stream as the model sees it, local filters applied."""

    alias: str
    site: str
    rate_per_s: float  # lambda_i
    window_tuples: float  # W_i
    tuple_bytes: float
    turnover_per_s: float  # lambda_i / W_i, which a filter does not change
    tumble_s: float | None = None  # the size of a TUMBLE window of a time

    @staticmethod
    def of(
        alias: str,
        site: str,
        rate_per_s: float,
        window_tuples: float,
        tuple_bytes: float = 1.0,
        kept: float = 1.0,
        tumble_s: float | None = None,
    ) -> Source:
        """A stream of this rate and window, of which a local filter keeps a share."""
        turnover = rate_per_s / window_tuples
        return Source(
            alias=alias,
            site=site,
            rate_per_s=rate_per_s * kept,
            window_tuples=window_tuples * kept,
            tuple_bytes=tuple_bytes,
            turnover_per_s=turnover,
            tumble_s=tumble_s,
        )


@lru_cache(maxsize=4096)
def fullness(sizes_s: tuple[float, ...]) -> float:
    """How many combinations TUMBLE windows hold at an average moment, over the product of their averages.

    >>> round(fullness((10.0,)), 3), round(fullness((10.0, 10.0)), 3)
    (1.0, 1.333)
    """
    if len(sizes_s) < 2:
        return 1.0
    moments = (np.arange(MOMENTS) + 0.5) * (max(sizes_s) * WINDOWS_AVERAGED / MOMENTS)
    return float(np.mean(np.prod([2 * (moments / size % 1.0) for size in sizes_s], axis=0)))


@dataclass(frozen=True)
class _Totals:
    """What a set of sources has before any condition: all combinations, their turnover, their bytes."""

    window_tuples: float
    turnover_per_s: float
    tuple_bytes: float


class RateModel:
    """Rates, windows and bytes of every joined set of sources; a set is a bit mask over `sources`."""

    def __init__(
        self,
        sources: Sequence[Source],
        attributes: Sequence[JoinAttribute],
        result_tuple_bytes: float | None = None,
    ) -> None:
        self.sources = tuple(sources)
        self.attributes = tuple(attributes)
        self.result_tuple_bytes = result_tuple_bytes
        self.everything = (1 << len(self.sources)) - 1
        self._totals: dict[int, _Totals] = {0: _Totals(1.0, 0.0, 0.0)}
        self._unfiltered: dict[int, float] = {}

    def members(self, mask: int) -> list[Source]:
        return [source for index, source in enumerate(self.sources) if mask >> index & 1]

    def name(self, mask: int) -> str:
        """A joined set as the paper writes it, `S1 ⋈ S2`."""
        return " ⋈ ".join(source.alias for source in self.members(mask))

    def mask(self, aliases: Sequence[str]) -> int:
        return sum(1 << index for index, source in enumerate(self.sources) if source.alias in aliases)

    def reach(self, mask: int) -> int:
        """The sources that share an attribute with some source of a set."""
        reached = 0
        for attribute in self.attributes:
            if attribute.mask & mask:
                reached |= attribute.mask
        return reached

    def unreachable(self) -> int:
        """The sources that no chain of attributes connects with the first one."""
        reached, before = 1, 0
        while reached != before:
            reached, before = reached | self.reach(reached), reached
        return self.everything & ~reached

    def joinable(self, left: int, right: int) -> bool:
        """Whether some attribute joins a stream of one set with a stream of the other."""
        return self.reach(left) & right != 0

    def window(self, mask: int) -> float:
        """W of a joined set, PMJoin eq. (3) in closed form."""
        tuples = self._total(mask).window_tuples
        for attribute in self.attributes:
            tuples *= attribute.agreement(mask)
        return tuples

    def rate(self, mask: int) -> float:
        """Tuples/s of a joined set, PMJoin eq. (2) in closed form."""
        return self.window(mask) * self._total(mask).turnover_per_s

    def tuple_bytes(self, mask: int) -> float:
        """The size of a (joined) tuple."""
        if self.result_tuple_bytes is not None and mask & (mask - 1):
            return self.result_tuple_bytes
        return self._total(mask).tuple_bytes

    def bytes_per_s(self, mask: int) -> float:
        return self.rate(mask) * self.tuple_bytes(mask)

    def bytes_with_each(self, mask: int, others: Sequence[int]) -> list[float]:
        """bytes/s of a set joined with each of some others in turn, all at once."""
        known, find = self._unfiltered, self.unfiltered_bytes_per_s
        flows = np.array([known.get(mask | other) or find(mask | other) for other in others])
        for attribute in self.attributes:
            flows *= attribute.agreement_with_each(mask, others)
        return list(flows.tolist())

    def union(self, left: int, right: int) -> int:
        """Two disjoint sets as one, which then costs less to join with others."""
        for attribute in self.attributes:
            attribute.remember_union(left, right)
        return left | right

    def selectivity(self, left: int, right: int) -> float:
        """The f of equations (2) and (3) between two disjoint sets."""
        apart = self.window(left) * self.window(right)
        return self.window(left | right) / apart if apart else 0.0

    def part(self, attribute: int, groups: ValueGroups) -> RateModel:
        """The model of the substreams whose value of one attribute is among some of its groups."""
        replaced = list(self.attributes)
        replaced[attribute] = replaced[attribute].part(groups)
        part = RateModel(self.sources, replaced, self.result_tuple_bytes)
        part._totals, part._unfiltered = self._totals, self._unfiltered
        return part

    def unfiltered_bytes_per_s(self, mask: int) -> float:
        """bytes/s if every combination of the set agreed."""
        known = self._unfiltered.get(mask)
        if known is None:
            total = self._total(mask)
            known = total.window_tuples * total.turnover_per_s * self.tuple_bytes(mask)
            self._unfiltered[mask] = known
        return known

    def unfiltered_per_s(self, mask: int, head: int | None = None) -> float:
        """Combinations a second that new tuples bring, of all sources or of one, before any condition."""
        members = [index for index in range(len(self.sources)) if mask >> index & 1]
        held = math.prod(self.sources[index].window_tuples for index in members)
        heads = members if head is None else [head]
        return held * math.fsum(
            self.sources[index].turnover_per_s * self._fullness(mask & ~(1 << index)) for index in heads
        )

    def _fullness(self, mask: int) -> float:
        return fullness(tuple([one.tumble_s for one in self.members(mask) if one.tumble_s is not None]))

    def _total(self, mask: int) -> _Totals:
        known = self._totals.get(mask)
        if known is None:
            lowest = mask & -mask
            one, rest = self.sources[lowest.bit_length() - 1], self._total(mask ^ lowest)
            together = self._fullness(mask)
            held = rest.window_tuples / self._fullness(mask ^ lowest) * one.window_tuples * together
            added = rest.turnover_per_s + one.turnover_per_s
            turnover = added if together == 1.0 else self.unfiltered_per_s(mask) / held
            known = self._totals[mask] = _Totals(held, turnover, rest.tuple_bytes + one.tuple_bytes)
        return known


def rate_model(query: Query, statistics: Statistics) -> RateModel:
    """The model of a query under statistics."""
    sources = []
    for item in query.inputs:
        known = statistics.stream(item.stream.name)
        window = _values_kept(item, statistics) or window_tuples(
            item.window, known.rate_per_s, statistics.unbounded_window_s
        )
        kept = statistics.filter_selectivity(item)
        site = statistics.site(item)
        tumble_s = item.window.size / SECOND_US if isinstance(item.window, TumbleWindow) else None
        sources.append(
            Source.of(item.alias, site, known.rate_per_s, window, known.tuple_bytes, kept, tumble_s)
        )
    attributes = [_join_attribute(query, statistics, cls) for cls in query.graph.classes]
    return RateModel(sources, attributes, statistics.result_tuple_bytes)


def _values_kept(item: Input, statistics: Statistics) -> float | None:
    """How many tuples a PARTITION BY keeps: so many of each value, as far as statistics count values."""
    if not item.window.partition:
        return None
    values = [statistics.attribute(item.stream.name, name).distinct for name in item.window.partition]
    return float(getattr(item.window, "size", 1) * math.prod(values))


def _join_attribute(query: Query, statistics: Statistics, cls: AttributeClass) -> JoinAttribute:
    members = tuple(query.graph.aliases.index(alias) for alias in cls.aliases)
    names = [(query.input(side.alias).stream.name, attribute_name(side)) for side in cls.attributes]
    return join_attribute(cls.pretty(), members, names, statistics)


def join_attribute(
    title: str, members: tuple[int, ...], names: Sequence[tuple[str, str]], statistics: Statistics
) -> JoinAttribute:
    """What statistics know of an attribute that joins these sources; `names` are (stream, column)."""
    groups = align([(statistics.attribute(*name), statistics.stream(name[0]).rate_per_s) for name in names])
    corrections = {}
    for right in range(len(members)):
        for left in range(right):
            given = statistics.given_selectivity(*names[left], *names[right])
            if given is None:
                continue
            estimated = groups.selectivity((left, right))
            if given > 0 and estimated == 0:
                pair = " = ".join(".".join(name) for name in (names[left], names[right]))
                raise ConfigurationError(
                    f"selectivities.{pair}: is given as {given:g}, but the two columns list no common value; "
                    "drop the selectivity or complete their heavy_hitters and distinct"
                )
            corrections[frozenset((members[left], members[right]))] = given / estimated if given else 0.0
    return JoinAttribute(title, members, groups, corrections)

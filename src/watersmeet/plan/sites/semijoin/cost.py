"""What a one-way distributed join costs as printed: the six formulas of the semijoin paper, term by term.

After Tran and Lee, "Distributed stream join query processing with semijoins" (2010), Appendix B. A one-way
join from S1 at its node (the source) to S2 at its node (the destination) finds, every execution interval
tau, the tuples of window W2 that match the batch B1 that has just arrived. The cost is execution time per
unit of time: seconds of transfer and of processing for each second of stream. The six methods:

    SP-S    ship all of S2 to the source, join there
    SP-D    ship B1 to the destination, join there
    SM-S1   ship B1's join values; matching tuples of W2 come back, once each
    SM-S2   keep S2's join values at the source; ask for the tuples of those that match
    SM-D1   keep S2's join values at the source; ship only the tuples of B1 that match
    SM-D2   ship B1's join values, get back those that match, ship their tuples

These are the paper's own readings: they price the strategy `semijoin` and the lab's figures. They leave out
bytes that the protocols ship; sites are advised by formulas that count them (shipped.py).

A seventh, SM-B, is ours: SM-D1 with a Bloom filter of S2's join values at the source. It is considered where
it is asked for; `PAPER_METHODS` are the six.

Guarantee: each `Term` of the six is one addend of the printed formula, in its order; their sum is the cost.

Readings taken where the text is damaged or silent:
- k_i and m_i (Table 4 is garbled) are the expected numbers of distinct values among w_i, or wp_i, uniform
  draws from 1/f_i values; so never more than either.
- c_i, used but not in Table 4, is the per-tuple insertion cost; by default it equals c_u.
- c in S(c) of SM-S1 is the size of the message that carries one count (Algorithm 8).
- In SM-S2 the tuples s_F travel in one message with v_J: S(m2 (1 - f21) P + wp2 f21 F). As printed, the
  bracket closes early and bytes would be added to seconds.
- `r2 c_p k2` in SM-S2 and SM-D1 has no name in the printed sums: it is the probe of V2 for each arriving
  tuple (Algorithm 9, lines 2-3).
- S(0) is 0, not the latency of Table 4: section 5.3.1 explains the closeness of SM-S2 to SP-S, and of
  SM-D1 to SP-D, by shipments that are not made when there is nothing to ship.
- SM-B has no printed formula. Its update counts the values that come to W2 anew, m2 (1 - k2 / d2), as many
  that go, and the bits they flip alone; an interval without a flip sends nothing; a share of S1's other
  tuples passes (semijoin_filter).
- r_i / wp_i is 1 / tau: like the paper, we do not spare the message of an interval in which nothing came.

Example: with both streams at 300 tuples/s of 1250 bytes, batches of 100 ms and a link of 25 ms and 128
kB/s, SP-D spends 10 * 0.025 s on latency and 375000 / 128000 s on bytes in every second.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Literal

from watersmeet.errors import ConfigurationError
from watersmeet.plan.sites.semijoin.filter import HASHES, false_positive_rate, fill, filter_bits, flip_bytes
from watersmeet.plan.sites.semijoin.values import FlowValues
from watersmeet.plan.statistics.statistics import Link

Activity = Literal["ship", "probe", "update", "hash"]
Shared = Literal["batch", "copy", "tuples"] | None  # how steps share a shipment (shipped.py)


class Method(enum.Enum):
    """A one-way join algorithm: how it joins, and at which end the output is."""

    SP_S = "SP-S"
    SP_D = "SP-D"
    SM_S1 = "SM-S1"
    SM_S2 = "SM-S2"
    SM_D1 = "SM-D1"
    SM_D2 = "SM-D2"
    SM_B = "SM-B"

    @property
    def output_at_source(self) -> bool:
        """Whether the join is processed where the probing stream is."""
        return self in (Method.SP_S, Method.SM_S1, Method.SM_S2)


PAPER_METHODS = (Method.SP_S, Method.SP_D, Method.SM_S1, Method.SM_S2, Method.SM_D1, Method.SM_D2)
ALL_METHODS = tuple(Method)


@dataclass(frozen=True)
class ProcessingCosts:
    """Seconds a node spends on one tuple, and the size of a count on the wire.

    The paper does not print its values; these are of the order a nested loop over short strings takes.
    """

    probe_s: float = 1e-7  # c_p
    update_s: float = 1e-6  # c_u
    insert_s: float = 1e-6  # c_i
    hash_s: float = 1e-6  # c_h
    count_bytes: float = 4.0  # c in S(c)


def transfer_s(link: Link, size_bytes: float) -> float:
    """S(x): seconds to move x bytes in one message; nothing to move is no message."""
    return link.latency_s + size_bytes / link.bytes_per_s if size_bytes > 0 else 0.0


@dataclass(frozen=True)
class JoinSide:
    """A stream, or the result of a partial join, as one side of a one-way join."""

    rate_per_s: float  # r_i
    window_tuples: float  # w_i
    tuple_bytes: float  # F_Si
    key_bytes: float  # P_Si
    distinct: float  # d_i = 1 / f_i
    open_ends: bool = False  # whether ends become known later (ROWS windows)
    values: FlowValues | None = None  # value by value, where a model knows them

    def __post_init__(self) -> None:
        if min(self.rate_per_s, self.window_tuples, self.tuple_bytes, self.key_bytes) < 0:
            raise ConfigurationError(f"rates, windows and sizes cannot be negative: {self}")
        if not self.distinct > 0:
            raise ConfigurationError(f"a join attribute has at least one value, not {self.distinct}")


@dataclass(frozen=True)
class Term:
    """One addend of a cost formula; `bytes_per_s` says what a shipment moves, and which way."""

    name: str
    activity: Activity
    seconds_per_s: float
    bytes_per_s: float = 0.0
    to_source: bool = False
    shared: Shared = None
    whole: float = 0.0  # of bytes shared by tuples: what all tuples would take


@dataclass(frozen=True)
class JoinCost:
    """The cost of a one-way join by one method, in seconds per second."""

    method: Method
    terms: tuple[Term, ...]

    @property
    def total(self) -> float:
        return math.fsum(term.seconds_per_s for term in self.terms)

    @property
    def communication(self) -> float:
        """The part spent on the network."""
        return math.fsum(term.seconds_per_s for term in self.terms if term.activity == "ship")

    @property
    def processing(self) -> float:
        """The part spent at the nodes."""
        return math.fsum(term.seconds_per_s for term in self.terms if term.activity != "ship")

    def bytes_per_s(self, *, to_source: bool) -> float:
        """What crosses the link in one direction."""
        return math.fsum(term.bytes_per_s for term in self.terms if term.to_source == to_source)

    def pretty(self) -> str:
        lines = [f"{self.method.value} {self.total:.6g} s/s"]
        for term in self.terms:
            arrow = f"  {term.bytes_per_s:.6g} bytes/s {'<-' if term.to_source else '->'}"
            lines.append(
                f"  {term.name:<16} {term.seconds_per_s:.6g}{arrow if term.activity == 'ship' else ''}"
            )
        return "\n".join(lines)


def expected_distinct(draws: float, values: float) -> float:
    """How many of `values` equally likely values are expected among `draws` tuples.

    >>> round(expected_distinct(2, 2), 3)
    1.5
    """
    if values <= 1:
        return min(draws, values)
    return min(draws, values, -values * math.expm1(draws * math.log1p(-1 / values)))


@dataclass(frozen=True)
class OneWayJoin:
    """A one-way join about to be priced: both sides, the link there and back, and the interval."""

    source: JoinSide  # S1
    target: JoinSide  # S2
    _: KW_ONLY
    link: Link
    back: Link
    interval_s: float  # tau
    costs: ProcessingCosts = ProcessingCosts()
    agreement: float = 1.0  # what a given selectivity makes of the estimated one

    def __post_init__(self) -> None:
        if not self.interval_s > 0:
            raise ConfigurationError(f"the execution interval must be above 0 s, not {self.interval_s}")

    @property
    def source_match(self) -> float:
        """f_12: the fraction of S1 with a match in S2."""
        return min(1.0, self.target.distinct / self.source.distinct)

    @property
    def target_match(self) -> float:
        """f_21: the fraction of S2 with a match in S1."""
        return min(1.0, self.source.distinct / self.target.distinct)

    @property
    def source_batch(self) -> float:
        """wp_1: tuples in B1."""
        return self.source.rate_per_s * self.interval_s

    @property
    def target_batch(self) -> float:
        """wp_2: tuples in B2."""
        return self.target.rate_per_s * self.interval_s

    @property
    def target_window_values(self) -> float:
        """k_2: distinct join values in W2."""
        if self.target.values is not None:
            return float(self.target.values.held() @ self.target.values.counts)
        return expected_distinct(self.target.window_tuples, self.target.distinct)

    @property
    def source_batch_values(self) -> float:
        """m_1: distinct join values in B1."""
        return expected_distinct(self.source_batch, self.source.distinct)

    @property
    def target_batch_values(self) -> float:
        """m_2: distinct join values in B2."""
        return expected_distinct(self.target_batch, self.target.distinct)

    def ship(self, name: str, size_bytes: float, *, to_source: bool = False) -> Term:
        """One message of this size every interval."""
        return Term(
            f"ship {name}",
            "ship",
            transfer_s(self.back if to_source else self.link, size_bytes) / self.interval_s,
            size_bytes / self.interval_s,
            to_source,
        )

    def probe(self, name: str, tuples_per_s: float, probed: float) -> Term:
        """A scan of `probed` entries for each tuple."""
        return Term(f"probe {name}", "probe", tuples_per_s * self.costs.probe_s * probed)

    def insert(self, name: str, tuples_per_s: float) -> Term:
        return Term(f"update {name}", "update", tuples_per_s * self.costs.insert_s)

    def update(self, name: str, tuples_per_s: float) -> Term:
        return Term(f"update {name}", "update", tuples_per_s * self.costs.update_s)

    def hash(self, name: str, tuples_per_s: float) -> Term:
        return Term(f"probe {name}", "hash", tuples_per_s * self.costs.hash_s)


def _simple_at_source(join: OneWayJoin) -> tuple[Term, ...]:
    s1, s2 = join.source, join.target
    return (
        join.update("W1", s1.rate_per_s),
        join.probe("W2@N1", s1.rate_per_s, s2.window_tuples),
        join.ship("B2", join.target_batch * s2.tuple_bytes, to_source=True),
        join.update("W2@N1", s2.rate_per_s),
    )


def _simple_at_destination(join: OneWayJoin) -> tuple[Term, ...]:
    s1, s2 = join.source, join.target
    return (
        join.insert("W1", s1.rate_per_s),
        join.ship("B1", join.source_batch * s1.tuple_bytes),
        join.probe("W2", s1.rate_per_s, s2.window_tuples),
        join.update("W2", s2.rate_per_s),
    )


def _one_step_at_source(join: OneWayJoin) -> tuple[Term, ...]:
    s1, s2 = join.source, join.target
    matching = join.target_batch * join.target_match  # new tuples of W'2 in each interval
    return (
        join.insert("W1", s1.rate_per_s),
        join.ship("K1", join.source_batch_values * s1.key_bytes),
        join.probe("W2", join.source_batch_values / join.interval_s, s2.window_tuples),
        join.ship("dW'2", matching * s2.tuple_bytes, to_source=True),
        join.insert("W'2", matching / join.interval_s),
        join.insert("W2", s2.rate_per_s),
        join.probe("W'2", s1.rate_per_s, s2.window_tuples * join.target_match),
        join.ship("expired count", join.costs.count_bytes, to_source=True),
    )


def _two_step_at_source(join: OneWayJoin) -> tuple[Term, ...]:
    s1, s2 = join.source, join.target
    asked = join.target_window_values * (1 - join.source_match)  # entries of dV'2
    fresh = join.target_batch_values * (1 - join.target_match)  # new entries of V2
    vectors = fresh * s2.key_bytes + join.target_batch * join.target_match * s2.tuple_bytes
    return (
        join.insert("W1", s1.rate_per_s),
        join.hash("M2", s1.rate_per_s),
        join.ship("dV'2", asked * s2.key_bytes),
        join.probe("W2", asked / join.interval_s, s2.window_tuples),
        join.ship("dW'2", asked * s2.tuple_bytes, to_source=True),
        join.probe("V2", s2.rate_per_s, join.target_window_values),
        join.hash("M2 again", s1.rate_per_s),
        join.insert("W2", s2.rate_per_s),
        join.insert("V2", fresh / join.interval_s),
        join.ship("vC vJ sF", vectors, to_source=True),
        join.update("M2", fresh / join.interval_s),
    )


def _one_step_at_destination(join: OneWayJoin) -> tuple[Term, ...]:
    s1, s2 = join.source, join.target
    fresh = join.target_batch_values * (1 - join.target_match)
    return (
        join.insert("W1", s1.rate_per_s),
        join.probe("V2@N1", s1.rate_per_s, join.target_window_values),
        join.ship("B'1", join.source_batch * join.source_match * s1.tuple_bytes),
        join.probe("W2", s1.rate_per_s * join.source_match, s2.window_tuples),
        join.probe("V2", s2.rate_per_s, join.target_window_values),
        join.insert("W2", s2.rate_per_s),
        join.insert("V2, V2@N1", 2 * fresh / join.interval_s),
        join.ship("vC vJ", fresh * s2.key_bytes, to_source=True),
    )


def _two_step_at_destination(join: OneWayJoin) -> tuple[Term, ...]:
    s1, s2 = join.source, join.target
    values = join.source_batch_values
    matching = values * join.source_match  # entries of K'1
    return (
        join.insert("W1", s1.rate_per_s),
        join.ship("K1", values * s1.key_bytes),
        join.probe("W2", values / join.interval_s, s2.window_tuples),
        join.ship("K'1", matching * s1.key_bytes, to_source=True),
        join.probe("B1", matching / join.interval_s, join.source_batch),
        join.ship("B'1", join.source_batch * join.source_match * s1.tuple_bytes),
        join.probe("Temp", s1.rate_per_s * join.source_match, s2.window_tuples),
        join.update("W2", s2.rate_per_s),
    )


def _filter_at_destination(join: OneWayJoin) -> tuple[Term, ...]:
    s1, s2 = join.source, join.target
    kept = join.target_window_values
    bits = filter_bits(kept)
    fresh = join.target_batch_values * max(0.0, 1 - kept / s2.distinct)
    flips = 2 * fresh * HASHES * (1 - fill(kept, bits))  # of values that come and of those that go
    passing = join.source_match + (1 - join.source_match) * false_positive_rate(kept, bits)
    return (
        join.insert("W1", s1.rate_per_s),
        join.hash("filter", s1.rate_per_s * HASHES),
        join.ship("B'1", join.source_batch * passing * s1.tuple_bytes),
        join.probe("W2", s1.rate_per_s * passing, s2.window_tuples),
        join.insert("W2", s2.rate_per_s),
        Term("update filter", "hash", 2 * s2.rate_per_s * HASHES * join.costs.hash_s),
        _ship_some(join, "flips", flips, flip_bytes(flips, bits)),
    )


def _ship_some(join: OneWayJoin, name: str, expected: float, size_bytes: float) -> Term:
    """A message to the source in those intervals in which something happens, of so many things expected."""
    share = -math.expm1(-expected)
    seconds = share * join.back.latency_s + size_bytes / join.back.bytes_per_s
    return Term(f"ship {name}", "ship", seconds / join.interval_s, size_bytes / join.interval_s, True)


FORMULAS: dict[Method, Callable[[OneWayJoin], tuple[Term, ...]]] = {
    Method.SP_S: _simple_at_source,
    Method.SP_D: _simple_at_destination,
    Method.SM_S1: _one_step_at_source,
    Method.SM_S2: _two_step_at_source,
    Method.SM_D1: _one_step_at_destination,
    Method.SM_D2: _two_step_at_destination,
    Method.SM_B: _filter_at_destination,
}


def join_cost(join: OneWayJoin, method: Method) -> JoinCost:
    """The cost of a one-way join by one method."""
    return JoinCost(method, FORMULAS[method](join))


def cheapest_method(
    join: OneWayJoin,
    *,
    output_at_source: bool | None = None,
    methods: Sequence[Method] = PAPER_METHODS,
) -> JoinCost:
    """The cheapest method, the earlier on a tie; on request only of those with the output at one end."""
    priced = [
        join_cost(join, method)
        for method in methods
        if output_at_source is None or method.output_at_source == output_at_source
    ]
    return min(priced, key=lambda cost: cost.total)

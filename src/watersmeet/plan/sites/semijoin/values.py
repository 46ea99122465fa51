"""How often each join value comes, and how long it stays: what the formulas of shipped bytes are made of.

A *flow* is a stream, or the results of joining some; a *key* is the attribute classes by which it meets
another flow. Values of a key come in groups of values that are alike (plan/statistics/value_groups.py);
where a key has several classes, in combinations of groups. All numbers below are for one value of a group.

Tuples of a stream are taken to come at random (a Poisson process), classes as independent, as in the rate
model. Then a value of rate l is absent from a window of T seconds with the probability e^(-l T), and so on.

The results of a join come in bursts instead: all that one tuple completes come at once, and one tuple of a
slow stream is in many results. So for a result flow the probability that a value comes at all, in some time,
is the least of what three bounds allow: its results as if each came by itself; the head's tuples that
complete any; and, for every other stream that carries the key, its tuples that are completed at least once
(`_completed`).

Example: a value that comes once in 10 s to a window of 20 s is there with the probability 1 - e^-2 = 0.86,
and comes anew, when it was gone, every 10 / e^-2 = 74 s.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from watersmeet.plan.statistics.rate_model import RateModel
from watersmeet.plan.statistics.value_groups import FloatArray
from watersmeet.query import Window
from watersmeet.query.window import TumbleRowsWindow, TumbleWindow

TINY = 1e-300
PHASES = (np.arange(8) + 0.5) / 8  # of a tumbling window, to average over


@dataclass(frozen=True, eq=False)
class Carrier:
    """A stream of a joined flow that has the key: its tuples of a value, and how long each lives."""

    rate_per_s: FloatArray
    life_s: float


@dataclass(frozen=True, eq=False)
class FlowValues:
    """The values of a flow under a key, group by group."""

    counts: FloatArray  # values in a group
    items_per_s: FloatArray  # tuples or results
    life_s: float  # of one of them, on average
    heads: Carrier | None  # the one stream whose tuples complete results, where it carries the key
    others: tuple[Carrier, ...]
    tumbles: bool = False
    expires: bool = True

    @property
    def is_stream(self) -> bool:
        """Whether this is a stream, rather than results."""
        return self.heads is None and not self.others

    @cached_property
    def rate_per_s(self) -> float:
        return float(self.items_per_s @ self.counts)

    def comes_within(self, seconds: float) -> FloatArray:
        """The probability that a value comes in so many seconds."""
        expected = self.items_per_s * seconds
        bound = expected
        if self.heads is not None:
            head = self.heads.rate_per_s
            each = np.divide(self.items_per_s, head, out=np.zeros_like(head), where=head > 0)
            bound = np.minimum(bound, head * seconds * -np.expm1(-each))
        for carrier in self.others:
            bound = np.minimum(bound, carrier.rate_per_s * self._completed(carrier, seconds))
        return np.asarray(-np.expm1(-bound))

    def _completed(self, carrier: Carrier, seconds: float) -> FloatArray:
        """For how many seconds' tuples of a carrier a result comes within some time, at its own rate.

        A tuple of life T overlaps a time of d by x seconds; x grows from 0, stays at min(T, d), falls again.
        """
        held = carrier.rate_per_s * carrier.life_s
        rate = np.divide(self.items_per_s, held, out=np.zeros_like(held), where=held > 0)
        least, most = sorted((carrier.life_s, seconds))
        hit = -np.expm1(-rate * least)
        missed = np.divide(hit, rate, out=np.full_like(rate, least), where=rate > 0)
        return np.asarray(2 * (least - missed) + (most - least) * hit)

    def held(self, longer_s: float = 0.0) -> FloatArray:
        """The probability that a value is in the window, whose tuples stay a little longer than they live."""
        if self.tumbles:
            # What came since the window began; and, for as long as it is kept, what the one before had.
            span, half = 2 * self.life_s, longer_s / 2
            came = -np.expm1(-self.items_per_s * (span * PHASES[:, None] + half)).mean(axis=0)
            kept = -np.expm1(-self.items_per_s * span) * np.exp(-self.items_per_s * half)
            return np.asarray(np.minimum(came + min(1.0, half / span) * kept, 1.0))
        life = self.life_s + longer_s
        bound = self.items_per_s * life
        for carrier in (*((self.heads,) if self.heads else ()), *self.others):
            own = carrier.rate_per_s * (carrier.life_s + longer_s)
            each = np.divide(bound, own, out=np.zeros_like(own), where=own > 0)
            bound = np.minimum(bound, own * -np.expm1(-each))
        return np.asarray(-np.expm1(-bound))

    def held_over_time(self, longer_s: float) -> list[FloatArray]:
        """`held`, at some moments between which it varies; at a single one where it does not."""
        if not self.tumbles:
            return [self.held(longer_s)]
        return [np.asarray(-np.expm1(-self.items_per_s * 2 * self.life_s * phase)) for phase in PHASES]

    def held_at_most(self) -> FloatArray:
        """The probability that a value has come by the time when a tumbling window ends."""
        return np.asarray(-np.expm1(-self.items_per_s * 2 * self.life_s))

    def spells_per_s(self, interval_s: float, longer_s: float) -> FloatArray:
        """How often a value comes to the window anew, looked at once an interval."""
        if self.tumbles:
            span = 2 * self.life_s
            appears = -np.expm1(-self.items_per_s * span)
            return np.asarray(appears * np.exp(-self.items_per_s * longer_s) / span)
        rate = self._steady_rate(longer_s)
        appears = -np.expm1(-rate * interval_s)
        return np.asarray(appears * np.exp(-rate * (self.life_s + longer_s)) / interval_s)

    def asked_of(self, asking: FlowValues, longer_s: float) -> FloatArray:
        """The share of its tuples, by value, whose value the other flow has while they are kept."""
        if self.tumbles:
            spans = [2 * self.life_s * phase + longer_s for phase in PHASES]
            return np.asarray(np.mean([asking.comes_within(span) for span in spans], axis=0))
        return asking.comes_within(self.life_s + longer_s)

    def unasked_spells(self, asking: FlowValues, longer_s: float) -> FloatArray:
        """The probability that a value comes and goes and the other flow never has it in between.

        The time that a value stays is a busy period: it ends with the first gap as long as a tuple lives. The
        chance that asks at rate a all miss a gap shorter than T, and that T in the end, sums to this form.
        """
        life = self.life_s * (2 if self.tumbles else 1) + longer_s
        asked = asking.comes_within(life)
        ask = -np.log(np.maximum(1 - asked, TINY)) / life
        if self.tumbles:
            # A value comes at any time of the window, and stays for windows more while it comes soon enough.
            first = np.where(ask > 0, -np.expm1(-ask * life) / np.maximum(ask * life, TINY), 1.0)
            stays = -np.expm1(-self.items_per_s * longer_s)
            return np.asarray(first * (1 - stays) / np.maximum(1 - stays * np.exp(-ask * life), TINY))
        rate = self._steady_rate(longer_s)
        quiet = np.exp(-(rate + ask) * life)  # neither comes for as long as a tuple lives
        return np.asarray(np.where(ask > 0, quiet * (rate + ask) / np.maximum(ask + rate * quiet, TINY), 1.0))

    def _steady_rate(self, longer_s: float) -> FloatArray:
        """The rate at which tuples that came one by one would keep a value in the window as often."""
        if self.is_stream:
            return self.items_per_s
        absent = np.maximum(1 - self.held(longer_s), TINY)
        return np.asarray(-np.log(absent) / (self.life_s + longer_s))


class ValueModel:
    """The flows of a query, by the rate model."""

    def __init__(self, rates: RateModel, windows: Sequence[Window | None]) -> None:
        self.rates = rates
        self._windows = windows
        self._known: dict[tuple[int, int | None, tuple[int, ...]], FlowValues] = {}

    def flow(self, mask: int, key: tuple[int, ...], head: int | None = None) -> FlowValues:
        """The values of a joined set under a key; with a head, of what that stream's tuples complete."""
        if not mask & (mask - 1):
            head = None
        known = self._known.get((mask, head, key))
        if known is None:
            known = self._known[mask, head, key] = self._flow(mask, key, head)
        return known

    def _flow(self, mask: int, key: tuple[int, ...], head: int | None) -> FlowValues:
        rates, members = self.rates, [n for n in range(len(self.rates.sources)) if mask >> n & 1]
        counts = _combined([rates.attributes[cls].groups.counts for cls in key])
        agreeing = _combined([self._agreeing(cls, mask) for cls in key])
        others = [a.agreement(mask) for cls, a in enumerate(rates.attributes) if cls not in key]
        items = rates.unfiltered_per_s(mask, head) * math.prod(others) * agreeing
        if len(members) == 1:
            return self._stream(members[0], counts, items)
        life = 1 / sum(rates.sources[n].turnover_per_s for n in members)
        carriers = {n: c for n in members if (c := self._carrier(n, key)) is not None}
        heads = carriers.pop(head) if head in carriers else None
        return FlowValues(counts, items, life, heads, tuple(carriers.values()))

    def _stream(self, n: int, counts: FloatArray, items: FloatArray) -> FlowValues:
        life, window = 1 / self.rates.sources[n].turnover_per_s, self._windows[n]
        tumbles = isinstance(window, TumbleWindow | TumbleRowsWindow)
        return FlowValues(counts, items, life, None, (), tumbles, window is None or window.is_bounded)

    def _carrier(self, n: int, key: tuple[int, ...]) -> Carrier | None:
        source, attributes = self.rates.sources[n], self.rates.attributes
        if not all(n in attributes[cls].members for cls in key):
            return None
        shares = _combined([attributes[cls].product(1 << n) for cls in key])
        return Carrier(source.rate_per_s * shares, 1 / source.turnover_per_s)

    def _agreeing(self, cls: int, mask: int) -> FloatArray:
        attribute = self.rates.attributes[cls]
        inside = mask & attribute.mask
        return np.asarray(attribute.product(inside) * attribute.correction(inside))


def _combined(parts: Sequence[FloatArray]) -> FloatArray:
    """Every combination of one entry of each part, multiplied."""
    whole = np.ones(1)
    for part in parts:
        whole = np.multiply.outer(whole, part).ravel()
    return whole

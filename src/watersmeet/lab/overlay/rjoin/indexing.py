"""Where to index a query (RJoin sections 6 and 7).

A query may wait under any of its candidate keys; each tuple that arrives there costs a rewriting, so the key
with the lowest rate of incoming tuples (RIC) is best. Four strategies:

    first    the first candidate in the WHERE clause
    random   any candidate
    worst    the candidate with the highest rate, known at no cost: the paper's worst case
    ric      the lowest rate, which candidates are asked for

Candidates of an input query are one relation-attribute pair of each relation (all attributes of a relation
arrive at the same rate); of a rewritten query the relation-attribute-value triples of its WHERE clause,
written or implied, and, where `pairs_for_rewritten` says so, the pairs too.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Callable
from typing import Literal, NamedTuple

from watersmeet.lab.overlay.rjoin.messages import Rate, Rates
from watersmeet.lab.overlay.rjoin.query import Rewriting, Step

Strategy = Literal["first", "random", "worst", "ric"]
STRATEGIES: tuple[Strategy, ...] = ("first", "random", "worst", "ric")


class Candidate(NamedTuple):
    """A key to wait under, for which input, and whether the key is a pair (attribute level)."""

    input: int
    key: str
    is_pair: bool


class ArrivalRates:
    """How many tuples came under each key, ever or within the last `window_us`."""

    __slots__ = ("_counts", "_times", "_window_us")

    def __init__(self, window_us: int | None) -> None:
        self._window_us = window_us
        self._counts: dict[str, int] = {}
        self._times: dict[str, list[int]] = {}

    def note(self, key: str, now_us: int) -> None:
        if self._window_us is None:
            self._counts[key] = self._counts.get(key, 0) + 1
        else:
            self._times.setdefault(key, []).append(now_us)

    def of(self, key: str, now_us: int) -> int:
        if self._window_us is None:
            return self._counts.get(key, 0)
        times = self._times.get(key)
        if not times:
            return 0
        del times[: bisect_right(times, now_us - self._window_us)]
        return len(times)

    def seen(self) -> list[str]:
        return [*self._counts, *self._times]

    def hand_over(self, to: ArrivalRates, moves: Callable[[str], bool]) -> None:
        for key in [key for key in self._counts if moves(key)]:
            to._counts[key] = self._counts.pop(key)
        for key in [key for key in self._times if moves(key)]:
            to._times[key] = self._times.pop(key)


class CandidateTable:
    """What a node knows of candidates' rates and addresses: the most recent it has received."""

    __slots__ = ("_known", "_max_age_us")

    def __init__(self, max_age_us: int | None) -> None:
        self._known: Rates = {}
        self._max_age_us = max_age_us

    def learn(self, rates: Rates) -> None:
        known = self._known
        for key, rate in rates.items():
            old = known.get(key)
            if old is None or old.learned_us <= rate.learned_us:
                known[key] = rate

    def get(self, key: str) -> Rate | None:
        return self._known.get(key)

    def is_stale(self, rate: Rate, now_us: int) -> bool:
        return self._max_age_us is not None and now_us - rate.learned_us > self._max_age_us


def input_candidates(query: Rewriting, rng: random.Random) -> list[Candidate]:
    """One pair of each relation of an input query; which of the relation's attributes is random."""
    keys: dict[int, list[str]] = {}
    for candidate in all_pairs(query):
        keys.setdefault(candidate.input, []).append(candidate.key)
    return [
        Candidate(n, rng.choice(found) if len(found) > 1 else found[0], True) for n, found in keys.items()
    ]


def all_pairs(query: Rewriting) -> list[Candidate]:
    """Every pair of an input query, in WHERE order."""
    _, pairs = query.query.candidates(query.awaited, set())
    return [Candidate(input_, table.attribute_key, True) for input_, table in pairs]


def rewritten_candidates(query: Rewriting, step: Step, with_pairs: bool) -> list[Candidate]:
    """Where a query rewritten by a step may wait, in WHERE order, triples first."""
    values = query.values
    found = [Candidate(input_, table[values[cls]], False) for input_, table, cls in step.triples]
    if with_pairs:
        found += [Candidate(input_, table.attribute_key, True) for input_, table in step.pairs]
    return found


def least(rates: list[int], rng: random.Random) -> int:
    """The index of the lowest rate; a random one among equals, so that no key is everybody's choice."""
    low = min(rates)
    if rates.count(low) == 1:
        return rates.index(low)
    return rng.choice([n for n, rate in enumerate(rates) if rate == low])


def most(rates: list[int], rng: random.Random) -> int:
    """The index of the highest rate, a random one among equals."""
    return least([-rate for rate in rates], rng)

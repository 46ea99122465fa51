"""Which values are so frequent that one input's tuples of them should be spread over the buckets.

The load of a bucket is counted in tuples taken in and combinations made of them, per unit of time. A value v
of a class, with rate r_i of input i and windows W_i, brings to its home

    rows  r_1 + .. + r_m        combinations  sum over i of r_i * product over j != i of (r_j W_j)

If input s is spread over the p cells of the class, every cell gets (r_s + combinations) / p and the rows of
all other inputs. So spreading takes load off the home and puts copies on all others: it pays as long as the
home is what the whole join waits for. `choose_hot` therefore spreads the heaviest value of the busiest cell,
again and again, and keeps as many of these steps as make the busy cells least busy (by the 8-norm of the
loads: nearly the maximum, but it counts when one of two equally busy cells is relieved). That is the
threshold: it follows from the loads, and an even stream has no hot value. What is not known value by value is
taken as evenly spread.

A value stays hot until sending it home would hardly be felt, so that one at the border does not flap, and
until another input has become far more frequent than the one that is spread.

Example: a and b at 100 tuples/s each, windows of 0.1 s, 4 cells. v is half of a and a hundredth of b: 51
rows and 10 combinations a second go to its home, beside 37 of other values, which is all that the other
cells have. With a spread every cell has 53, and 3 copies a second are made.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
V = TypeVar("V", bound=Hashable)

HEAT_ABOVE = 1.15  # times the mean load: a busiest cell below that is left alone
LEAST_GAIN = 0.05  # of the mean load: what spreading a value must take off its home
LEAST_USE = 0.01  # of the mean load: a hot value whose return would add less than that cools
TOO_DEAR = 1.03  # times the norm without it: a hot value whose copies cost more than it spares cools
SWAP_ABOVE = 2.0  # times the rate of the spread input: the most frequent one takes its place
MOST_VALUES = 64  # of one class, cooling ones too: tables stay small


@dataclass(frozen=True)
class ClassLoad(Generic[V]):
    """What the tuples of a class bring: rates by input, in all and of the values that are known."""

    cells: int  # the share of the class: buckets along its axis
    windows: tuple[float, ...]
    rates: tuple[float, ...]
    values: Mapping[V, tuple[float, ...]]
    homes: Mapping[V, int]

    def combinations(self, value: V) -> float:
        """Combinations of this value's tuples that come about in a unit of time."""
        rates = self.values[value]
        live = [rate * window for rate, window in zip(rates, self.windows, strict=True)]
        return sum(
            rate * math.prod(n for j, n in enumerate(live) if j != i) for i, rate in enumerate(rates) if rate
        )

    def most_frequent(self, value: V) -> int:
        """The input to spread: the one whose tuples would cost most to copy."""
        rates = self.values[value]
        return rates.index(max(rates))

    def load(self, value: V, spread: int | None) -> Floats:
        """What a value brings to each cell."""
        rows, made = sum(self.values[value]), self.combinations(value)
        if spread is None:
            at_home = np.zeros(self.cells)
            at_home[self.homes[value]] = rows + made
            return at_home
        own = self.values[value][spread]
        return np.full(self.cells, (own + made) / self.cells + rows - own)

    def loads(self, hot: Mapping[V, int]) -> Floats:
        """The load of each cell, with these values spread."""
        known = [sum(self.values[value]) for value in self.values]
        rest = max(0.0, sum(self.rates) - sum(known)) / self.cells
        return np.full(self.cells, rest) + sum(self.load(value, hot.get(value)) for value in self.values)


def choose_hot(
    load: ClassLoad[V], hot: Mapping[V, int], cooling: Mapping[V, int] | None = None
) -> dict[V, int]:
    """The values to spread from now on, each with the input that is spread, given those that are now.

    A value that is still cooling can become hot again only with the input that was spread before.
    """
    kept = {value: spread for value, spread in hot.items() if value in load.values}
    kept = {value: spread for value, spread in kept.items() if not _wants_swap(load, value, spread)}
    kept = _without_idle(load, kept)
    if hot.keys() - kept.keys():
        return kept  # what has just been given up is not taken up again at once
    loads, heated = load.loads(kept), _without_idle(load, _heat(load, kept, cooling or {}))
    pays = _norm(load.loads(heated)) < _norm(loads) - LEAST_GAIN * loads.mean()
    return heated if pays and kept.items() <= heated.items() else kept


def _without_idle(load: ClassLoad[V], hot: Mapping[V, int]) -> dict[V, int]:
    """The hot values whose return to their homes would be felt."""
    kept, loads = dict(hot), load.loads(hot)
    for value in sorted(hot, key=load.combinations):
        home, without = load.homes[value], loads - load.load(value, kept[value]) + load.load(value, None)
        is_idle = without[home] - loads[home] < LEAST_USE * loads.mean()
        if is_idle or _norm(loads) > TOO_DEAR * _norm(without):
            loads = without
            del kept[value]
    return kept


def _heat(load: ClassLoad[V], hot: Mapping[V, int], cooling: Mapping[V, int]) -> dict[V, int]:
    """These values and the first of those to follow, as many as make the busy cells least busy."""
    loads, chosen, passed = load.loads(hot), dict(hot), set(hot)
    best, least = dict(hot), _norm(loads)
    while len({*chosen, *cooling}) < MOST_VALUES and loads.max() > HEAT_ABOVE * loads.mean():
        busiest = int(loads.argmax())
        others = [value for value in load.values if load.homes[value] == busiest and value not in passed]
        if not others:
            break
        value = max(others, key=lambda one: sum(load.values[one]) + load.combinations(one))
        passed.add(value)
        spread = load.most_frequent(value)
        with_it = loads - load.load(value, None) + load.load(value, spread)
        is_felt = loads[busiest] - with_it[busiest] > LEAST_GAIN * loads.mean()
        if is_felt and cooling.get(value, spread) == spread:
            chosen[value], loads = spread, with_it
            if _norm(loads) < least:
                best, least = dict(chosen), _norm(loads)
    return best


def _norm(loads: Floats) -> float:
    return float(np.linalg.norm(loads, 8))


def _wants_swap(load: ClassLoad[V], value: V, spread: int) -> bool:
    rates = load.values[value]
    return max(rates) > SWAP_ABOVE * rates[spread]

"""Bounds on differences of event times, their closure, and the windows that follow.

A bound says that one instant is at most so much later than another. Bounds add up along a path, so the
tightest ones are shortest paths (a difference-bound matrix). With t the latest event time of an answer, a
tuple of x is needed for as long as t - ts(x) can be. As t is one of the event times, that is the largest
of the bounds of each input over x, or the bound of t over x where that is less.

    b.ts >= a.ts  AND  b.ts <= a.ts + 5 min     a is at most 0 later than b, b at most 5 min later than a
    so a tuple of a is needed for 5 min, one of b for no time at all
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from watersmeet.query import ANSWER_TIME

NO_BOUND = 2**80  # more than any two instants can be apart


@dataclass(frozen=True)
class Bound:
    """`later` is at most so much later than `earlier`; both are inputs, or `answer_time`."""

    later: str
    earlier: str
    most_us: int

    @property
    def names(self) -> frozenset[str]:
        return frozenset({self.later, self.earlier})


class Contradiction(Exception):  # noqa: N818 - not an error: such a query has no answers
    """No event times meet all of the bounds."""


def close_bounds(names: Sequence[str], bounds: Iterable[Bound]) -> dict[tuple[str, str], int]:
    """The tightest bound of each name over each; Contradiction if nothing can meet them all.

    >>> close_bounds(["a", "b", "c"], [Bound("b", "a", 5), Bound("c", "b", 3)])["c", "a"]
    8
    """
    most = {(one, other): 0 if one == other else NO_BOUND for one in names for other in names}
    for bound in bounds:
        pair = bound.later, bound.earlier
        most[pair] = min(most[pair], bound.most_us)
    for middle in names:
        for one in names:
            for other in names:
                if NO_BOUND not in (most[one, middle], most[middle, other]):
                    most[one, other] = min(most[one, other], most[one, middle] + most[middle, other])
    if any(most[name, name] < 0 for name in names):
        raise Contradiction
    return most


def needed_us(aliases: Sequence[str], bounds: Iterable[Bound]) -> Mapping[str, int]:
    """How long after its event time a tuple of each input can still be in an answer, where that is bounded.

    Where the bounds contradict each other no tuple is ever needed.
    """
    newest = [Bound(alias, ANSWER_TIME, 0) for alias in aliases]
    try:
        most = close_bounds([*aliases, ANSWER_TIME], [*bounds, *newest])
    except Contradiction:
        return dict.fromkeys(aliases, 0)
    longest = {
        alias: min(most[ANSWER_TIME, alias], max(most[other, alias] for other in aliases))
        for alias in aliases
    }
    return {alias: longest_us for alias, longest_us in longest.items() if longest_us < NO_BOUND}

"""MJoin, the operator that PMJoin's plans run at their sites.

Paper: PMJoin, DASFAA 2006, section 3.2, after Viglas, Naughton and Burger (VLDB 2003). Each input has an
index in memory. What arrives on one input probes the indexes of the others, one after another, and then
enters its own; so every combination is found once, when the last of its parts arrives, in whatever order
they come.

Where we differ: a stored tuple is kept by its lifetime [t, end) instead of a window's size, which makes all
window kinds alike. It is forgotten when no tuple that may still arrive can meet it: `lag_us` bounds how long
after its event time a tuple may arrive here, so at `now` all that ended by `now - lag_us` can go. A tuple
that arrives even later broke the bound: it is refused and counted, so no wrong answer comes out.

The operator does no I/O: it gets an input's number, a tuple and the time, and returns what it found.

Example: inputs r and s, joined on their only class; r at 0 s waits under its key, s at 1 s finds it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Sequence

from watersmeet.lab.wan.arrivals import Joined

Order = list[tuple[int, tuple[int, ...]]]  # the inputs to probe, and the classes to look them up by
Index = dict[tuple[Hashable, ...], deque[Joined]]

SWEEP_EVERY = 4096  # arrivals between two looks at everything that is kept, at least


class MJoinOperator:
    """A join of two or more inputs at one site."""

    def __init__(self, site: str, classes: Sequence[frozenset[int]], lag_us: int | None) -> None:
        """`classes` are the attribute classes that each input has; without a lag nothing is forgotten."""
        self.site = site
        self.lag_us = lag_us
        self.late = 0
        self._orders = [_probing_order(classes, head) for head in range(len(classes))]
        needed = sorted({step for order in self._orders for step in order})
        self._indexes: dict[tuple[int, tuple[int, ...]], Index] = {step: {} for step in needed}
        self._own = [[step for step in needed if step[0] == n] for n in range(len(classes))]
        self._until_sweep = SWEEP_EVERY

    def receive(self, source: int, arrived: Joined, now_us: int) -> list[Joined]:
        """The combinations that a tuple on one input completes."""
        horizon = None if self.lag_us is None else now_us - self.lag_us
        if horizon is not None and arrived.t < horizon:
            self.late += 1
            return []
        self._until_sweep -= 1
        if horizon is not None and self._until_sweep <= 0:
            self._sweep(horizon)
        found = [arrived]
        for step in self._orders[source]:
            found = self._extend(found, step, horizon)
            if not found:
                break
        for step in self._own[source]:
            key = tuple([arrived.keys[cls] for cls in step[1]])
            self._indexes[step].setdefault(key, deque()).append(arrived)
        return found

    def _extend(
        self, partial: list[Joined], step: tuple[int, tuple[int, ...]], horizon: int | None
    ) -> list[Joined]:
        index, classes = self._indexes[step], step[1]
        longer = []
        for part in partial:
            chain = index.get(tuple([part.keys[cls] for cls in classes]))
            if chain is None:
                continue
            if horizon is not None:  # a rare value's few arrivals must not walk all that have ended since
                while chain and chain[0].end <= horizon:
                    chain.popleft()
            for other in chain:
                t = part.t if part.t > other.t else other.t
                end = part.end if part.end < other.end else other.end
                if t < end:
                    longer.append(Joined(t, end, {**part.keys, **other.keys}, part.members + other.members))
        return longer

    @property
    def stored(self) -> int:
        """How many tuples are kept, each counted once for each index it is in."""
        return sum(len(chain) for index in self._indexes.values() for chain in index.values())

    def _sweep(self, horizon: int) -> None:
        """Forgets ended tuples; the next sweep waits for as many arrivals as are kept, so it stays cheap."""
        for step, index in self._indexes.items():
            kept = {key: deque(one for one in chain if one.end > horizon) for key, chain in index.items()}
            self._indexes[step] = {key: chain for key, chain in kept.items() if chain}
        self._until_sweep = max(SWEEP_EVERY, self.stored)


def _probing_order(classes: Sequence[frozenset[int]], head: int) -> Order:
    """The other inputs so that each shares a class with those before it; the papers leave the order open."""
    order: Order = []
    reached, left = set(classes[head]), [n for n in range(len(classes)) if n != head]
    while left:
        nearest = max(left, key=lambda n: (len(reached & classes[n]), -n))
        order.append((nearest, tuple(sorted(reached & classes[nearest]))))
        reached |= classes[nearest]
        left.remove(nearest)
    return order

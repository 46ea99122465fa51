"""The state of one RJoin node, and its hand-over when the ring changes."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from watersmeet.lab.overlay.rjoin.indexing import ArrivalRates, Candidate, CandidateTable
from watersmeet.lab.overlay.rjoin.query import Published, Rewriting
from watersmeet.lab.simulation import row_order_key
from watersmeet.query import Window

Placement = tuple[Rewriting, list[Candidate]]  # a query and where it may wait


@dataclass(slots=True)
class Pending:
    """Queries that cannot be indexed before the rates of their candidates are known."""

    placements: list[Placement]
    replies_due: int


class Census:
    """All tuples of one relation in order, as tuple windows count them: by ts, then by values."""

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: list[tuple[Any, ...]] = []

    def __len__(self) -> int:
        return len(self._entries)

    def extend(self, other: Census) -> None:
        self._entries = sorted([*self._entries, *other._entries])

    def add(self, tuple_: Published) -> None:
        insort(self._entries, _order_key(tuple_))

    def is_inside(self, tuple_: Published, window: Window, since_us: int, t: int) -> bool:
        """Whether a tuple is in its window at time t, counting the tuples published from `since_us` on."""
        first = bisect_left(self._entries, (since_us,))
        position = bisect_left(self._entries, _order_key(tuple_)) - first
        until_t = bisect_left(self._entries, (t + 1,)) - first
        return window.successor(position) >= until_t


class NodeState:
    """Queries waiting and tuples stored, by key, and what the node knows of other keys' rates."""

    __slots__ = ("altt", "arrivals", "candidates", "census", "pending", "tuples", "waiting")

    def __init__(self, ric_window_us: int | None, ric_max_age_us: int | None) -> None:
        self.waiting: dict[str, list[Rewriting]] = {}
        self.tuples: dict[str, list[Published]] = {}  # received at the value level
        self.altt: dict[str, deque[tuple[int, Published]]] = {}  # with the time each arrived
        self.census: dict[str, Census] = {}
        self.arrivals = ArrivalRates(ric_window_us)
        self.candidates = CandidateTable(ric_max_age_us)
        self.pending: dict[int, Pending] = {}

    @property
    def items(self) -> int:
        """Everything that counts as stored: rewritten queries and tuples."""
        queries = sum(q.parent is not None for waiting in self.waiting.values() for q in waiting)
        tables = (self.tuples, self.altt, self.census)
        return queries + sum(len(kept) for table in tables for kept in table.values())

    def load_by_key(self, now_us: int) -> dict[str, int]:
        """The work under each key: rewritten queries that wait, and tuples received."""
        load = {key: self.arrivals.of(key, now_us) for key in self.arrivals.seen()}
        for key, waiting in self.waiting.items():
            load[key] = load.get(key, 0) + sum(query.parent is not None for query in waiting)
        return load

    def hand_over(self, to: NodeState, moves: Callable[[str], bool]) -> None:
        """Moves everything under keys for which `moves` holds."""
        _move(self.waiting, to.waiting, moves)
        _move(self.tuples, to.tuples, moves)
        _move(self.altt, to.altt, moves)
        _move(self.census, to.census, moves)
        self.arrivals.hand_over(to.arrivals, moves)

    def drop_expired(self, key: str, now_us: int, transit_us: int) -> int:
        """Forgets queries that no tuple still to come can trigger; says how many."""
        waiting = self.waiting[key]
        kept = [query for query in waiting if not is_expired(query, now_us, transit_us)]
        if not kept:
            del self.waiting[key]
        else:
            self.waiting[key] = kept
        return len(waiting) - len(kept)

    def drop_old(self, key: str, now_us: int, altt_us: int) -> int:
        """Empties an attribute's ALTT of tuples that arrived more than Delta ago; says how many."""
        table = self.altt[key]
        dropped = 0
        while table and table[0][0] + altt_us < now_us:
            table.popleft()
            dropped += 1
        if not table:
            del self.altt[key]
        return dropped


def _move(mine: dict[str, Any], theirs: dict[str, Any], moves: Callable[[str], bool]) -> None:
    for key in [key for key in mine if moves(key)]:
        kept = mine.pop(key)
        if key in theirs:
            theirs[key].extend(kept)
        else:
            theirs[key] = kept


def is_expired(query: Rewriting, now_us: int, transit_us: int) -> bool:
    """Whether every tuple that can still arrive was published too late for a query.

    A tuple arrives at most `transit_us` after its publication, so it was published at `now - transit` at the
    earliest.
    """
    if query.query.endless:
        return False
    earliest = now_us - transit_us
    return query.end <= earliest or query.query.until_us < earliest


def _order_key(tuple_: Published) -> tuple[Any, ...]:
    return (*row_order_key(tuple_.stream, tuple_.ts, tuple_.named()), tuple_.number)

"""The window of one lane at a node, and load shedding when memory is full.

After Palma, Akbarinia, Pacitti and Valduriez, DHTJoin (extended version), sections 2.2 and 3.3.2: an arriving
tuple first probes the other windows, then enters its own; where there is no room, a load shedding policy
chooses which tuple leaves.

    random         any tuple, the newcomer included
    oldest         the tuple that would expire first
    least likely   the tuple that can expect the fewest matches: the arrivals of its value on the lanes it
                   joins with, times its remaining lifetime
    newcomer       the arriving tuple, which does not even probe. The paper's completeness (equation (11))
                   assumes this, since it asks that all tuples of an answer be stored

The node decides when a tuple may be forgotten: with message delays, a probe sent before the end of its
lifetime may still be under way.

Example: a window of room for two, holding ts 1 and ts 5; ts 7 arrives under `oldest`, and ts 1 leaves.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Hashable, Iterable
from typing import Literal, get_args

from watersmeet.errors import ConfigurationError
from watersmeet.lab.overlay.dhtjoin.operators import Partial, Published

Shedding = Literal["random", "oldest", "least likely", "newcomer"]
Expectation = Callable[["Held"], float]  # how many matches a held tuple can expect from a unit of time


class Held:
    """A tuple or partial result kept: its number among the node's arrivals, its key, and when it expires."""

    __slots__ = ("cached", "expires_us", "item", "key", "position", "seq")

    def __init__(self, seq: int, key: Hashable, item: Published | Partial, expires_us: int) -> None:
        self.seq = seq
        self.key = key
        self.item = item
        self.expires_us = expires_us
        self.position = -1  # in the window's list; -1 when it is in none
        self.cached: dict[str, Hashable] = {}


def check_memory(limit: int | None, shedding: str) -> None:
    """Refuse a memory or a policy that makes no sense."""
    if limit is not None and limit < 1:
        raise ConfigurationError(f"a window needs room for at least one tuple, not {limit}")
    if shedding not in get_args(Shedding):
        known = ", ".join(get_args(Shedding))
        raise ConfigurationError(f"there is no shedding policy {shedding!r}; use one of {known}")


class LaneWindow:
    """The tuples of one lane at one node, by key; at most `limit` of them."""

    def __init__(self, limit: int | None = None, shedding: Shedding = "random") -> None:
        check_memory(limit, shedding)
        self.limit = limit
        self.shedding = shedding
        self.arrived: dict[Hashable, int] = {}  # how many of each key have ever come
        self.shed = 0
        self._by_key: dict[Hashable, dict[int, Held]] = {}
        self._by_expiry: list[tuple[int, int, Held]] = []
        self._all: list[Held] = []

    def __len__(self) -> int:
        return len(self._all)

    def under(self, key: Hashable) -> Iterable[Held]:
        """Everything held under a key, in order of arrival."""
        chain = self._by_key.get(key)
        return chain.values() if chain else ()

    def everything(self) -> list[Held]:
        """All that is held, in order of arrival."""
        return sorted(self._all, key=lambda held: held.seq)

    def expire(self, horizon_us: int) -> int:
        """Forget everything that expires by an instant; returns how many that was."""
        heap, before = self._by_expiry, len(self._all)
        while heap and heap[0][0] <= horizon_us:
            held = heapq.heappop(heap)[2]
            if held.position >= 0:
                self.remove(held)
        return before - len(self._all)

    def prolong(self, span_us: int) -> None:
        """Keep the tuples of a stream longer, as a query with a longer window has come."""
        for held in self._all:
            if isinstance(held.item, Published):
                held.expires_us = max(held.expires_us, held.item.ts + span_us + 1)
        self._by_expiry = [(held.expires_us, held.seq, held) for held in self._all]
        heapq.heapify(self._by_expiry)

    def refuses(self, key: Hashable) -> bool:
        """Whether the policy turns an arrival away unseen."""
        full = self.limit is not None and len(self._all) >= self.limit
        if not full or self.shedding != "newcomer":
            return False
        self.arrived[key] = self.arrived.get(key, 0) + 1
        self.shed += 1
        return True

    def insert(self, held: Held) -> None:
        """Keep an arrival; `make_room` afterwards brings the window back to its limit."""
        held.position = len(self._all)
        self._all.append(held)
        self._by_key.setdefault(held.key, {})[held.seq] = held
        heapq.heappush(self._by_expiry, (held.expires_us, held.seq, held))
        self.arrived[held.key] = self.arrived.get(held.key, 0) + 1

    def make_room(self, now_us: int, expectation: Expectation, rng: random.Random) -> int:
        """Drop what the policy chooses while there is more than memory holds; returns how many that was."""
        before = self.shed
        while self.limit is not None and len(self._all) > self.limit:
            self.remove(self._victim(now_us, expectation, rng))
            self.shed += 1
        return self.shed - before

    def _victim(self, now_us: int, expectation: Expectation, rng: random.Random) -> Held:
        if self.shedding == "oldest":
            while self._by_expiry[0][2].position < 0:
                heapq.heappop(self._by_expiry)
            return self._by_expiry[0][2]
        if self.shedding == "least likely":
            return min(
                self._all,
                key=lambda held: (
                    max(0, held.expires_us - now_us) * expectation(held),
                    held.expires_us,
                    held.seq,
                ),
            )
        return self._all[rng.randrange(len(self._all))]

    def remove(self, held: Held) -> None:
        """Forget one thing held."""
        last = self._all.pop()
        if last is not held:
            self._all[held.position] = last
            last.position = held.position
        held.position = -1
        chain = self._by_key[held.key]
        del chain[held.seq]
        if not chain:
            del self._by_key[held.key]

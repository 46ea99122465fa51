"""A window of the semijoin protocols at some site: W2 at its home, or a copy of some of it elsewhere.

After Tran and Lee (2010), sections 2.2 and 3.2. A window keeps what may still be probed, however late the
probing tuple comes (Constraint 2), so an ended item stays until its time is settled; and a probe takes
only items alive at the probing tuple's own time (Constraint 3). The non-redundant semijoin (Algorithm 7)
returns each item once, by a bit that says it was sent.

Where we differ: the paper's limit is [ts - T, ts); ours is the lifetime [t, end) of query/window.py, so that
every kind of window, and a partial result, is the same. Of two tuples of one instant the one whose input
comes later in FROM counts as the later one, and finds the other. Expired items leave in the order of
(end, number); for a stream that is the order in which they came, the paper's FIFO queue.

Example, T = 10: with items of ts 8 and 20, a probe at 18 finds the first; one at 19 neither.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Callable, Iterable
from heapq import heappop, heappush

from watersmeet.plan.sites.semijoin.oneway.items import Ended, Item, Key
from watersmeet.query import NEVER


class Held:
    """An item in one site's window: its end as this site knows it, and whether it was sent on."""

    __slots__ = ("end", "item", "sent", "spell", "t")

    def __init__(self, item: Item) -> None:
        self.item = item
        self.t = item.t
        self.end = item.end
        self.sent = False
        self.spell = 0  # the number of its value's entry in V2

    def as_known(self) -> Item:
        """The item with its end as far as this site knows it: what a shipment carries."""
        return self.item if self.end == self.item.end else self.item._replace(end=self.end)


class LastIntervals:
    """Items by the last interval whose tuples may meet them, the first to end at hand."""

    def __init__(self) -> None:
        self._held: dict[int, list[Held]] = {}
        self._order: list[int] = []  # a heap of all keys of `_held`

    @property
    def first(self) -> int | None:
        return self._order[0] if self._order else None

    def add(self, last: int, held: Held) -> None:
        if last not in self._held:
            self._held[last] = []
            heappush(self._order, last)
        self._held[last].append(held)

    def remove(self, last: int, held: Held) -> None:
        if held in self._held.get(last, ()):
            self._held[last].remove(held)

    def up_to(self, interval: int) -> list[Held]:
        """Takes out all items that only tuples of this interval and earlier ones could meet."""
        found: list[Held] = []
        while self._order and self._order[0] <= interval:
            found += self._held.pop(heappop(self._order))
        found.sort(key=_order)
        return found


class HeldWindow:
    """Items by join value, in the order they came, with the ends that are known.

    With `leaves`, an item may leave the window and still be kept here for tuples that come late. `counted`
    windows know how many items are alive at an instant, which costs memory for all that ever came.
    """

    def __init__(
        self,
        key_of: Callable[[Item], Key],
        interval_us: int,
        *,
        counted: bool = True,
        leaves: bool = False,
    ) -> None:
        self.key_of = key_of
        self._interval_us = interval_us
        self._counted = counted
        self._by_key: dict[Key, list[Held]] = {}
        self._by_number: dict[int, Held] = {}
        self._kept = LastIntervals()
        self._leaving = LastIntervals() if leaves else None
        self._starts: list[int] = []  # of all items ever, in order, to count those alive at an instant
        self._ends: list[int] = []

    def __len__(self) -> int:
        return len(self._by_number)

    def __contains__(self, key: Key) -> bool:
        return key in self._by_key

    def insert(self, items: Iterable[Item]) -> list[Held]:
        """Takes items in; returns them as they are held."""
        entries = [Held(item) for item in items]
        for held in entries:
            self._by_key.setdefault(self.key_of(held.item), []).append(held)
            self._by_number[held.item.number] = held
            if self._counted:
                _keep(self._starts, held.t)
            self._note_end(held)
        return entries

    def learn(self, ended: Iterable[Ended]) -> list[Held]:
        """Sets ends that have become known; returns the items they are of, if they are here."""
        found = []
        for number, end in ended:
            held = self._by_number.get(number)
            if held is not None and end < held.end:
                if held.end != NEVER:
                    self._forget_end(held)
                held.end = end
                self._note_end(held)
                found.append(held)
        return found

    def settle(self, interval: int) -> list[Held]:
        """Removes items that only tuples of this interval and earlier ones could meet, first to end first."""
        removed = self._kept.up_to(interval)
        self._forget(removed)
        return removed

    def leave(self, interval: int) -> list[Held]:
        """The items that leave the window when tuples of later intervals come; they are kept all the same."""
        assert self._leaving is not None
        return self._leaving.up_to(interval)

    def next_leaving(self) -> int | None:
        """The first interval before which some item has to leave."""
        first = (self._kept if self._leaving is None else self._leaving).first
        return None if first is None else first + 1

    def alive_from(self, key: Key, interval: int) -> list[Held]:
        """The items with a join value that tuples of this interval or of later ones may meet."""
        return [held for held in self._by_key.get(key, ()) if self._last(held) >= interval]

    def interval_of(self, t: int) -> int:
        return t // self._interval_us

    def remove_first(self, count: int, key: Key | None = None) -> list[Held]:
        """Removes the first to end, of all items or of those with one join value (Algorithms 8 and 9)."""
        if count <= 0:
            return []
        entries = self._by_number.values() if key is None else self._by_key.get(key, [])
        removed = sorted(entries, key=_order)[:count]
        for held in removed:
            self._kept.remove(self._last(held), held)
        self._forget(removed)
        return removed

    def matches(self, key: Key, t: int, limit: int) -> list[Held]:
        """The items with a join value that came up to `limit` and are alive at t (Constraint 3)."""
        return [held for held in self._by_key.get(key, ()) if held.t <= limit and held.end > t]

    def with_key(self, key: Key) -> list[Held]:
        return list(self._by_key.get(key, ()))

    def unsent(self, keys: Iterable[Key]) -> list[Held]:
        """The non-redundant semijoin (Algorithm 7): matching items never sent before, now marked as sent."""
        found = [held for key in keys for held in self._by_key.get(key, ()) if not held.sent]
        for held in found:
            held.sent = True
        found.sort(key=lambda held: held.item.number)
        return found

    def count_alive(self, t: int, limit: int) -> int:
        """How many items a nested loop within the limit looks at."""
        return bisect_right(self._starts, limit) - bisect_right(self._ends, t)

    def _last(self, held: Held) -> int:
        return (held.end - 1) // self._interval_us

    def _note_end(self, held: Held) -> None:
        if held.end == NEVER:
            return
        if self._counted:
            _keep(self._ends, held.end)
        for index in (self._kept, self._leaving):
            if index is not None:
                index.add(self._last(held), held)

    def _forget_end(self, held: Held) -> None:
        if self._counted:
            del self._ends[bisect_right(self._ends, held.end) - 1]
        for index in (self._kept, self._leaving):
            if index is not None:
                index.remove(self._last(held), held)

    def _forget(self, removed: Iterable[Held]) -> None:
        for held in removed:
            del self._by_number[held.item.number]
            key = self.key_of(held.item)
            entries = self._by_key[key]
            entries.remove(held)
            if not entries:
                del self._by_key[key]


def _order(held: Held) -> tuple[int, int]:
    return held.end, held.item.number


def _keep(ordered: list[int], value: int) -> None:
    """Adds to a sorted list, at its end as a rule."""
    if not ordered or value >= ordered[-1]:
        ordered.append(value)
    else:
        insort(ordered, value)

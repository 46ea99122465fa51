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

from watersmeet.lab.wan.semijoin.oneway.items import Ended, Item, Key
from watersmeet.query import NEVER


class Held:
    """An item in one site's window: its end as this site knows it, and whether it was sent on."""

    __slots__ = ("end", "item", "sent", "t")

    def __init__(self, item: Item) -> None:
        self.item = item
        self.t = item.t
        self.end = item.end
        self.sent = False

    def as_known(self) -> Item:
        """The item with its end as far as this site knows it: what a shipment carries."""
        return self.item if self.end == self.item.end else self.item._replace(end=self.end)


class HeldWindow:
    """Items by join value, in the order they came, with the ends that are known."""

    def __init__(self, key_of: Callable[[Item], Key], interval_us: int) -> None:
        self.key_of = key_of
        self._interval_us = interval_us
        self._by_key: dict[Key, list[Held]] = {}
        self._by_number: dict[int, Held] = {}
        self._by_last: dict[int, list[Held]] = {}  # by the last interval whose tuples may meet it
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
                    del self._ends[bisect_right(self._ends, held.end) - 1]
                    self._by_last[self._last(held)].remove(held)
                held.end = end
                self._note_end(held)
                found.append(held)
        return found

    def settle(self, interval: int) -> list[Held]:
        """Removes items that only tuples of this interval and earlier ones could meet, first to end first."""
        removed = [
            held
            for last in sorted(last for last in self._by_last if last <= interval)
            for held in self._by_last.pop(last)
        ]
        removed.sort(key=_order)
        self._forget(removed)
        return removed

    def remove_first(self, count: int, key: Key | None = None) -> list[Held]:
        """Removes the first to end, of all items or of those with one join value (Algorithms 8 and 9)."""
        if count <= 0:
            return []
        entries = self._by_number.values() if key is None else self._by_key.get(key, [])
        removed = sorted(entries, key=_order)[:count]
        for held in removed:
            self._by_last[self._last(held)].remove(held)
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
        if held.end != NEVER:
            _keep(self._ends, held.end)
            self._by_last.setdefault(self._last(held), []).append(held)

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

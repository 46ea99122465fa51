"""V2, its mirror V2@N1, and M2: join values of a window kept at another site by value and count vectors.

After Tran and Lee (2010), section 3.2.2, Algorithm 9 and Figure 5. The home site N2 keeps V2, an ordered
array with an entry (j, c, b) for each distinct join value of W2: the value, the number of tuples, and whether
they were sent. An update of W2 travels as the values of new entries (v_J), the count of every entry old and
new (v_C, in V2's order, 0 for an entry that goes), and the new tuples of values already sent (s_F). The other
site keeps its entries in the same order, so that counts need no values beside them.

A reading of ours: an entry of M2 without tuples is partial and has c = 0 (as in Example 4, while line 38 of
Algorithm 9 would set it to p); counts say nothing of its tuples, which are not there.

Example 4: W2 has c:1, a:2, e:1, of which c and a were sent; d, a and f come, one c and one a go. Then
v_J = (d, f), v_C = (0, 2, 1, 1, 1) for c, a, e, d, f, and s_F is the new tuple of a.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from watersmeet.lab.wan.semijoin.oneway.items import Ended, Item, Key
from watersmeet.lab.wan.semijoin.oneway.window import Held, HeldWindow


@dataclass(frozen=True, slots=True)
class VectorUpdate:
    """What N2 reports to N1 of one update of W2."""

    values: tuple[Key, ...]  # v_J
    counts: tuple[int, ...]  # v_C
    full: tuple[Item, ...] = ()  # s_F


@dataclass(slots=True)
class Entry:
    """An entry of V2."""

    count: int = 0
    sent: bool = False


class ValueArray:
    """V2 at its home site."""

    def __init__(self, key_of: Callable[[Item], Key]) -> None:
        self._key_of = key_of
        self.entries: dict[Key, Entry] = {}

    def __len__(self) -> int:
        return len(self.entries)

    def update(self, inserted: Sequence[Held], expired: Sequence[Held]) -> VectorUpdate | None:
        """Algorithm 9, lines 2-22; None where nothing changed."""
        if not inserted and not expired:
            return None
        fresh: list[Key] = []
        full: list[Item] = []
        for held in inserted:
            key = self._key_of(held.item)
            entry = self.entries.get(key)
            if entry is None:
                entry = self.entries[key] = Entry()
                fresh.append(key)
            elif entry.sent:
                held.sent = True
                full.append(held.as_known())
            entry.count += 1
        for held in expired:
            self.entries[self._key_of(held.item)].count -= 1
        counts = tuple([entry.count for entry in self.entries.values()])
        for key in [key for key, entry in self.entries.items() if not entry.count]:
            del self.entries[key]
        return VectorUpdate(tuple(fresh), counts, tuple(full))

    def mark_sent(self, keys: Iterable[Key]) -> None:
        """From now on new tuples of these values are sent as they come."""
        for key in keys:
            if key in self.entries:
                self.entries[key].sent = True


class ValueMirror:
    """V2@N1: the values of W2 and their counts, at the other site."""

    def __init__(self) -> None:
        self.counts: dict[Key, int] = {}

    def __len__(self) -> int:
        return len(self.counts)

    def __contains__(self, key: Key) -> bool:
        return key in self.counts

    def apply(self, update: VectorUpdate) -> None:
        """Section 3.2.2, the update of V2@N1 in SM-D1."""
        keys = (*self.counts, *update.values)
        self.counts = {key: count for key, count in zip(keys, update.counts, strict=True) if count}


class MixedWindow:
    """M2: every join value of W2, with its tuples where they have been fetched."""

    def __init__(self, key_of: Callable[[Item], Key], interval_us: int) -> None:
        self._key_of = key_of
        self.tuples = HeldWindow(key_of, interval_us)
        self.filled: dict[Key, bool] = {}  # in V2's order

    def __contains__(self, key: Key) -> bool:
        return key in self.filled

    def is_partial(self, key: Key) -> bool:
        """Whether the value is in W2 and its tuples are not here."""
        return self.filled.get(key) is False

    def apply(self, update: VectorUpdate, ended: Sequence[Ended] = ()) -> None:
        """Algorithm 9, lines 24-40; ends that are known come first, as they decide which goes first."""
        self.tuples.learn(ended)
        self.tuples.insert(update.full)
        for key in update.values:
            self.filled[key] = False
        for key, count in zip(list(self.filled), update.counts, strict=True):
            if self.filled[key]:
                self.tuples.remove_first(len(self.tuples.with_key(key)) - count, key)
            if not count:
                del self.filled[key]

    def fill(self, items: Iterable[Item]) -> None:
        """Algorithm 4, line 7: full tuples replace partial ones."""
        for held in self.tuples.insert(items):
            self.filled[self._key_of(held.item)] = True

"""V2, its mirror V2@N1, and M2: join values of a window kept at another site by value and count vectors.

After Tran and Lee (2010), section 3.2.2, Algorithm 9 and Figure 5. The home site N2 keeps V2 with an entry
(j, c, b) for each distinct join value of W2: the value, the number of tuples, and whether they were sent.
New values travel as v_J, new tuples of values already sent as s_F. How the rest of an update travels has two
forms:

    counts   the paper's: v_C, the count of every entry old and new, in V2's order, 0 for an entry that goes.
    The
             other site keeps its entries in the same order, so that counts need no values beside them.
    changes  ours: the entries that go, each by the number it had among all that ever came. An update is as
             large as what changed, where v_C is as large as V2. Counts are not needed: the other site knows
             when the tuples it has end.

The paper's cost formulas count neither v_C nor the entries that go. The lab's figures of the paper run
`counts` under these formulas; sites are advised, and plans run, with `changes`, under formulas that count
them (plan/sites/semijoin/shipped.py).

A reading of ours: an entry of M2 without tuples is partial and has c = 0 (as in Example 4, while line 38 of
Algorithm 9 would set it to p); counts say nothing of its tuples, which are not there.

Example 4: W2 has c:1, a:2, e:1, of which c and a were sent; d, a and f come, one c and one a go. Then
v_J = (d, f), s_F is the new tuple of a, and v_C = (0, 2, 1, 1, 1) for c, a, e, d, f; as changes,
entry 0 goes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from watersmeet.plan.sites.semijoin.oneway.items import Ended, Item, Key
from watersmeet.plan.sites.semijoin.oneway.window import Held, HeldWindow
from watersmeet.plan.sites.semijoin.shipped import gone_bytes


@dataclass(frozen=True, slots=True)
class VectorUpdate:
    """What N2 reports to N1 of one update of W2: with counts, or with the numbers of entries that go."""

    values: tuple[Key, ...]  # v_J
    counts: tuple[int, ...] | None = None  # v_C
    gone: tuple[int, ...] = ()
    full: tuple[Item, ...] = ()  # s_F

    def bytes(self, key_bytes: float, count_bytes: float) -> float:
        """The size of the vectors, without full tuples."""
        return (
            len(self.values) * key_bytes
            + len(self.counts or ()) * count_bytes
            + len(self.gone) * gone_bytes(key_bytes)
        )


@dataclass(slots=True)
class Entry:
    """An entry of V2."""

    number: int
    count: int = 0
    sent: bool = False


class ValueArray:
    """V2 at its home site."""

    def __init__(self, key_of: Callable[[Item], Key], form: str = "changes") -> None:
        self._key_of = key_of
        self._form = form
        self._numbers = 0
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
                entry = self.entries[key] = Entry(self._numbers)
                self._numbers += 1
                fresh.append(key)
            elif entry.sent:
                held.sent = True
                full.append(held.as_known())
            entry.count += 1
            held.spell = entry.number
        emptied: list[Key] = []
        for held in expired:
            key = self._key_of(held.item)
            entry = self.entries[key]
            entry.count -= 1
            if not entry.count:
                emptied.append(key)
        if self._form == "counts":
            counts = tuple([entry.count for entry in self.entries.values()])
            self._remove(emptied)
            return VectorUpdate(tuple(fresh), counts, full=tuple(full))
        gone = self._remove(emptied)
        if not fresh and not gone and not full:
            return None
        return VectorUpdate(tuple(fresh), gone=gone, full=tuple(full))

    def _remove(self, keys: Iterable[Key]) -> tuple[int, ...]:
        return tuple([self.entries.pop(key).number for key in keys])

    def mark_sent(self, keys: Iterable[Key]) -> None:
        """From now on new tuples of these values are sent as they come."""
        for key in keys:
            if key in self.entries:
                self.entries[key].sent = True

    def mark_spell_sent(self, key: Key, number: int) -> None:
        """The same, unless the value has gone since and come again."""
        if key in self.entries and self.entries[key].number == number:
            self.entries[key].sent = True


@dataclass
class _Numbered:
    """The values at the other site by the numbers that their home gave them: in the order they came."""

    keys: dict[int, Key] = field(default_factory=dict)
    numbers: dict[Key, int] = field(default_factory=dict)
    count: int = 0

    def add(self, values: Sequence[Key]) -> None:
        for number, key in enumerate(values, start=self.count):
            self.keys[number], self.numbers[key] = key, number
        self.count += len(values)

    def remove(self, gone: Sequence[int]) -> list[Key]:
        found = [self.keys.pop(number) for number in gone]
        for key in found:
            del self.numbers[key]
        return found


class ValueMirror:
    """V2@N1: the values of W2 at the other site, with their counts where these travel, else 1 for each."""

    def __init__(self) -> None:
        self.counts: dict[Key, int] = {}
        self._numbered = _Numbered()

    def __len__(self) -> int:
        return len(self.counts)

    def __contains__(self, key: Key) -> bool:
        return key in self.counts

    def apply(self, update: VectorUpdate) -> None:
        """Section 3.2.2, the update of V2@N1 in SM-D1."""
        if update.counts is not None:
            keys = (*self.counts, *update.values)
            self.counts = {key: count for key, count in zip(keys, update.counts, strict=True) if count}
            return
        self._numbered.add(update.values)
        self.counts.update(dict.fromkeys(update.values, 1))
        for key in self._numbered.remove(update.gone):
            del self.counts[key]


class MixedWindow:
    """M2: every join value of W2, with its tuples where they have been fetched."""

    def __init__(self, key_of: Callable[[Item], Key], interval_us: int, *, counted: bool = True) -> None:
        self._key_of = key_of
        self.tuples = HeldWindow(key_of, interval_us, counted=counted)
        self.filled: dict[Key, bool] = {}  # in V2's order
        self._numbered = _Numbered()

    def __contains__(self, key: Key) -> bool:
        return key in self.filled

    def is_partial(self, key: Key) -> bool:
        """Whether the value is in W2 and its tuples are not here."""
        return self.filled.get(key) is False

    def spell(self, key: Key) -> tuple[Key, int]:
        """A value with the number that its home gave it when it came."""
        return key, self._numbered.numbers.get(key, 0)

    def apply(self, update: VectorUpdate, ended: Sequence[Ended] = ()) -> None:
        """Algorithm 9, lines 24-40; ends that are known come first, as they decide which goes first."""
        self.tuples.learn(ended)
        self.tuples.insert(update.full)
        for key in update.values:
            self.filled[key] = False
        if update.counts is None:
            self._numbered.add(update.values)
            for key in self._numbered.remove(update.gone):
                del self.filled[key]  # its tuples go by their own ends: a batch may still wait to meet them
            return
        for key, count in zip(list(self.filled), update.counts, strict=True):
            if self.filled[key]:
                self.tuples.remove_first(len(self.tuples.with_key(key)) - count, key)
            if not count:
                del self.filled[key]

    def fill(self, items: Iterable[Item], asked: Sequence[tuple[Key, int]] | None = None) -> None:
        """Algorithm 4, line 7: full tuples replace partial ones; `asked` are the values as they were then."""
        inserted = self.tuples.insert(items)
        if asked is None:
            self.filled.update(dict.fromkeys([self._key_of(held.item) for held in inserted], True))
            return
        self.filled.update({spell[0]: True for spell in asked if self.spell(spell[0]) == spell})

"""Tuples of one input within one stretch of time, indexed by key hash.

Appending costs a constant per tuple; dropping a slice drops everything at once. Beside the indexes, one for
each set of attribute classes that a probing sequence has asked for, a slice holds the time and the row of
each tuple and nothing else: an index that is made, or made anew, reads the keys from where the rows are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from watersmeet.kernel.columns.growing import GrowingColumn, RowNumbers
from watersmeet.kernel.columns.hash_index import (
    HashIndex,
    Ints,
    Longs,
    fetch_times,
    overlapping_pairs,
    start_walk,
    walk_on,
)
from watersmeet.kernel.columns.hashing import Hashes, combine_hashes
from watersmeet.kernel.state.arrivals import Arrivals
from watersmeet.kernel.state.row_ends import RowEnds
from watersmeet.kernel.tuning import DEFAULT_TUNING, Tuning
from watersmeet.query import NEVER, Window

Classes = tuple[int, ...]

SHORT_SPAN = 1 << 32  # microseconds within which an event time fits half a word


class Keys(Protocol):
    """Where the keys of rows are."""

    def holds(self, rows: Longs) -> npt.NDArray[np.bool_]:
        """Which of these rows are still there; the others have expired."""
        ...

    def hashes(self, cls: int, rows: Longs) -> Hashes:
        """The hashes of one class of these rows, all of which are there."""
        ...


@dataclass(frozen=True)
class Matches:
    """What a probe found: which prober, which row, and the row's lifetime."""

    probers: Longs
    rows: Longs
    ts: Longs
    ends: Longs


def concat_matches(parts: Sequence[Matches]) -> Matches:
    """Matches of the same probers, one part after another."""
    if len(parts) == 1:
        return parts[0]
    return Matches(
        np.concatenate([part.probers for part in parts]),
        np.concatenate([part.rows for part in parts]),
        np.concatenate([part.ts for part in parts]),
        np.concatenate([part.ends for part in parts]),
    )


class Slice:
    """One stretch of one input's time, with an index per set of classes asked for."""

    def __init__(
        self,
        *,
        window: Window | None,
        indexed: Iterable[Classes],
        capacity: int,
        first_row: int = 0,
        base: int | None = None,
        row_ends: RowEnds | None = None,
        tuning: Tuning = DEFAULT_TUNING,
    ) -> None:
        """A slice with indexes over these sets of classes; others are made when they are asked for.

        Without a window, tuples bring their ends, or `row_ends` has them. `base` is the time that all event
        times follow within `SHORT_SPAN`, or None where there is no such time; then one takes a whole word.
        """
        self.window = window
        self._tuning = tuning
        self.count = 0
        self.low_ts = NEVER  # the least event time held
        self.high_end = -NEVER  # the largest end held
        self.last_position = -1
        self._first_row = first_row
        self._base = base
        self._checked_at = -NEVER  # the watermark when it was last counted how much of it has expired
        self._capacity = capacity = max(capacity, 16)
        counts_rows = window is not None and window.numbers_rows
        brings_ends = window is None and row_ends is None
        self._row_ends = row_ends
        self._rows = RowNumbers(first_row)
        self._times = GrowingColumn(np.int64 if base is None else np.uint32, capacity)
        self._positions = GrowingColumn(np.int64, capacity) if counts_rows else None
        self._ends = GrowingColumn(np.int64, capacity) if counts_rows or brings_ends else None
        self._indexes = {classes: self._empty_index(capacity) for classes in indexed}

    def append(self, new: Arrivals, keys: Keys) -> None:
        """Adds tuples."""
        start = self.count
        if start + len(new) > self._capacity:
            self._grow(start + len(new), keys)
            start = self.count
        self._rows.put(start, new.rows)
        self._times.put(start, new.ts - (self._base or 0))
        if self._ends is not None:
            self._ends.put(start, new.ends)
        if self._positions is not None and new.positions is not None:
            self._positions.put(start, new.positions)
            self.last_position = max(self.last_position, int(new.positions.max()))
        self.count += len(new)
        self.low_ts = min(self.low_ts, int(new.ts.min()))
        self.high_end = max(self.high_end, int(new.ends.max()))
        for classes, index in self._indexes.items():
            index.extend(start, combine_hashes([new.hashes[cls] for cls in classes]))

    def settle_ends(self, first: int, ts: Longs) -> None:
        """Sets the ends that newly known row positions decide: those from `first` on, with these times."""
        if self.window is None or self._positions is None or self._ends is None:
            return
        positions = self._positions.values[: self.count]
        ends = self._ends.values[: self.count]
        ends[:] = np.minimum(ends, ends_from_positions(self.window, positions, first, ts))
        self.high_end = int(ends.max(initial=-NEVER))

    def set_ends(self, rows: Longs, ends: Longs) -> None:
        """Sets the ends of some rows, which are in order; they had none or later ones."""
        if self._ends is None or not len(rows):
            return
        own = self._rows.of(np.arange(self.count))
        found = np.minimum(np.searchsorted(rows, own), len(rows) - 1)
        known = rows[found] == own
        held = self._ends.values[: self.count]
        held[known] = ends[found[known]]
        self.high_end = int(held.max(initial=-NEVER))

    def probe(
        self, classes: Classes, wanted: Hashes, max_ts: Longs, min_end: Longs, keys: Keys, most: int
    ) -> Iterator[Matches]:
        """Every match by lifetime and hash, and by accident a few whose hashes agree only in part.

        They come in blocks of at most `most` pairs, those of lifetimes that do not overlap counted as well:
        a tuple that meets more than that is met in several. Nothing may be appended in between.
        """
        index, hashes = self._index(classes, keys), wanted.view(np.int64)
        for first in range(0, len(hashes), most):
            few = slice(first, first + most)
            yield from self._walk(index, hashes[few], max_ts[few], min_end[few], first, most)

    def _walk(
        self, index: HashIndex, wanted: Longs, max_ts: Longs, min_end: Longs, first: int, most: int
    ) -> Iterator[Matches]:
        """The matches of probers that are numbered from `first` on, of which there are at most `most`."""
        probers, entries, walking = start_walk(
            index.heads, index.bitmap, self.low_ts, self.high_end, wanted, max_ts, min_end
        )
        while walking:
            *pairs, walking = walk_on(index.chain, index.link_bits, wanted, probers, entries, walking, most)
            found = overlapping_pairs(tuple(pairs), *self._lifetimes(pairs[1]), max_ts, min_end)
            del pairs
            if len(found[0]):
                found[0] += first
                yield Matches(found[0], self._rows.of(found[1]), found[2], found[3])

    def _lifetimes(self, entries: Ints) -> tuple[Longs, Longs]:
        begins: Longs = fetch_times(self._times.values, self._base or 0, entries)
        if self._ends is not None:
            return begins, self._ends.values[entries]
        if self._row_ends is not None:
            return begins, self._row_ends.of(self._rows.of(np.asarray(entries, np.int64)))
        assert self.window is not None, "without a window tuples bring their ends"
        return begins, self.window.end_us(begins)

    def trim(self, watermark: int, keys: Keys) -> None:
        """Forgets the expired tuples, once they are some part of the slice.

        That is checked a few times in a window, so a tuple is indexed anew a few times at most.
        """
        if self.window is None or self.window.duration_us is None or self.count < self._tuning.trim_rows:
            return
        since = max(self.window.end_us(self.low_ts), self._checked_at)
        if watermark - since < self.window.duration_us // self._tuning.trims_per_window:
            return
        self._checked_at = watermark
        ts = (self._base or 0) + self._times.values[: self.count].astype(np.int64)
        live = self.window.end_us(ts) > watermark
        count = int(np.count_nonzero(live))
        if not 0 < count <= self._tuning.trim_live_share * self.count:  # its owner drops whole slices
            return
        self._capacity = count + count // 16
        self._keep(live, keys)
        self.low_ts = int(ts[live].min())

    def keep_indexes(self, used: set[Classes]) -> None:
        """Drops the indexes of class sets that no probe uses any more."""
        self._indexes = {classes: index for classes, index in self._indexes.items() if classes in used}

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in self._parts)

    @property
    def used_bytes(self) -> int:
        """Memory in use, without what columns have reserved to grow into."""
        return sum(part.used(self.count) for part in self._parts)

    @property
    def _parts(self) -> list[RowNumbers | GrowingColumn | HashIndex]:
        columns = [part for part in (self._times, self._positions, self._ends) if part is not None]
        return [self._rows, *columns, *self._indexes.values()]

    def _index(self, classes: Classes, keys: Keys) -> HashIndex:
        index = self._indexes.get(classes)
        if index is None:
            self._keep_held(keys)
            index = self._indexes[classes] = self._new_index(classes, keys)
        return index

    def _grow(self, count: int, keys: Keys) -> None:
        self._capacity = max(count, 2 * self._capacity)
        self._keep_held(keys, anew=True)

    def _keep_held(self, keys: Keys, *, anew: bool = False) -> None:
        """Forgets the tuples whose rows are gone, so that all keys can be read; `anew` makes new indexes."""
        held = keys.holds(self._rows.of(np.arange(self.count)))
        if anew or not held.all():
            self._keep(held, keys)

    def _keep(self, chosen: npt.NDArray[np.bool_], keys: Keys) -> None:
        """Holds the chosen tuples and no others, in new indexes of the current capacity."""
        rows = self._rows.of(np.flatnonzero(chosen))
        self._rows = RowNumbers(self._first_row)
        self._rows.put(0, rows)
        for column in (self._times, self._positions, self._ends):
            if column is not None:
                column.keep(chosen)
        self.count = len(rows)
        for classes in list(self._indexes):
            del self._indexes[classes]  # before the new one is made: not both at once
            self._indexes[classes] = self._new_index(classes, keys)

    def _new_index(self, classes: Classes, keys: Keys) -> HashIndex:
        index = self._empty_index(max(self._capacity, self.count))
        rows = self._rows.of(np.arange(self.count))
        index.extend(0, combine_hashes([keys.hashes(cls, rows) for cls in classes]))
        return index

    def _empty_index(self, capacity: int) -> HashIndex:
        return HashIndex(capacity, self._tuning.short_link_bits)


def ends_from_positions(window: Window, positions: Longs, first: int, ts: Longs) -> Longs:
    """Ends under a window that counts rows, given the event times of the positions from `first` on."""
    after = window.successor(positions)
    ends = np.full(len(positions), NEVER)
    known = (after >= first) & (after < first + len(ts))
    ends[known] = ts[after[known] - first]
    return ends

"""Tuples of one input within one stretch of time, indexed by key hash.

Appending costs a constant per tuple; dropping a slice drops everything at once. An input of several attribute
classes keeps its hashes beside, so that an index over any set of classes can be built when a probing sequence
asks for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from watersmeet.kernel.hash_index import (
    END_AFTER_SPAN,
    END_NEVER,
    END_OF_GROUP,
    END_STORED,
    HashIndex,
    Longs,
    find_pairs,
    overlapping_pairs,
)
from watersmeet.kernel.hashing import Hashes, combine_hashes
from watersmeet.query import NEVER, Window, WindowKind

Classes = tuple[int, ...]

_END_RULES = {
    WindowKind.RANGE: END_AFTER_SPAN,
    WindowKind.TUMBLE: END_OF_GROUP,
    WindowKind.UNBOUNDED: END_NEVER,
    WindowKind.ROWS: END_STORED,
    WindowKind.TUMBLE_ROWS: END_STORED,
}
_NO_ENDS = np.empty(0, np.int64)
WORTH_TRIMMING = 256  # tuples
_LIVE = 5 / 8  # of a slice: more than this is left as it is


@dataclass(frozen=True)
class Matches:
    """What a probe found: which prober, which row, the row's life and its hashes of the classes asked for."""

    probers: Longs
    rows: Longs
    ts: Longs
    ends: Longs
    hashes: dict[int, Hashes]


def ends_from_ts(window: Window, ts: Longs) -> Longs:
    """The end of each tuple's life under a window that needs no places."""
    match window.kind:
        case WindowKind.RANGE:
            return ts + (window.size + 1)
        case WindowKind.TUMBLE:
            return (ts // window.size + 1) * window.size
        case _:
            return np.full(len(ts), NEVER)


class _Column:
    """A NumPy array of rows that grows by doubling."""

    __slots__ = ("values",)

    def __init__(self, dtype: npt.DTypeLike, capacity: int, *width: int) -> None:
        self.values: npt.NDArray[Any] = np.empty((capacity, *width), dtype)

    def reserve(self, used: int, needed: int) -> None:
        if needed > len(self.values):
            grown = np.empty((max(needed, 2 * len(self.values)), *self.values.shape[1:]), self.values.dtype)
            grown[:used] = self.values[:used]
            self.values = grown

    def put(self, start: int, new: npt.NDArray[Any]) -> None:
        self.reserve(start, start + len(new))
        self.values[start : start + len(new)] = new

    @property
    def nbytes(self) -> int:
        return int(self.values.nbytes)

    def used(self, count: int) -> int:
        """Bytes of the first `count` rows; room to grow into is not memory before something is in it."""
        return int(self.values[:count].nbytes)


class Slice:
    """One stretch of one input's time, with an index per set of classes asked for."""

    def __init__(
        self,
        window: Window | None,
        classes: Classes,
        capacity: int,
        first_row: int = 0,
        base: int | None = None,
    ) -> None:
        """Without a window, tuples bring their ends; `base` is as in `HashIndex`."""
        self.window = window
        self._first_row = first_row
        self._base = base
        self.count = 0
        self.low_ts = NEVER  # the least event time held
        self.high_end = -NEVER  # the largest end held
        self.last_place = -1
        self._looked_at = -NEVER  # the watermark when it was last seen how much of it is over
        self._capacity = capacity = max(capacity, 16)
        counts_rows = window is not None and window.counts_rows
        self._places = _Column(np.int64, capacity) if counts_rows else None
        self._ends = _Column(np.int64, capacity) if counts_rows or window is None else None
        self._beside = _Beside(classes, capacity) if len(classes) > 1 else None
        self._indexes: dict[Classes, HashIndex] = {}
        if len(classes) == 1:
            self._indexes[classes] = HashIndex(capacity, first_row, base)

    def append(
        self, ts: Longs, rows: Longs, hashes: Mapping[int, Hashes], ends: Longs, places: Longs | None
    ) -> None:
        """Adds tuples; `rows` number them within their input, `places` within their stream."""
        start = self.count
        if self._beside is not None:
            self._beside.put(start, ts, rows, hashes)
        if self._ends is not None:
            self._ends.put(start, ends)
        if self._places is not None and places is not None:
            self._places.put(start, places)
            self.last_place = max(self.last_place, int(places.max()))
        self.count += len(ts)
        self.low_ts = min(self.low_ts, int(ts.min()))
        self.high_end = max(self.high_end, int(ends.max()))
        for classes, index in self._indexes.items():
            index.extend(start, combine_hashes([hashes[cls] for cls in classes]), ts, rows)

    def settle_ends(self, first_place: int, places_ts: Longs) -> None:
        """Sets the ends that newly known places decide (ROWS windows)."""
        if self.window is None or self._places is None or self._ends is None:
            return
        places = self._places.values[: self.count]
        ends = self._ends.values[: self.count]
        ends[:] = np.minimum(ends, ends_from_places(self.window, places, first_place, places_ts))
        self.high_end = int(ends.max(initial=-NEVER))

    def probe(
        self, classes: Classes, wanted: Hashes, max_ts: Longs, min_end: Longs, carry: Classes = ()
    ) -> Matches:
        """Every match by hash and life; `carry` names the classes whose hashes come back."""
        index = self._index(classes)
        sought = wanted.view(np.int64)
        pairs = find_pairs(
            index.heads, index.bitmap, index.chain, self.low_ts, self.high_end, sought, max_ts, min_end
        )
        ends = self._ends.values if self._ends is not None else _NO_ENDS
        rule, size = END_STORED, 0
        if self.window is not None:
            rule, size = _END_RULES[self.window.kind], self.window.size
        probers, places, rows, ts, found_ends = overlapping_pairs(
            pairs,
            index.tags,
            index.times,
            self._first_row,
            self._base or 0,
            rule,
            size,
            ends,
            sought,
            max_ts,
            min_end,
        )
        hashes = {} if self._beside is None else {cls: self._beside.hashes(cls, places) for cls in carry}
        return Matches(probers, rows, ts, found_ends, hashes)

    def trimmed(self, watermark: int) -> Slice:
        """The slice without the tuples whose lives are over, once they are half of it; else the slice itself.

        Half of the time that is left must have passed since the last look, so looks are few and a tuple is
        indexed anew once or twice.
        """
        if self.window is None or self.window.kind is not WindowKind.RANGE or self.count < WORTH_TRIMMING:
            return self
        since = max(self.low_ts + self.window.size + 1, self._looked_at)
        if watermark - since < self.high_end - watermark:
            return self
        self._looked_at = watermark
        hashes, ts, rows = self._entries()
        ends = ends_from_ts(self.window, ts)
        live = np.flatnonzero(ends > watermark)
        if not 0 < len(live) <= _LIVE * self.count:  # its owner drops what is over as a whole
            return self
        rest = Slice(self.window, tuple(hashes), len(live), self._first_row, self._base)
        rest.append(ts[live], rows[live], {cls: own[live] for cls, own in hashes.items()}, ends[live], None)
        return rest

    def _entries(self) -> tuple[dict[int, Hashes], Longs, Longs]:
        """The hashes of each class, the event times and the row numbers of all tuples."""
        if self._beside is not None:
            return self._beside.entries(self.count)
        ((classes, index),) = self._indexes.items()
        hashes, ts, rows = index.entries(self.count)
        return {classes[0]: hashes}, ts, rows

    def keep_indexes(self, used: set[Classes]) -> None:
        """Drops the indexes of class sets that no probe uses any more."""
        if self._beside is not None:
            self._indexes = {classes: index for classes, index in self._indexes.items() if classes in used}

    @property
    def nbytes(self) -> int:
        beside = [part for part in (self._places, self._ends, self._beside) if part is not None]
        return sum(part.nbytes for part in (*beside, *self._indexes.values()))

    @property
    def used_bytes(self) -> int:
        """Memory taken, without the room that columns have to grow into."""
        beside = [part for part in (self._places, self._ends, self._beside) if part is not None]
        return sum(part.used(self.count) for part in (*beside, *self._indexes.values()))

    def _index(self, classes: Classes) -> HashIndex:
        index = self._indexes.get(classes)
        if index is None:
            assert self._beside is not None
            capacity = max(self._capacity, self.count)
            index = self._indexes[classes] = HashIndex(capacity, self._first_row, self._base)
            index.extend(0, *self._beside.columns(classes, self.count))
        return index


class _Beside:
    """What an input of several classes keeps so that any index can be built later."""

    def __init__(self, classes: Classes, capacity: int) -> None:
        self._ts = _Column(np.int64, capacity)
        self._rows = _Column(np.int64, capacity)
        self._hashes = {cls: _Column(np.uint64, capacity) for cls in classes}

    def put(self, start: int, ts: Longs, rows: Longs, hashes: Mapping[int, Hashes]) -> None:
        self._ts.put(start, ts)
        self._rows.put(start, rows)
        for cls, column in self._hashes.items():
            column.put(start, hashes[cls])

    def columns(self, classes: Classes, count: int) -> tuple[Hashes, Longs, Longs]:
        """Combined hashes, event times and row numbers of the first `count` tuples."""
        combined = combine_hashes([self._hashes[cls].values[:count] for cls in classes])
        return combined, self._ts.values[:count], self._rows.values[:count]

    def hashes(self, cls: int, places: Longs) -> Hashes:
        return self._hashes[cls].values[places]

    def entries(self, count: int) -> tuple[dict[int, Hashes], Longs, Longs]:
        hashes = {cls: column.values[:count] for cls, column in self._hashes.items()}
        return hashes, self._ts.values[:count], self._rows.values[:count]

    @property
    def nbytes(self) -> int:
        return sum(column.nbytes for column in (self._ts, self._rows, *self._hashes.values()))

    def used(self, count: int) -> int:
        return sum(column.used(count) for column in (self._ts, self._rows, *self._hashes.values()))


def ends_from_places(window: Window, places: Longs, first_place: int, places_ts: Longs) -> Longs:
    """Ends under a ROWS window, given the event times of the places from `first_place` on."""
    after = successors(window, places)
    ends = np.full(len(places), NEVER)
    known = (after >= first_place) & (after < first_place + len(places_ts))
    ends[known] = places_ts[after[known] - first_place]
    return ends


def successors(window: Window, places: Longs) -> Longs:
    """For each place, the place whose tuple ends its life (`Window.successor`, vectorised)."""
    if window.kind is WindowKind.ROWS:
        return places + window.size
    return (places // window.size + 1) * window.size

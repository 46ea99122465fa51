"""Tuples of one input within one stretch of time, indexed by key hash.

An index chains its entries from `heads[hash & mask]`: the newest entry of the bucket, whose link leads to the
one before it. A link and half of the entry's hash share one word, so that walking a chain touches little
memory; the entry's facts (event time, and the other half with the row number) lie beside and are read only
where the halves agree. A bitmap of a byte a tuple, small enough for a near cache, tells most keys that are
not there without even looking at a head. Appending costs a constant per tuple; dropping a slice drops
everything at once. An input of several attribute classes keeps its hashes beside, so that an index over any
set of classes can be built when a probing sequence asks for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
import numpy.typing as npt

from watersmeet.kernel.hashing import Hashes, combine_hashes
from watersmeet.query import NEVER, Window, WindowKind

Longs = npt.NDArray[np.int64]
Ints = npt.NDArray[np.int32]
Classes = tuple[int, ...]

# How the end of a tuple's life follows from its event time, for the compiled probe.
_END_AFTER_SPAN, _END_OF_GROUP, _END_NEVER, _END_STORED = range(4)
_END_RULES = {
    WindowKind.RANGE: _END_AFTER_SPAN,
    WindowKind.TUMBLE: _END_OF_GROUP,
    WindowKind.UNBOUNDED: _END_NEVER,
    WindowKind.ROWS: _END_STORED,
    WindowKind.TUMBLE_ROWS: _END_STORED,
}
_NO_ENDS = np.empty(0, np.int64)

_TS, _TAG = range(2)  # the facts of an index entry
_HALF = 32  # a chain word: the upper half of the hash, and the link; a tag: the lower half, and the row
_LOW_HALF = (1 << _HALF) - 1
_BITS_PER_HEAD = 8  # of the bitmap
_BLOCK = 1024  # tuples whose heads are fetched at once


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


@numba.njit(cache=True)
def _link(heads, bitmap, chain, start, hashes):  # type: ignore[no-untyped-def]
    """Chains entries from `start` on; returns a number that means nothing, so that no fetch is left out."""
    mask, bit_mask = len(heads) - 1, 64 * len(bitmap) - 1
    fetched = np.int64(0)
    for block in range(0, len(hashes), _BLOCK):
        stop = min(block + _BLOCK, len(hashes))
        for number in range(block, stop):
            fetched += heads[hashes[number] & mask]
        for number in range(block, stop):
            hash_, place = hashes[number], start + number
            bucket = hash_ & mask
            chain[place] = ((hash_ >> _HALF) << _HALF) | (np.int64(heads[bucket]) & _LOW_HALF)
            heads[bucket] = place
            bit = hash_ & bit_mask
            bitmap[bit >> 6] |= np.int64(1) << (bit & 63)
    return fetched


@numba.njit(cache=True)
def _note(facts, start, hashes, ts, rows, first_row):  # type: ignore[no-untyped-def]
    for number in range(len(hashes)):
        facts[start + number, _TS] = ts[number]
        facts[start + number, _TAG] = (hashes[number] << _HALF) | (rows[number] - first_row)


@numba.njit(cache=True)
def _probe(heads, bitmap, chain, low, high, wanted, max_ts, min_end):  # type: ignore[no-untyped-def]
    """Pairs (prober, place) whose hashes agree by half, for the probers whose life touches [low, high).

    All probers walk their chains in step, one link a round: within a round no load waits for another and no
    branch depends on one, so cache misses overlap. That is several times faster than chain after chain. What
    is far is fetched in loops that do nothing else: the shorter a loop, the more of its misses are under way.
    """
    mask, bit_mask = len(heads) - 1, 64 * len(bitmap) - 1
    probers = np.empty(len(wanted), np.int32)
    places = np.empty(len(wanted), np.int32)
    walking = 0
    for prober in range(len(wanted)):
        bit = wanted[prober] & bit_mask
        is_set = (bitmap[bit >> 6] >> (bit & 63)) & 1
        probers[walking] = prober
        walking += (is_set == 1) & (max_ts[prober] < high) & (min_end[prober] > low)
    for walker in range(walking):
        places[walker] = heads[wanted[probers[walker]] & mask]
    words = np.empty(walking, np.int64)
    capacity = walking + 64
    found_probers = np.empty(capacity, np.int32)
    found_places = np.empty(capacity, np.int32)
    count = 0
    while walking:
        if count + walking > capacity:
            capacity = 2 * (count + walking)
            found_probers = _grown(found_probers, count, capacity)
            found_places = _grown(found_places, count, capacity)
        for walker in range(walking):
            words[walker] = chain[places[walker]]
        still = 0
        for walker in range(walking):
            prober, place, word = probers[walker], places[walker], words[walker]
            found_probers[count] = prober
            found_places[count] = place
            count += (word >> _HALF) == (wanted[prober] >> _HALF)
            probers[still] = prober
            places[still] = np.int32(word & _LOW_HALF)
            still += places[still] >= 0
        walking = still
    return found_probers[:count], found_places[:count]


@numba.njit(cache=True)
def _grown(values, count, capacity):  # type: ignore[no-untyped-def]
    larger = np.empty(capacity, values.dtype)
    larger[:count] = values[:count]
    return larger


@numba.njit(cache=True)
def _overlapping(pairs, facts, first_row, rule, size, ends, wanted, max_ts, min_end):  # type: ignore[no-untyped-def]
    """Of the pairs found, those of one hash whose lives overlap: probers, places, rows, event times, ends."""
    probers, places = pairs
    found = np.empty((5, len(probers)), np.int64)
    near = np.empty((len(probers), 2), np.int64)  # fetched first, as in `_probe`
    for pair in range(len(probers)):
        near[pair, _TS] = facts[places[pair], _TS]
        near[pair, _TAG] = facts[places[pair], _TAG]
    count = 0
    for pair in range(len(probers)):
        prober, place = probers[pair], places[pair]
        begin, tag = near[pair, _TS], near[pair, _TAG]
        if rule == _END_AFTER_SPAN:
            end = begin + size + 1
        elif rule == _END_OF_GROUP:
            end = (begin // size + 1) * size
        elif rule == _END_STORED:
            end = ends[place]
        else:
            end = NEVER
        found[0, count] = prober
        found[1, count] = place
        found[2, count] = first_row + (tag & _LOW_HALF)
        found[3, count] = begin
        found[4, count] = end
        agrees = ((tag ^ (wanted[prober] << _HALF)) >> _HALF) == 0
        count += agrees & (begin < min_end[prober]) & (max_ts[prober] < end)
    return found[:, :count]


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


class _Index:
    """Chained entries over the hashes of one set of classes, in one piece of memory."""

    __slots__ = ("_memory", "bitmap", "chain", "facts", "first_row", "heads")

    def __init__(self, capacity: int, first_row: int) -> None:
        self.first_row = first_row
        self._allocate(capacity)

    def extend(self, start: int, hashes: Hashes, ts: Longs, rows: Longs) -> None:
        stop = start + len(ts)
        if stop > len(self.chain):
            chain, facts = self.chain[:start], self.facts[:start]
            self._allocate(max(stop, 2 * len(self.chain)))
            self.facts[:start] = facts
            self._link(0, (chain & ~_LOW_HALF) | ((facts[:, _TAG] >> _HALF) & _LOW_HALF))
        new = hashes.view(np.int64)
        _note(self.facts, start, new, ts, rows, self.first_row)
        self._link(start, new)

    def _link(self, start: int, hashes: Longs) -> None:
        _link(self.heads, self.bitmap, self.chain, start, hashes)

    def _allocate(self, capacity: int) -> None:
        """All parts in one array: NumPy asks for large pages where it is worth them."""
        heads = 1 << max(4, (capacity - 1).bit_length())
        sizes = (2 * capacity, capacity, heads // 2, heads * _BITS_PER_HEAD // 64)
        self._memory: Longs = np.empty(sum(sizes), np.int64)
        facts, self.chain, words, self.bitmap = np.split(self._memory, np.cumsum(sizes)[:-1])
        self.facts: Longs = facts.reshape(capacity, 2)
        self.heads: Ints = words.view(np.int32)
        self.heads[:] = -1
        self.bitmap[:] = 0

    @property
    def nbytes(self) -> int:
        return int(self._memory.nbytes)

    def used(self, count: int) -> int:
        """Bytes of the first `count` entries; room to grow into is not memory before something is in it."""
        parts = (self.heads, self.bitmap, self.chain[:count], self.facts[:count])
        return sum(int(part.nbytes) for part in parts)


class Slice:
    """One stretch of one input's time, with an index per set of classes asked for."""

    def __init__(self, window: Window | None, classes: Classes, capacity: int, first_row: int = 0) -> None:
        """Without a window, tuples bring their ends."""
        self.window = window
        self._first_row = first_row
        self.count = 0
        self.low_ts = NEVER  # the least event time held
        self.high_end = -NEVER  # the largest end held
        self.last_place = -1
        self._capacity = capacity = max(capacity, 16)
        counts_rows = window is not None and window.counts_rows
        self._places = _Column(np.int64, capacity) if counts_rows else None
        self._ends = _Column(np.int64, capacity) if counts_rows or window is None else None
        self._beside = _Beside(classes, capacity) if len(classes) > 1 else None
        self._indexes: dict[Classes, _Index] = {}
        if len(classes) == 1:
            self._indexes[classes] = _Index(capacity, first_row)

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
        pairs = _probe(
            index.heads, index.bitmap, index.chain, self.low_ts, self.high_end, sought, max_ts, min_end
        )
        ends = self._ends.values if self._ends is not None else _NO_ENDS
        rule, size = _END_STORED, 0
        if self.window is not None:
            rule, size = _END_RULES[self.window.kind], self.window.size
        probers, places, rows, ts, found_ends = _overlapping(
            pairs, index.facts, self._first_row, rule, size, ends, sought, max_ts, min_end
        )
        hashes = {} if self._beside is None else {cls: self._beside.hashes(cls, places) for cls in carry}
        return Matches(probers, rows, ts, found_ends, hashes)

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

    def _index(self, classes: Classes) -> _Index:
        index = self._indexes.get(classes)
        if index is None:
            assert self._beside is not None
            index = self._indexes[classes] = _Index(max(self._capacity, self.count), self._first_row)
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

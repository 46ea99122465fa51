"""An index of tuples by key hash: chains of entries, walked in step.

Entries are chained from `heads`: the newest entry of a hash's place, whose link leads to the one before it. A
link and half of the entry's hash share one word, so that walking a chain touches little memory; the entry's
facts (its event time, and the other half with the row number) lie beside and are read only where the halves
agree. A bitmap of a byte a tuple, small enough for a near cache, tells most keys that are not there without
even looking at a head. Places of heads and bits follow from the upper half, so that the lower half in the
chain says something new.
"""

from __future__ import annotations

import numba
import numpy as np
import numpy.typing as npt

from watersmeet.kernel.hashing import Hashes
from watersmeet.query import NEVER

Longs = npt.NDArray[np.int64]
Ints = npt.NDArray[np.int32]
Times = npt.NDArray[np.int64] | npt.NDArray[np.uint32]

# How the end of a tuple's life follows from its event time, for the compiled probe.
END_AFTER_SPAN, END_OF_GROUP, END_NEVER, END_STORED = range(4)

SHORT_SPAN = 1 << 32  # microseconds within which an event time fits half a word

_HALF = 32  # a chain word: the lower half of the hash, and the link; a tag: the upper half, and the row
_LOW_HALF = (1 << _HALF) - 1
_BIT = 29  # the place of a bit is the place of its head and three bits of the rest: a byte a head
_BLOCK = 1024  # tuples whose heads are fetched at once


@numba.njit(cache=True, inline="always")
def _spread(hash_, count):  # type: ignore[no-untyped-def]
    """A hash's upper half as a fraction of so many places: a whole number of them, and 32 bits of a rest."""
    return ((hash_ >> _HALF) & _LOW_HALF) * count


@numba.njit(cache=True)
def link_entries(heads, bitmap, chain, start, hashes):  # type: ignore[no-untyped-def]
    """Chains entries from `start` on; returns a number that means nothing, so that no fetch is left out."""
    count = len(heads)
    fetched = np.int64(0)
    for block in range(0, len(hashes), _BLOCK):
        stop = min(block + _BLOCK, len(hashes))
        for number in range(block, stop):
            fetched += heads[_spread(hashes[number], count) >> _HALF]
        for number in range(block, stop):
            hash_, entry = hashes[number], start + number
            spread = _spread(hash_, count)
            place, bit = spread >> _HALF, spread >> _BIT
            chain[entry] = (hash_ << _HALF) | (np.int64(heads[place]) & _LOW_HALF)
            heads[place] = entry
            bitmap[bit >> 6] |= np.int64(1) << (bit & 63)
    return fetched


@numba.njit(cache=True)
def _note(tags, times, start, hashes, ts, rows, first_row, base):  # type: ignore[no-untyped-def]
    for number in range(len(hashes)):
        times[start + number] = ts[number] - base
        tags[start + number] = (hashes[number] & ~_LOW_HALF) | (rows[number] - first_row)


@numba.njit(cache=True)
def find_pairs(heads, bitmap, chain, low, high, wanted, max_ts, min_end):  # type: ignore[no-untyped-def]
    """Pairs (prober, entry) whose hashes agree by half, for the probers whose life touches [low, high).

    All probers walk their chains in step, one link a round: within a round no load waits for another and no
    branch depends on one, so cache misses overlap. That is several times faster than chain after chain. What
    is far is fetched in loops that do nothing else: the shorter a loop, the more of its misses are under way.
    """
    count = len(heads)
    probers = np.empty(len(wanted), np.int32)
    places = np.empty(len(wanted), np.int32)
    walking = 0
    for prober in range(len(wanted)):
        bit = _spread(wanted[prober], count) >> _BIT
        is_set = (bitmap[bit >> 6] >> (bit & 63)) & 1
        probers[walking] = prober
        walking += (is_set == 1) & (max_ts[prober] < high) & (min_end[prober] > low)
    for walker in range(walking):
        places[walker] = heads[_spread(wanted[probers[walker]], count) >> _HALF]
    words = np.empty(walking, np.int64)
    capacity = walking + 64
    found_probers = np.empty(capacity, np.int32)
    found_places = np.empty(capacity, np.int32)
    found = 0
    while walking:
        if found + walking > capacity:
            capacity = 2 * (found + walking)
            found_probers = _grown(found_probers, found, capacity)
            found_places = _grown(found_places, found, capacity)
        for walker in range(walking):
            words[walker] = chain[places[walker]]
        still = 0
        for walker in range(walking):
            prober, place, word = probers[walker], places[walker], words[walker]
            found_probers[found] = prober
            found_places[found] = place
            found += ((word ^ (wanted[prober] << _HALF)) >> _HALF) == 0
            probers[still] = prober
            places[still] = np.int32(word & _LOW_HALF)
            still += places[still] >= 0
        walking = still
    return found_probers[:found], found_places[:found]


@numba.njit(cache=True)
def _grown(values, count, capacity):  # type: ignore[no-untyped-def]
    larger = np.empty(capacity, values.dtype)
    larger[:count] = values[:count]
    return larger


@numba.njit(cache=True)
def overlapping_pairs(  # type: ignore[no-untyped-def]
    pairs, tags, times, first_row, base, rule, size, ends, wanted, max_ts, min_end
):
    """Of the pairs found, those of one hash whose lives overlap: probers, entries, rows, times, ends."""
    probers, places = pairs
    found = np.empty((5, len(probers)), np.int64)
    near = np.empty((2, len(probers)), np.int64)  # fetched first, as in `find_pairs`
    for pair in range(len(probers)):
        near[0, pair] = times[places[pair]]
    for pair in range(len(probers)):
        near[1, pair] = tags[places[pair]]
    count = 0
    for pair in range(len(probers)):
        prober, place = probers[pair], places[pair]
        begin, tag = base + near[0, pair], near[1, pair]
        if rule == END_AFTER_SPAN:
            end = begin + size + 1
        elif rule == END_OF_GROUP:
            end = (begin // size + 1) * size
        elif rule == END_STORED:
            end = ends[place]
        else:
            end = NEVER
        found[0, count] = prober
        found[1, count] = place
        found[2, count] = first_row + (tag & _LOW_HALF)
        found[3, count] = begin
        found[4, count] = end
        agrees = ((tag ^ wanted[prober]) >> _HALF) == 0
        count += agrees & (begin < min_end[prober]) & (max_ts[prober] < end)
    return found[:, :count]


class HashIndex:
    """Chained entries, in one piece of memory: 20 bytes a tuple, and 5 for its head and its bits.

    `base` is the time that all event times follow within `SHORT_SPAN`, or None where there is no such time;
    then an event time takes a whole word.
    """

    __slots__ = ("_memory", "base", "bitmap", "chain", "first_row", "heads", "tags", "times")

    def __init__(self, capacity: int, first_row: int, base: int | None = None) -> None:
        self.first_row = first_row
        self.base = base
        self._allocate(capacity)

    def extend(self, start: int, hashes: Hashes, ts: Longs, rows: Longs) -> None:
        """Adds entries from `start` on."""
        stop = start + len(ts)
        if stop > len(self.chain):
            tags, times, before = self.tags[:start], self.times[:start], self._hashes(start)
            self._allocate(max(stop, 2 * len(self.chain)))
            self.tags[:start], self.times[:start] = tags, times
            link_entries(self.heads, self.bitmap, self.chain, 0, before)
        new = hashes.view(np.int64)
        _note(self.tags, self.times, start, new, ts, rows, self.first_row, self.base or 0)
        link_entries(self.heads, self.bitmap, self.chain, start, new)

    def entries(self, count: int) -> tuple[Hashes, Longs, Longs]:
        """The hashes, event times and row numbers of the first `count` entries."""
        rows: Longs = self.first_row + (self.tags[:count] & _LOW_HALF)
        ts: Longs = (self.base or 0) + self.times[:count].astype(np.int64)
        return self._hashes(count).view(np.uint64), ts, rows

    def _hashes(self, count: int) -> Longs:
        lower: Longs = (self.chain[:count] >> _HALF) & _LOW_HALF
        return (self.tags[:count] & ~_LOW_HALF) | lower

    def _allocate(self, capacity: int) -> None:
        """All parts in one array: NumPy asks for large pages where it is worth them."""
        capacity = -(-capacity // 8) * 8  # so that the bitmap is whole words
        halves = capacity // 2
        times = capacity if self.base is None else halves
        sizes = (capacity, capacity, times, halves, capacity // 8)
        self._memory: Longs = np.empty(sum(sizes), np.int64)
        self.tags, self.chain, words, heads, self.bitmap = np.split(self._memory, np.cumsum(sizes)[:-1])
        self.times: Times = words if self.base is None else words.view(np.uint32)
        self.heads: Ints = heads.view(np.int32)
        self.heads[:] = -1
        self.bitmap[:] = 0

    @property
    def nbytes(self) -> int:
        return int(self._memory.nbytes)

    def used(self, count: int) -> int:
        """Bytes of the first `count` entries; room to grow into is not memory before something is in it."""
        parts = (self.heads, self.bitmap, self.chain[:count], self.tags[:count], self.times[:count])
        return sum(int(part.nbytes) for part in parts)

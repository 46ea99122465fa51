"""An index of tuples by key hash: chains of entries, walked in step.

Entries are chained from `heads`: the newest entry of a chain, whose link leads to the one before it. A link
and a few bits of the entry's hash share one word, so that walking a chain touches little memory. A bitmap of
a byte a tuple, small enough for a near cache, rules out most keys that are not there without even looking at
a head. The numbers of chain and bit follow from the upper half of the hash, the bits in a word are its
lowest, so they say something new.

Hashes are not kept. What a probe finds agrees in its chain and in the bits of its word, one pair in a few
hundred by accident: whoever probes compares the keys of complete combinations by value.
"""

from __future__ import annotations

import numba
import numpy as np
import numpy.typing as npt

from watersmeet.kernel.columns.hashing import Hashes
from watersmeet.kernel.tuning import DEFAULT_TUNING

Longs = npt.NDArray[np.int64]
Ints = npt.NDArray[np.int32]
Words = npt.NDArray[np.int64] | npt.NDArray[np.uint32]

LONG_LINK = 32  # bits of a link in a word of 8 bytes; a short link is in one of 4, the rest is of the hash

_HALF = 32
_LOW_HALF = (1 << _HALF) - 1
_BIT = 29  # the number of a bit is that of its chain and three bits of the rest: a byte a head
_BLOCK = 1024  # tuples whose heads are fetched at once


@numba.njit(cache=True, inline="always")
def _spread(hash_, count):  # type: ignore[no-untyped-def]
    """A hash's upper half as a fraction of so many chains: a whole number of them, and 32 bits of a rest."""
    return ((hash_ >> _HALF) & _LOW_HALF) * count


@numba.njit(cache=True)
def link_entries(heads, bitmap, chain, link_bits, start, hashes):  # type: ignore[no-untyped-def]
    """Chains entries from `start` on; returns a number that means nothing, so that no fetch is left out."""
    count = len(heads)
    mask = (np.int64(1) << link_bits) - 1
    fetched = np.int64(0)
    for block in range(0, len(hashes), _BLOCK):
        stop = min(block + _BLOCK, len(hashes))
        for number in range(block, stop):
            fetched += heads[_spread(hashes[number], count) >> _HALF]
        for number in range(block, stop):
            hash_, entry = hashes[number], start + number
            spread = _spread(hash_, count)
            head, bit = spread >> _HALF, spread >> _BIT
            chain[entry] = (hash_ << link_bits) | (np.int64(heads[head]) & mask)
            heads[head] = entry
            bitmap[bit >> 6] |= np.int64(1) << (bit & 63)
    return fetched


@numba.njit(cache=True)
def start_walk(heads, bitmap, low, high, wanted, max_ts, min_end):  # type: ignore[no-untyped-def]
    """The walkers of a probe: probers alive within [low, high) whose key may be there, and their heads."""
    count = len(heads)
    probers = np.empty(len(wanted), np.int32)
    entries = np.empty(len(wanted), np.int32)
    walking = 0
    for prober in range(len(wanted)):
        bit = _spread(wanted[prober], count) >> _BIT
        is_set = (bitmap[bit >> 6] >> (bit & 63)) & 1
        probers[walking] = prober
        walking += (is_set == 1) & (max_ts[prober] < high) & (min_end[prober] > low)
    for walker in range(walking):
        entries[walker] = heads[_spread(wanted[probers[walker]], count) >> _HALF]
    return probers, entries, walking


@numba.njit(cache=True)
def walk_on(chain, link_bits, wanted, probers, entries, walking, most):  # type: ignore[no-untyped-def]
    """The next pairs (prober, entry) whose hashes agree in chain and word, and how many walkers are left.

    All probers walk their chains in step, one link a round: within a round no load waits for another and no
    branch depends on one, so cache misses overlap. That is several times faster than chain after chain. What
    is far is fetched in loops that do nothing else: the shorter a loop, the more of its misses are under way.

    A round is made if its pairs are sure to be no more than `most` with those before it, or else left to the
    next call: the walkers, changed in place, are where it goes on. There may be no more than `most` of them.
    """
    mask = (np.int64(1) << link_bits) - 1
    bits = (np.int64(1) << (_HALF if link_bits == LONG_LINK else _HALF - link_bits)) - 1
    words = np.empty(walking, np.int64)
    capacity = min(walking + 64, most)
    found_probers = np.empty(capacity, np.int32)
    found_entries = np.empty(capacity, np.int32)
    found = 0
    while walking and found + walking <= most:
        if found + walking > capacity:
            capacity = min(2 * (found + walking), most)
            found_probers = _grown(found_probers, found, capacity)
            found_entries = _grown(found_entries, found, capacity)
        for walker in range(walking):
            words[walker] = chain[entries[walker]]
        still = 0
        for walker in range(walking):
            prober, entry, word = probers[walker], entries[walker], words[walker]
            found_probers[found] = prober
            found_entries[found] = entry
            found += (((word >> link_bits) ^ wanted[prober]) & bits) == 0
            probers[still] = prober
            entries[still] = np.int32(word & mask)
            still += (word & mask) != mask
        walking = still
    return found_probers[:found], found_entries[:found], walking


@numba.njit(cache=True)
def _grown(values, count, capacity):  # type: ignore[no-untyped-def]
    larger = np.empty(capacity, values.dtype)
    larger[:count] = values[:count]
    return larger


@numba.njit(cache=True)
def fetch_times(times, base, entries):  # type: ignore[no-untyped-def]
    """The event times of these entries; a loop of its own for the reason given in `walk_on`."""
    fetched = np.empty(len(entries), np.int64)
    for number in range(len(entries)):
        fetched[number] = base + times[entries[number]]
    return fetched


@numba.njit(cache=True)
def overlapping_pairs(pairs, begins, ends, max_ts, min_end):  # type: ignore[no-untyped-def]
    """Of the pairs found, given the lifetimes of their entries, those whose lifetimes overlap.

    Probers, entries, times, ends.
    """
    probers, entries = pairs
    found = np.empty((4, len(probers)), np.int64)
    count = 0
    for pair in range(len(probers)):
        prober, begin, end = probers[pair], begins[pair], ends[pair]
        found[0, count] = prober
        found[1, count] = entries[pair]
        found[2, count] = begin
        found[3, count] = end
        count += (begin < min_end[prober]) & (max_ts[prober] < end)
    return found[:, :count]


class HashIndex:
    """Chained entries, in one piece of memory: 4 bytes a tuple, and 5 for its head and its bits.

    Where a link needs more than 24 bits an entry takes 8 bytes.
    """

    __slots__ = ("_memory", "bitmap", "chain", "heads", "link_bits")

    def __init__(self, capacity: int, short_link_bits: int = DEFAULT_TUNING.short_link_bits) -> None:
        capacity = -(-capacity // 8) * 8  # so that all parts are whole words
        is_short = capacity < (1 << short_link_bits)
        self.link_bits = short_link_bits if is_short else LONG_LINK
        halves = capacity // 2
        sizes = (halves if is_short else capacity, halves, capacity // 8)
        # All parts in one array: NumPy asks for large pages where it is worth them.
        self._memory: Longs = np.empty(sum(sizes), np.int64)
        words, heads, self.bitmap = np.split(self._memory, np.cumsum(sizes)[:-1])
        self.chain: Words = words.view(np.uint32) if is_short else words
        self.heads: Ints = heads.view(np.int32)
        self.heads[:] = -1
        self.bitmap[:] = 0

    def extend(self, start: int, hashes: Hashes) -> None:
        """Chains entries from `start` on, as far as there is capacity for."""
        link_entries(self.heads, self.bitmap, self.chain, self.link_bits, start, hashes.view(np.int64))

    @property
    def nbytes(self) -> int:
        return int(self._memory.nbytes)

    def used(self, count: int) -> int:
        """Bytes with the first `count` entries; what is reserved is not memory before something is in it."""
        return sum(int(part.nbytes) for part in (self.heads, self.bitmap, self.chain[:count]))

"""A number for each value that has been seen: the same for equal values, whatever their hashes.

A table of open addresses leads from a hash to a slot, and each slot knows the row that was the first of its
value. Where a hash leads to another value, the next hash of a fixed series is tried. Slots are never given
up, so a value is always found where it was put.

    x, y and z hash to 5, 5 and 8    slots: x 0 (by 5), y 1 (by the hash after 5), z 2 (by 8)
"""

from __future__ import annotations

from collections.abc import Callable

import numba
import numpy as np
import numpy.typing as npt

from watersmeet.kernel.columns.growing import GrowingColumn
from watersmeet.kernel.columns.hash_index import Ints, Longs
from watersmeet.kernel.columns.hashing import Hashes, next_hashes

SameValues = Callable[[Longs, Longs], npt.NDArray[np.bool_]]  # of rows and others, pair by pair

_LEAST = 64
_FREE = -1


@numba.njit(cache=True)
def _find_slots(table, known, firsts, count, hashes, rows):  # type: ignore[no-untyped-def]
    """The slot of each hash, a new one for a row whose hash is new; and how many slots there are then."""
    mask = np.uint64(len(table) - 1)
    slots = np.empty(len(hashes), np.int32)
    for number in range(len(hashes)):
        hash_ = hashes[number]
        place = hash_ & mask
        slot = table[place]
        while slot != _FREE and known[slot] != hash_:
            place = (place + np.uint64(1)) & mask
            slot = table[place]
        if slot == _FREE:
            slot = table[place] = count
            known[count] = hash_
            firsts[count] = rows[number]
            count += 1
        slots[number] = slot
    return slots, count


@numba.njit(cache=True)
def _fill_table(table, known):  # type: ignore[no-untyped-def]
    mask = np.uint64(len(table) - 1)
    for slot in range(len(known)):
        place = known[slot] & mask
        while table[place] != _FREE:
            place = (place + np.uint64(1)) & mask
        table[place] = slot


class ValueSlots:
    """The values seen so far, numbered from 0 in the order in which they came."""

    def __init__(self) -> None:
        self.count = 0
        self._table: Ints = np.full(2 * _LEAST, _FREE, np.int32)
        self._hashes = GrowingColumn(np.uint64, _LEAST)
        self._firsts = GrowingColumn(np.int32, _LEAST)

    @property
    def nbytes(self) -> int:
        return int(self._table.nbytes) + self._hashes.nbytes + self._firsts.nbytes

    def of(self, hashes: Hashes, rows: Longs, same: SameValues) -> Ints:
        """The slots of the values of these rows, by their hashes; rows must be there for `same` for ever."""
        self._reserve(len(rows))
        slots = np.empty(len(rows), np.int32)
        left = np.arange(len(rows))
        while len(left):  # once, unless values collide
            found, self.count = _find_slots(
                self._table, self._hashes.values, self._firsts.values, self.count, hashes, rows[left]
            )
            slots[left] = found
            firsts = self._firsts.values[found].astype(np.int64)
            doubtful = np.flatnonzero(firsts != rows[left])
            doubtful = doubtful[~same(rows[left[doubtful]], firsts[doubtful])]
            left, hashes = left[doubtful], next_hashes(hashes[doubtful])
        return slots

    def _reserve(self, more: int) -> None:
        """Room for so many new values, in a table that stays half empty."""
        most = self.count + more
        self._hashes.reserve(self.count, most)
        self._firsts.reserve(self.count, most)
        if 2 * most > len(self._table):
            self._table = np.full(2 ** int(2 * most - 1).bit_length(), _FREE, np.int32)
            _fill_table(self._table, self._hashes.values[: self.count])

"""Columns of facts about entries that grow at their end: plain ones, and row numbers in runs."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import numpy.typing as npt

from watersmeet.kernel.columns.hash_index import Longs

_ENTRIES_PER_RUN = 16  # fewer than this on average, and each entry has a number of its own
_MOST_RUNS = 1024  # to look for an entry's run among more would take longer than to fetch its number


@numba.njit(cache=True)
def _runs(rows):  # type: ignore[no-untyped-def]
    """Where runs of rows begin that follow each other."""
    count = 1
    for entry in range(1, len(rows)):
        count += rows[entry] != rows[entry - 1] + 1
    begins = np.zeros(count, np.int64)
    if count > 1:
        run = 0
        for entry in range(1, len(rows)):
            if rows[entry] != rows[entry - 1] + 1:
                run += 1
                begins[run] = entry
    return begins


class GrowingColumn:
    """A NumPy array of rows that grows by doubling."""

    __slots__ = ("values",)

    def __init__(self, dtype: npt.DTypeLike, capacity: int) -> None:
        self.values: npt.NDArray[Any] = np.empty(capacity, dtype)

    def put(self, start: int, new: npt.NDArray[Any]) -> None:
        stop = start + len(new)
        self.reserve(start, stop)
        self.values[start:stop] = new

    def reserve(self, count: int, most: int) -> None:
        """Room for so many rows, of which the first `count` are kept."""
        if most > len(self.values):
            grown = np.empty(max(most, 2 * len(self.values)), self.values.dtype)
            grown[:count] = self.values[:count]
            self.values = grown

    def keep(self, chosen: npt.NDArray[np.bool_]) -> None:
        """Leaves of the first `len(chosen)` rows those that are chosen."""
        self.values = self.values[: len(chosen)][chosen]

    @property
    def nbytes(self) -> int:
        return int(self.values.nbytes)

    def used(self, count: int) -> int:
        """Bytes of the first `count` rows; what is reserved is not memory before something is in it."""
        return int(self.values[:count].nbytes)


class RowNumbers:
    """The row number of each entry, from `first_row` on.

    Rows mostly come one after the other, so a few runs number them all. Where many are left out (a batch in
    disorder, of which each slice takes a part) every entry has its own number, in half a word.

        entries 0 to 5 of rows 7, 8, 9, 20, 21, 22    runs: from entry 0 add 7, from entry 3 add 17
    """

    __slots__ = ("_added", "_first_row", "_own", "_starts")

    def __init__(self, first_row: int = 0) -> None:
        self._first_row = first_row
        self._starts: Longs = np.empty(0, np.int64)
        self._added: Longs = np.empty(0, np.int64)
        self._own: GrowingColumn | None = None

    def put(self, start: int, rows: Longs) -> None:
        """Numbers the entries from `start` on; all before it have theirs."""
        if not len(rows):
            return
        if self._own is None:
            begins = _runs(rows)
            added = rows[begins] - start - begins
            if len(self._added) and added[0] == self._added[-1]:
                begins, added = begins[1:], added[1:]
            runs = len(self._starts) + len(begins)
            if runs <= _MOST_RUNS and runs * _ENTRIES_PER_RUN <= max(start + len(rows), 256):
                self._starts = np.append(self._starts, start + begins)
                self._added = np.append(self._added, added)
                return
            before = self.of(np.arange(start))
            self._own = GrowingColumn(np.uint32, start + len(rows))
            self._own.put(0, before - self._first_row)
        self._own.put(start, rows - self._first_row)

    def of(self, entries: Longs) -> Longs:
        """The row numbers of these entries."""
        if self._own is not None:
            return self._first_row + self._own.values[entries].astype(np.int64)
        if len(self._starts) < 2:
            alone: Longs = entries + self._added.sum()
            return alone
        return entries + self._added[np.searchsorted(self._starts, entries, side="right") - 1]

    @property
    def nbytes(self) -> int:
        return self._of_runs if self._own is None else self._own.nbytes

    def used(self, count: int) -> int:
        return self._of_runs if self._own is None else self._own.used(count)

    @property
    def _of_runs(self) -> int:
        return int(self._starts.nbytes + self._added.nbytes)

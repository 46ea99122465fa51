"""Which rows are the last n of their value: when a row under PARTITION BY ends, and what is left of a stream.

Rows enter in the order of the watermark, so all that enter together come after all that have entered before.
The last rows of a value are a circle of row numbers: each leads to the one after it, the newest to the
oldest. A row ends at the event time of the n-th next one of its value, NULL being a value of its own.

    n = 1, of value x: row 4 at 10    entering: row 7 (x at 12), row 8 (y at 13), row 9 (x at 15)
    row 4 ends at 12, row 7 at 15; the last ones are row 8 and row 9
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numba
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.kernel.columns.growing import GrowingColumn
from watersmeet.kernel.columns.hash_index import Longs
from watersmeet.kernel.columns.hashing import combine_hashes, hash_column, same_values
from watersmeet.kernel.columns.row_order import order_by_values
from watersmeet.kernel.columns.value_slots import ValueSlots
from watersmeet.query import NEVER

Columns = Callable[[Sequence[str], Longs], list[pa.Array]]  # columns of rows, by their numbers

_NONE = -1


@dataclass(frozen=True)
class Ended:
    """What the rows that entered have decided: their own ends, and those of earlier rows."""

    ends: Longs  # of the rows that entered; NEVER as long as nothing has ended them
    earlier: Longs  # rows
    earlier_ends: Longs


@numba.njit(cache=True)
def _enter(size, newest, counts, after, places, order, slots, rows, ts, joins):  # type: ignore[no-untyped-def]
    """Lets rows in, in this order; `places` says of each row where it stands in `rows`, if it enters now."""
    ends = np.full(len(rows), NEVER)
    earlier = np.empty(len(rows), np.int64)
    earlier_ends = np.empty(len(rows), np.int64)
    ended = 0
    for number in order:
        slot, row, time = slots[number], rows[number], ts[number]
        last = newest[slot]
        if counts[slot] < size:
            oldest = after[last] if counts[slot] else row
            counts[slot] += 1
        else:
            leaving = after[last]
            oldest = after[leaving] if size > 1 else row
            if places[leaving] == _NONE:
                earlier[ended] = leaving
                earlier_ends[ended] = time
                ended += 1
            else:
                ends[places[leaving]] = time
        if counts[slot] > 1:
            after[last] = row
        after[row] = oldest
        newest[slot] = row
        if size == 1 and not joins[number]:
            ends[number] = time
            counts[slot] = 0
    return ends, earlier[:ended], earlier_ends[:ended]


class LatestRows:
    """The last rows of each value of an input."""

    def __init__(self, size: int, partition: Sequence[str], order_by: Sequence[str]) -> None:
        self._size = size
        self._partition = tuple(partition)
        self._order_by = tuple(order_by)
        self._values = ValueSlots()
        self._newest = GrowingColumn(np.int32, 0)  # by slot of the value
        self._counts = GrowingColumn(np.int32, 0)
        self._after = GrowingColumn(np.int32, 0)  # by row

    @property
    def nbytes(self) -> int:
        return self._values.nbytes + self._newest.nbytes + self._counts.nbytes + self._after.nbytes

    def enter(self, rows: Longs, ts: Longs, columns: Columns, joins: npt.NDArray[np.bool_]) -> Ended:
        """Takes rows that come after all that are here; what does not join only counts.

        Where one row of a value is kept, a row that only counts has done so as soon as it has entered.
        """
        own = columns(self._partition, rows)

        def same(some: Longs, others: Longs) -> npt.NDArray[np.bool_]:
            are_same = np.ones(len(some), np.bool_)
            pairs = zip(columns(self._partition, some), columns(self._partition, others), strict=True)
            for one, other in pairs if len(some) else ():
                are_same &= same_values(one, other)
            return are_same

        before = self._values.count
        slots = self._values.of(combine_hashes([hash_column(column) for column in own]), rows, same)
        known = self._values.count
        self._newest.reserve(before, known)
        self._counts.reserve(before, known)
        self._counts.values[before:known] = 0
        self._after.reserve(len(self._after.values), int(rows.max()) + 1)
        places = np.full(len(self._after.values), _NONE, np.int32)
        places[rows] = np.arange(len(rows), dtype=np.int32)
        order = self._in_order(rows, ts, columns)
        arrays = self._newest.values, self._counts.values, self._after.values
        return Ended(*_enter(self._size, *arrays, places, order, slots, rows, ts, joins))

    def _in_order(self, rows: Longs, ts: Longs, columns: Columns) -> Longs:
        """The rows in the order of ts, then values."""
        order = np.argsort(ts, kind="stable")
        sorted_ts = ts[order]
        alike = np.zeros(len(ts), np.bool_)
        again = sorted_ts[1:] == sorted_ts[:-1]
        alike[1:] |= again
        alike[:-1] |= again
        if alike.any():  # only of these do the values matter
            tied = order[alike]
            keys = [pa.array(ts[tied]), *columns(self._order_by, rows[tied])]
            order[alike] = tied[np.asarray(order_by_values(keys))]
        return order

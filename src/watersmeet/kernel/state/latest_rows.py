"""Which rows are the last n of their value: when a row under PARTITION BY ends, and what is left of a stream.

Rows enter in the order of the watermark, so all that enter together come after all that have entered before.
The last rows of all values are kept by the hash of the value; rows that hash alike are told apart by their
values. A row ends at the event time of the n-th next one of its value, NULL being a value of its own.

    n = 1, of value x: row 4 at 10    entering: row 7 (x at 12), row 8 (y at 13), row 9 (x at 15)
    row 4 ends at 12, row 7 at 15; the last ones are row 8 and row 9
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.kernel.columns.hash_index import Longs
from watersmeet.kernel.columns.hashing import Hashes, combine_hashes, hash_column, same_values
from watersmeet.kernel.columns.row_order import order_by_values
from watersmeet.query import NEVER

Columns = Callable[[Sequence[str], Longs], list[pa.Array]]  # columns of rows, by their numbers


@dataclass(frozen=True)
class Ended:
    """What the rows that entered have decided: their own ends, and those of earlier rows."""

    ends: Longs  # of the rows that entered; NEVER as long as nothing has ended them
    earlier: Longs  # rows
    earlier_ends: Longs


class LatestRows:
    """The last rows of each value of an input."""

    def __init__(self, size: int, partition: Sequence[str], order_by: Sequence[str]) -> None:
        self._size = size
        self._partition = tuple(partition)
        self._order_by = tuple(order_by)
        self._hashes: Hashes = np.empty(0, np.uint64)  # in order, and of a value by age
        self._rows: Longs = np.empty(0, np.int64)

    @property
    def nbytes(self) -> int:
        return int(self._hashes.nbytes + self._rows.nbytes)

    def enter(self, rows: Longs, ts: Longs, columns: Columns, joins: npt.NDArray[np.bool_]) -> Ended:
        """Takes rows that come after all that are here; what does not join only counts.

        Where one row of a value is kept, a row that only counts has done so as soon as it has entered.
        """
        hashes = combine_hashes([hash_column(column) for column in columns(self._partition, rows)])
        met = self._of_values(np.unique(hashes))
        earlier = self._rows[met]
        everything = np.concatenate((earlier, rows))
        values = value_groups(columns(self._partition, everything))
        times = np.concatenate((np.full(len(earlier), -NEVER), ts))
        # What is here is in order already, and before all that comes.
        ranks = np.concatenate((np.arange(len(earlier)), len(earlier) + self._ranks(rows, ts, columns)))
        order = np.lexsort((ranks, values))
        ends = np.full(len(everything), NEVER)
        if len(order) > self._size:
            before, after = order[: -self._size], order[self._size :]
            same = values[before] == values[after]
            ends[before[same]] = times[after[same]]
        old, new = ends[: len(earlier)], ends[len(earlier) :]
        if self._size == 1:
            new = np.where(joins, new, np.minimum(new, ts))
        has_ended = old != NEVER
        self._leave(met[has_ended])
        in_order = order[order >= len(earlier)] - len(earlier)
        self._put(hashes, rows, in_order[new[in_order] == NEVER])
        return Ended(new, earlier[has_ended], old[has_ended])

    def _of_values(self, wanted: Hashes) -> Longs:
        """Where the rows of these hashes are."""
        starts = np.searchsorted(self._hashes, wanted, side="left")
        counts = np.searchsorted(self._hashes, wanted, side="right") - starts
        firsts = np.repeat(starts - (np.cumsum(counts) - counts), counts)
        return np.asarray(firsts + np.arange(len(firsts)), np.int64)

    def _ranks(self, rows: Longs, ts: Longs, columns: Columns) -> Longs:
        """Each row's place in the order of ts, then values."""
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
        ranks = np.empty(len(ts), np.int64)
        ranks[order] = np.arange(len(ts))
        return ranks

    def _leave(self, places: Longs) -> None:
        if len(places):
            stays = np.ones(len(self._rows), np.bool_)
            stays[places] = False
            self._hashes, self._rows = self._hashes[stays], self._rows[stays]

    def _put(self, hashes: Hashes, rows: Longs, chosen: Longs) -> None:
        """Adds the chosen rows, which are in order within each value, behind those of their hash."""
        chosen = chosen[np.argsort(hashes[chosen], kind="stable")]
        places = np.searchsorted(self._hashes, hashes[chosen], side="right")
        self._hashes = np.insert(self._hashes, places, hashes[chosen])
        self._rows = np.insert(self._rows, places, rows[chosen])


def value_groups(columns: Sequence[pa.Array]) -> npt.NDArray[np.int64]:
    """A number for each row: the same for rows of equal values, NULL being equal to NULL."""
    hashes = combine_hashes([hash_column(column) for column in columns])
    groups = np.unique(hashes, return_inverse=True)[1].astype(np.int64)
    while True:  # once, unless values collide
        firsts = np.unique(groups, return_index=True)[1]
        heads = pa.array(firsts[groups])
        same = np.ones(len(groups), np.bool_)
        for column in columns:
            same &= same_values(column, column.take(heads))
        if same.all():
            return groups
        groups[~same] += len(firsts)
        groups = np.unique(groups, return_inverse=True)[1].astype(np.int64)

"""Combinations that are not decided yet, by the end of their lifetimes.

`Undecided` takes rows whose ends are known. Under windows that count rows an end is known only once a later
row has come: `Unsettled` looks at all of its rows in each step, as such windows do everywhere.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from watersmeet.kernel.columns.hash_index import Longs
from watersmeet.kernel.state.row_ends import EndsOf
from watersmeet.query import NEVER

NO_POSITION = -1  # of a tuple that is missing
_NONE: Longs = np.empty(0, np.int64)


@dataclass
class _Part:
    """Rows in the order of their ends; those before `since` have been released."""

    ends: Longs
    rows: Longs
    least_ts: Longs  # of this row and all that follow
    since: int = 0


class Undecided:
    """Rows that leave once a bound has reached their ends, at a cost that follows those that leave."""

    def __init__(self) -> None:
        self._parts: dict[int, _Part] = {}
        self._due: list[tuple[int, int]] = []  # the next end of each part, and its number
        self._next = 0

    def add(self, rows: Longs, ts: Longs, ends: Longs) -> None:
        """Takes rows with their lifetimes."""
        if not len(rows):
            return
        if not (ends[1:] >= ends[:-1]).all():
            order = np.argsort(ends, kind="stable")
            rows, ts, ends = rows[order], ts[order], ends[order]
        least = np.minimum.accumulate(ts[::-1])[::-1]
        self._parts[self._next] = _Part(ends, rows, least)
        heapq.heappush(self._due, (int(ends[0]), self._next))
        self._next += 1

    def release(self, bound: int) -> Longs:
        """The rows that end by the bound, in order of their numbers."""
        found: list[Longs] = []
        while self._due and self._due[0][0] <= bound:
            _, number = heapq.heappop(self._due)
            part = self._parts[number]
            stop = int(np.searchsorted(part.ends, bound, side="right"))
            found.append(part.rows[part.since : stop])
            part.since = stop
            if stop == len(part.ends):
                del self._parts[number]
            else:
                heapq.heappush(self._due, (int(part.ends[stop]), number))
        return np.sort(np.concatenate(found)) if found else _NONE

    @property
    def least_ts(self) -> int:
        """The earliest event time of the rows that are left; NEVER if there are none."""
        return min((int(part.least_ts[part.since]) for part in self._parts.values()), default=NEVER)


class Unsettled:
    """Rows with the positions of their tuples, which decide when they end."""

    def __init__(self, aliases: Iterable[str]) -> None:
        """`aliases` of the inputs whose rows are counted."""
        self.rows = self._ts = self._ends = _NONE
        self._positions = dict.fromkeys(aliases, _NONE)

    def add(self, rows: Longs, ts: Longs, ends: Longs, positions: Mapping[str, Longs]) -> None:
        """Takes rows, which are later ones, with their lifetimes as far as these are known."""
        self.rows, self._ts = np.concatenate((self.rows, rows)), np.concatenate((self._ts, ts))
        self._ends = np.concatenate((self._ends, ends))
        self._positions = {
            name: np.concatenate((own, positions[name])) for name, own in self._positions.items()
        }

    def settle(self, alias: str, ends_of: EndsOf) -> tuple[Longs, Longs]:
        """Takes when tuples of an input end; the rows whose ends follow from that, and these ends."""
        positions = self._positions[alias]
        found = ends_of(positions)
        sooner = (positions != NO_POSITION) & (found < self._ends)
        self._ends[sooner] = found[sooner]
        return self.rows[sooner], self._ends[sooner]

    def release(self, bound: int) -> Longs:
        """The rows that end by the bound, in order of their numbers."""
        due = self._ends <= bound
        if not due.any():
            return _NONE
        released = self.rows[due]
        self.rows, self._ts, self._ends = self.rows[~due], self._ts[~due], self._ends[~due]
        self._positions = {name: own[~due] for name, own in self._positions.items()}
        return released

    @property
    def least_ts(self) -> int:
        """The earliest event time of the rows that are left; NEVER if there are none."""
        return int(self._ts.min(initial=NEVER))

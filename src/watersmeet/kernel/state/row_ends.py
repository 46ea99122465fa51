"""When rows end, by their numbers, where later rows decide it: numbers are dense, so an array does.

Answers know their tuples by numbers that stay, positions; `SettledEnds` says which of them a step has ended.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from watersmeet.kernel.columns.hash_index import Longs
from watersmeet.query import NEVER

EndsOf = Callable[[Longs], Longs]  # of the tuples at some positions, as far as a step has decided them


class RowEnds:
    """The ends of the rows of one store; NEVER as long as nothing has ended them."""

    def __init__(self) -> None:
        self._ends: Longs = np.empty(0, np.int64)

    def put(self, rows: Longs, ends: Longs) -> None:
        """Says when rows end."""
        if not len(rows):
            return
        count = int(rows.max()) + 1
        if count > len(self._ends):
            grown = np.full(max(count, 2 * len(self._ends)), NEVER)
            grown[: len(self._ends)] = self._ends
            self._ends = grown
        self._ends[rows] = ends

    def of(self, rows: Longs) -> Longs:
        """When these rows end."""
        known = rows < len(self._ends)
        if known.all():
            return np.asarray(self._ends[rows])
        ends = np.full(len(rows), NEVER)
        ends[known] = self._ends[rows[known]]
        return ends

    @property
    def nbytes(self) -> int:
        return int(self._ends.nbytes)


@dataclass(frozen=True)
class SettledEnds:
    """Some positions, in order, and when their tuples end."""

    positions: Longs
    ends: Longs

    def of(self, positions: Longs) -> Longs:
        """When the tuples at these positions end, as far as this says it."""
        found = np.full(len(positions), NEVER)
        if len(self.positions):
            places = np.minimum(np.searchsorted(self.positions, positions), len(self.positions) - 1)
            known = self.positions[places] == positions
            found[known] = self.ends[places[known]]
        return found

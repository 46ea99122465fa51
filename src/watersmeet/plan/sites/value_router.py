"""Which partition of a PMJoin a value goes to: section 3.3's partitionings as a lookup for single tuples.

Paper: PMJoin, DASFAA 2006, section 3.3. `stream_partition` collects cells into partitions; here a tuple's
value finds its cell, and the cell its partition. Every value has exactly one partition, also those that
nobody listed, so tuples that join always meet.

A cell that several partitions share by parts (`stream_partition` says when) is cut as the model assumes: a
range by where the value lies in it, anything else by a hash of the value. A value outside every cell, which
the statistics say cannot occur, goes by its hash.

    >>> import numpy as np
    >>> first, second = (Partition(str(n), np.array([n]), np.array([1.0])) for n in range(2))
    >>> router = ValueRouter("rate", (Cell(value="x"), Cell(low=0.0, high=10.0)), (first, second))
    >>> router.partition_of("x"), router.partition_of(7)
    (0, 1)
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from watersmeet.plan.sites.stream_partition import Partition, stable_hash
from watersmeet.plan.statistics.attribute import Value
from watersmeet.plan.statistics.value_groups import Cell

_HASHES = 2.0**64

Pieces = tuple[list[float], list[int]]  # where the pieces of a cell end, from 0 to 1, and their partitions


@dataclass(frozen=True, eq=False)
class ValueRouter:
    """Finds the index of a value's partition in `partitions`."""

    kind: str
    cells: Sequence[Cell]
    partitions: Sequence[Partition]
    _by_value: dict[tuple[bool, Value], int] = field(init=False, repr=False)
    _lows: list[float] = field(init=False, repr=False)
    _ranges: list[int] = field(init=False, repr=False)
    _pieces: dict[int, Pieces] = field(init=False, repr=False)
    _unlisted: int | None = field(init=False, repr=False)

    def __post_init__(self) -> None:
        listed = {
            (isinstance(c.value, str), c.value): n for n, c in enumerate(self.cells) if c.value is not None
        }
        ranges = [n for n, cell in enumerate(self.cells) if cell.low is not None]
        ranges.sort(key=lambda n: self.cells[n].low or 0.0)
        unlisted = [n for n, cell in enumerate(self.cells) if cell.value is None and cell.low is None]
        object.__setattr__(self, "_by_value", listed)
        object.__setattr__(self, "_ranges", ranges)
        object.__setattr__(self, "_lows", [self.cells[n].low for n in ranges])
        object.__setattr__(self, "_unlisted", unlisted[0] if unlisted else None)
        object.__setattr__(self, "_pieces", self._cut())

    def _cut(self) -> dict[int, Pieces]:
        shares: dict[int, list[tuple[int, float]]] = {}
        for number, part in enumerate(self.partitions):
            for cell, weight in zip(part.cells.tolist(), part.weights.tolist(), strict=True):
                shares.setdefault(cell, []).append((number, weight))
        return {
            cell: (list(accumulate(weight for _, weight in found))[:-1], [number for number, _ in found])
            for cell, found in shares.items()
        }

    def partition_of(self, value: Hashable) -> int:
        """The partition of a value; of one that is neither text nor a number, by its text."""
        plain = value if isinstance(value, str | int | float) else str(value)
        cell = self.cell_of(plain)
        pieces = self._pieces.get(cell) if cell is not None else None
        if cell is None or pieces is None:
            return stable_hash(plain) % len(self.partitions)
        ends, numbers = pieces
        return numbers[bisect_right(ends, self._place(plain, self.cells[cell]))] if ends else numbers[0]

    def cell_of(self, value: Value) -> int | None:
        """The cell a value lies in."""
        cell = self._by_value.get((isinstance(value, str), value))
        if cell is not None:
            return cell
        if not isinstance(value, str) and self._ranges:
            n = bisect_right(self._lows, value) - 1
            if n >= 0 and value < (self.cells[self._ranges[n]].high or 0.0):
                return self._ranges[n]
        return self._unlisted

    def _place(self, value: Value, cell: Cell) -> float:
        """Where in a shared cell a value is, from 0 to 1."""
        if self.kind == "range" and cell.low is not None and cell.high is not None:
            return (float(value) - cell.low) / (cell.high - cell.low)
        return stable_hash(value) / _HASHES

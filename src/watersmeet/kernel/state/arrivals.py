"""Tuples on their way into a join."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from watersmeet.kernel.columns.groups import Selection
from watersmeet.kernel.columns.hash_index import Longs
from watersmeet.kernel.columns.hashing import Hashes


@dataclass(frozen=True)
class Arrivals:
    """New tuples of one input: lifetimes, row numbers within the input, and a hash per class."""

    ts: Longs
    ends: Longs
    rows: Longs
    hashes: dict[int, Hashes]
    positions: Longs | None = None  # within the stream, under windows that count rows

    def __len__(self) -> int:
        return len(self.ts)

    def pick(self, chosen: Selection) -> Arrivals:
        """The tuples of a selection."""
        if isinstance(chosen, slice) and chosen == np.s_[0 : len(self)]:
            return self
        return Arrivals(
            self.ts[chosen],
            self.ends[chosen],
            self.rows[chosen],
            {cls: hashes[chosen] for cls, hashes in self.hashes.items()},
            None if self.positions is None else self.positions[chosen],
        )


def concat_arrivals(parts: Sequence[Arrivals]) -> Arrivals:
    """Tuples of one input, one part after the other."""
    if len(parts) == 1:
        return parts[0]
    positions = [part.positions for part in parts if part.positions is not None]
    return Arrivals(
        np.concatenate([part.ts for part in parts]),
        np.concatenate([part.ends for part in parts]),
        np.concatenate([part.rows for part in parts]),
        {cls: np.concatenate([part.hashes[cls] for part in parts]) for cls in parts[0].hashes},
        np.concatenate(positions) if positions else None,
    )

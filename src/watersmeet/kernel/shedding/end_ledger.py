"""How much of what has come is gone, by the ends of lifetimes: for rows whose ends follow no one window.

`survival.Ledger` counts tuples of one window by event time. Results of joins end when the first of their
tuples does, so they are counted by their ends; and a row that stands for several, because others of its kind
were never found, counts as many. A row that arrives at t meets those whose lifetimes end after t.

    three rows came that end at 10, 20 and 30; that of 10 was shed     a row of t = 5 finds 2/3, one of 15 all
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from watersmeet.kernel.columns.hash_index import Longs
from watersmeet.kernel.shedding.bins import Floats, coarsened, totals_at
from watersmeet.kernel.tuning import DEFAULT_TUNING, Tuning
from watersmeet.query import BEGINNING, NEVER


@dataclass
class EndLedger:
    """Amounts by the end of the lifetimes they belong to: how much came, and how much of it went."""

    tuning: Tuning = DEFAULT_TUNING
    width: int = 0  # of a bin; 0 before the first row
    bins: dict[int, list[float]] = field(default_factory=dict)  # number of the bin -> [came, went]

    def come(self, ts: Longs, ends: Longs, amounts: Floats) -> None:
        """Takes in amounts with the lifetimes [ts, ends)."""
        if len(ends) and not self.width:
            bounded = ends < NEVER
            longest = int((ends[bounded] - ts[bounded]).max()) if bounded.any() else 0
            self.width = max(1, longest // self.tuning.bins_per_window)
        self._add(ends, amounts, 0)

    def go(self, ends: Longs, amounts: Floats) -> None:
        """Notes what was shed."""
        self._add(ends, amounts, 1)

    @property
    def has_lost(self) -> bool:
        return any(went > 0 for _, went in self.bins.values())

    @property
    def present(self) -> float:
        """What came and has neither gone nor expired."""
        return max(0.0, sum(came - went for came, went in self.bins.values()))

    def kept_share(self, t: Longs) -> Floats:
        """For rows that arrive at these times, the share of what they could meet that is still there."""
        if not self.bins:
            return np.ones(len(t))
        end = np.array([np.inf])
        [before, all_came], [went_before, all_went] = totals_at(self.bins, self.width, t, end)
        due, gone = all_came - before, all_went - went_before
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(due > 0, (due - gone) / due, 1.0)
        return np.clip(share, 0.0, 1.0)

    def expire(self, watermark: int) -> None:
        """Forgets what nothing at or after the watermark can meet."""
        if watermark != BEGINNING:
            self.bins = {n: each for n, each in self.bins.items() if (n + 1) * self.width > watermark}
        while len(self.bins) > self.tuning.max_bins:
            self._coarsen()

    def snapshot(self) -> dict[str, Any]:
        return {"width": self.width, "bins": [[n, *each] for n, each in sorted(self.bins.items())]}

    @classmethod
    def restore(cls, snapshot: Mapping[str, Any], tuning: Tuning = DEFAULT_TUNING) -> EndLedger:
        bins = {int(n): [came, went] for n, came, went in snapshot["bins"]}
        return cls(tuning, snapshot["width"], bins)

    def _add(self, ends: Longs, amounts: Floats, part: int) -> None:
        numbers, owners = np.unique(ends // max(1, self.width), return_inverse=True)
        for number, amount in zip(numbers.tolist(), np.bincount(owners, amounts).tolist(), strict=True):
            self.bins.setdefault(number, [0.0, 0.0])[part] += amount

    def _coarsen(self) -> None:
        """Bins twice as wide."""
        self.width *= 2
        self.bins = coarsened(self.bins, 0.0)

"""How complete the answers are when tuples are shed, from the tuples that came and the tuples that went.

After DHTJoin's section 5 (see `plan.completeness`): a stream that keeps a share of its window gives that
share of its matches. There the share follows from rates and memory; here it is counted. A ledger has, per
input and stretch of time, how many tuples arrived and how many of them were shed. When a tuple of input h
arrives at t, its partners of input j are those with times in [start of j's window at t, end of the tuple's
own lifetime); n of them arrived, g of them are gone. All combinations of the arriving tuple with its partners
are n1 * n2 * ..., those that can still be found (n1 - g1) * (n2 - g2) * ... The arriving tuple itself is
never missing: that is where we differ from the paper's product over all streams.

    two streams, a third of both windows kept: completeness 1/3, not 1/9

Summed over the arrivals of a step this is the probability P that an answer due in it is found. If A answers
were found, A / P were due. That takes matches to be as likely for tuples kept as for tuples shed: so it is
for random shedding, and under one window for the oldest. Where tuples are shed for matching little, more is
found than this says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from watersmeet.kernel.columns.hash_index import Longs
from watersmeet.kernel.layout import InputLayout
from watersmeet.kernel.shedding.bins import Floats, coarsened, totals_at
from watersmeet.kernel.state.arrivals import Arrivals
from watersmeet.kernel.tuning import DEFAULT_TUNING, Tuning
from watersmeet.query import BEGINNING, Window

INSTANTS = 16  # arrivals of an input in a step are taken to come at this many instants


@dataclass
class Ledger:
    """Tuples of one input by event time, or by row position under a ROWS window: how many came and went."""

    window: Window
    width: int
    bins: dict[int, list[int]] = field(default_factory=dict)  # number of the bin -> [arrived, shed]
    newest_position: int = -1  # of the whole stream, under a ROWS window
    max_bins: int = DEFAULT_TUNING.max_bins

    @classmethod
    def of(cls, window: Window, tuning: Tuning = DEFAULT_TUNING) -> Ledger:
        span = window.duration_us if window.row_count is None else window.row_count
        width = 0 if span is None else max(1, span // tuning.bins_per_window)
        return cls(window, width, max_bins=tuning.max_bins)

    def arrive(self, positions: Longs) -> None:
        self._add(positions, 0)

    def shed(self, positions: Longs) -> None:
        self._add(positions, 1)

    @property
    def has_shed(self) -> bool:
        return any(gone > 0 for _, gone in self.bins.values())

    def expire(self, watermark: int) -> None:
        """Forgets the tuples that none at or after the watermark can meet."""
        if self.width and watermark != BEGINNING:
            now = self.newest_position + 1 if self.window.numbers_rows else watermark
            oldest = self.window.first_inside(now)
            self.bins = {n: counts for n, counts in self.bins.items() if (n + 1) * self.width > oldest}
        while len(self.bins) > self.max_bins:
            self._coarsen()

    def between(self, low: Longs, high: Longs) -> tuple[Floats, Floats]:
        """How many tuples with positions in [low, high) came, and how many of them went."""
        if not self.width or not self.bins:
            arrived, gone = (np.array([each[part] for each in self.bins.values()]) for part in (0, 1))
            return np.full(len(low), arrived.sum()), np.full(len(low), gone.sum())
        [before, until], [went_before, went_until] = totals_at(self.bins, self.width, low, high)
        came, went = until - before, went_until - went_before
        return np.maximum(came, 0), np.clip(went, 0, came)

    def snapshot(self) -> dict[str, Any]:
        return {
            "width": self.width,
            "bins": [[n, came, gone] for n, (came, gone) in sorted(self.bins.items())],
            "newest_position": self.newest_position,
        }

    @classmethod
    def restore(cls, window: Window, snapshot: Mapping[str, Any], tuning: Tuning = DEFAULT_TUNING) -> Ledger:
        bins = {int(n): [came, gone] for n, came, gone in snapshot["bins"]}
        return cls(window, snapshot["width"], bins, snapshot["newest_position"], tuning.max_bins)

    def _add(self, positions: Longs, part: int) -> None:
        owners = positions // self.width if self.width else np.zeros(len(positions), np.int64)
        for number, count in zip(*np.unique(owners, return_counts=True), strict=True):
            self.bins.setdefault(int(number), [0, 0])[part] += int(count)

    def _coarsen(self) -> None:
        """Bins twice as wide."""
        self.width *= 2
        self.bins = coarsened(self.bins, 0)


class Survival:
    """The ledgers of all inputs of a join, and the share of answers that are found."""

    def __init__(self, inputs: Sequence[InputLayout], tuning: Tuning = DEFAULT_TUNING) -> None:
        self.inputs = tuple(inputs)
        self.ledgers = {item.alias: Ledger.of(item.window, tuning) for item in inputs}
        self._tuning = tuning

    def found_share(self, arrived: Mapping[str, Arrivals]) -> float | None:
        """The expected share of the answers due with these arrivals that are found; enters the arrivals.

        None if none is due. Inputs are taken in the join's order: a tuple meets the new tuples of inputs
        before its own only, so that each combination counts once.
        """
        due = found = 0.0
        is_whole = not any(ledger.has_shed for ledger in self.ledgers.values())
        for item in self.inputs:
            new = arrived.get(item.alias)
            if new is None or not len(new):
                continue
            if not is_whole:
                weight = len(new) / INSTANTS
                all_, kept = self._partners(item, new)
                due += weight * float(all_.sum())
                found += weight * float(kept.sum())
            self._enter(item, new)
        if is_whole:
            return 1.0
        return found / due if due else None

    def seed(self, alias: str, positions: Longs) -> None:
        """Takes tuples that were there before the ledger was."""
        self.ledgers[alias].arrive(positions)

    def expire(self, watermark: int) -> None:
        for ledger in self.ledgers.values():
            ledger.expire(watermark)

    def snapshot(self) -> dict[str, Any]:
        return {alias: ledger.snapshot() for alias, ledger in self.ledgers.items()}

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        windows = {item.alias: item.window for item in self.inputs}
        self.ledgers = {
            alias: Ledger.restore(windows[alias], snapshot[alias], self._tuning) for alias in self.ledgers
        }

    def _partners(self, item: InputLayout, new: Arrivals) -> tuple[Floats, Floats]:
        """Combinations of partners at some instants of the arrivals: all there were, and those left."""
        t = np.sort(new.ts)[np.linspace(0, len(new) - 1, INSTANTS).astype(np.int64)]
        end = item.window.known_end_us(t)
        all_, kept = np.ones(INSTANTS), np.ones(INSTANTS)
        for other in self.inputs:
            if other.alias != item.alias:
                ledger = self.ledgers[other.alias]
                if other.window.numbers_rows:
                    now = np.full(INSTANTS, ledger.newest_position + 1)
                    came, went = ledger.between(other.window.first_inside(now), now)
                else:
                    came, went = ledger.between(other.window.first_inside(t), end)
                all_ *= came
                kept *= came - went
        return all_, kept

    def _enter(self, item: InputLayout, new: Arrivals) -> None:
        self.ledgers[item.alias].arrive(new.ts if new.positions is None else new.positions)

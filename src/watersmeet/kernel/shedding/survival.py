"""How complete the answers are when tuples are shed, from the tuples that came and the tuples that went.

After DHTJoin's section 5 (see `plan.completeness`): a stream that keeps a share of its window gives that
share of its matches. There the share follows from rates and memory; here it is counted. A ledger has, per
input and stretch of time, how many tuples arrived and how many of them were shed. When a tuple of input h
arrives at t, its partners of input j are those with times in [start of j's window at t, end of the tuple's
own life); n of them arrived, g of them are gone. All combinations of the arriving tuple with its partners are
n1 * n2 * ..., those that can still be found (n1 - g1) * (n2 - g2) * ... The arriving tuple itself is never
missing: that is where we differ from the paper's product over all streams.

    two streams, a third of both windows kept: completeness 1/3, not 1/9

Summed over the arrivals of a step this is the chance P that an answer due in it is found. If A answers were
found, A / P were due. That takes matches to be as likely for tuples kept as for tuples shed: so it is for
random shedding, and under one window for the oldest. Where tuples are shed for matching little, more is found
than this tells.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from watersmeet.kernel.columns.hash_index import Longs
from watersmeet.kernel.layout import InputLayout
from watersmeet.kernel.state.store import Arrivals
from watersmeet.query import BEGINNING, Window

BINS_PER_WINDOW = 64
MAX_BINS = 512  # a watermark that stands still must not let a ledger grow for ever
INSTANTS = 16  # arrivals of an input in a step are taken to come at this many instants

Floats = npt.NDArray[np.float64]


@dataclass
class Ledger:
    """Tuples of one input by event time, or by place under a ROWS window: how many came, how many went."""

    window: Window
    width: int
    bins: dict[int, list[int]] = field(default_factory=dict)  # number of the bin -> [arrived, shed]
    newest_place: int = -1  # of the whole stream, under a ROWS window

    @classmethod
    def of(cls, window: Window) -> Ledger:
        span = window.duration_us if window.row_count is None else window.row_count
        return cls(window, 0 if span is None else max(1, span // BINS_PER_WINDOW))

    def arrive(self, positions: Longs) -> None:
        self._add(positions, 0)

    def shed(self, positions: Longs) -> None:
        self._add(positions, 1)

    @property
    def has_shed(self) -> bool:
        return any(gone > 0 for _, gone in self.bins.values())

    def expire(self, watermark: int) -> None:
        """Forgets what no tuple at or after the watermark can meet."""
        if self.width and watermark != BEGINNING:
            now = self.newest_place + 1 if self.window.counts_rows else watermark
            oldest = self.window.first_inside(now)
            self.bins = {n: counts for n, counts in self.bins.items() if (n + 1) * self.width > oldest}
        while len(self.bins) > MAX_BINS:
            self._coarsen()

    def between(self, low: Longs, high: Longs) -> tuple[Floats, Floats]:
        """How many tuples with positions in [low, high) came, and how many of them went."""
        numbers = sorted(self.bins)
        arrived, gone = (np.array([self.bins[n][part] for n in numbers]) for part in (0, 1))
        if not self.width or not numbers:
            return np.full(len(low), arrived.sum()), np.full(len(low), gone.sum())
        starts = np.array(numbers, np.float64) * self.width
        edges = np.column_stack((starts, starts + self.width)).ravel()

        def up_to(counts: Floats) -> Floats:
            total = np.cumsum(counts)
            steps = np.column_stack((total - counts, total)).ravel()
            return np.asarray(np.interp(high, edges, steps) - np.interp(low, edges, steps))

        came, went = up_to(arrived), up_to(gone)
        return np.maximum(came, 0), np.clip(went, 0, came)

    def snapshot(self) -> dict[str, Any]:
        return {
            "width": self.width,
            "bins": [[n, came, gone] for n, (came, gone) in sorted(self.bins.items())],
            "newest_place": self.newest_place,
        }

    @classmethod
    def restore(cls, window: Window, snapshot: Mapping[str, Any]) -> Ledger:
        bins = {int(n): [came, gone] for n, came, gone in snapshot["bins"]}
        return cls(window, snapshot["width"], bins, snapshot["newest_place"])

    def _add(self, positions: Longs, part: int) -> None:
        owners = positions // self.width if self.width else np.zeros(len(positions), np.int64)
        for number, count in zip(*np.unique(owners, return_counts=True), strict=True):
            self.bins.setdefault(int(number), [0, 0])[part] += int(count)

    def _coarsen(self) -> None:
        """Bins twice as wide."""
        self.width *= 2
        wider: dict[int, list[int]] = {}
        for number, (came, gone) in self.bins.items():
            both = wider.setdefault(number // 2, [0, 0])
            both[0] += came
            both[1] += gone
        self.bins = wider


class Survival:
    """The ledgers of all inputs of a join, and the chance of an answer to be found."""

    def __init__(self, inputs: Sequence[InputLayout]) -> None:
        self.inputs = tuple(inputs)
        self.ledgers = {item.alias: Ledger.of(item.window) for item in inputs}

    def chance(self, arrived: Mapping[str, Arrivals]) -> float | None:
        """The chance that an answer due with these arrivals is found, and enters them in the ledgers.

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
        self.ledgers = {alias: Ledger.restore(windows[alias], snapshot[alias]) for alias in self.ledgers}

    def _partners(self, item: InputLayout, new: Arrivals) -> tuple[Floats, Floats]:
        """Combinations of partners at some instants of the arrivals: all there were, and those left."""
        places = np.linspace(0, len(new) - 1, INSTANTS).astype(np.int64)
        t = np.sort(new.ts)[places]
        end = item.window.known_end_us(t)
        all_, kept = np.ones(INSTANTS), np.ones(INSTANTS)
        for other in self.inputs:
            if other.alias != item.alias:
                ledger = self.ledgers[other.alias]
                if other.window.counts_rows:
                    now = np.full(INSTANTS, ledger.newest_place + 1)
                    came, went = ledger.between(other.window.first_inside(now), now)
                else:
                    came, went = ledger.between(other.window.first_inside(t), end)
                all_ *= came
                kept *= came - went
        return all_, kept

    def _enter(self, item: InputLayout, new: Arrivals) -> None:
        self.ledgers[item.alias].arrive(new.ts if new.places is None else new.places)

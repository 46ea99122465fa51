"""A join that keeps within a limit of memory, and knows what that costs.

A micro-batch is taken in pieces; after each, tuples are shed if the state has outgrown the limit. The
probability that an answer is found is followed all along, so every batch reports how many it has missed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet.kernel.join.multiway import MultiwayJoin
from watersmeet.kernel.join.pieces import cut_by_time
from watersmeet.kernel.join.step_counts import StepCounts
from watersmeet.kernel.layout import POSITION, TS
from watersmeet.kernel.progress.row_numbers import RowPositions
from watersmeet.kernel.shedding.limit import Shed, StateLimit
from watersmeet.kernel.shedding.policy import bring_under
from watersmeet.kernel.shedding.survival import Survival
from watersmeet.kernel.shedding.thinning import PIECES, SHED_TO, fitting_block
from watersmeet.kernel.state.chunks import HoldBuffer

HELD_SHARE = 0.5  # held answers may take this much of the limit
WAITING_SHARE = 0.75  # tuples that wait for the watermark under ROWS windows take at most this much


class LimitedJoin:
    """Steps a join within its limit; `counts` is of the latest step."""

    def __init__(
        self, join: MultiwayJoin, limit: StateLimit, survival: Mapping[str, Any] | None = None
    ) -> None:
        """`survival` is its part of a snapshot; without one, the join holds all tuples there ever were."""
        self.join = join
        self.limit = limit
        self.counts = StepCounts()
        self.survival = Survival(join.layout.inputs, join.tuning)
        join.block_bytes = fitting_block(limit, join.tuning.block_bytes)
        if survival is not None:
            self.survival.restore(survival)
            return
        for alias, store in join.stores.items():
            name = POSITION if store.layout.window.numbers_rows else TS
            for chunk in store.chunks:
                self.survival.seed(alias, np.asarray(chunk.column(name)))

    def step(
        self,
        new: Mapping[str, pa.RecordBatch],
        watermark: int,
        positions: Mapping[str, RowPositions],
        held: HoldBuffer | None = None,
        waiting_bytes: int = 0,
    ) -> Iterator[pa.Table]:
        """As `MultiwayJoin.step`; `held` is where the caller puts the answers, which counts as well.

        So do the bytes of tuples that wait before the join and cannot be shed, up to a part of the limit.
        """
        self.counts = StepCounts()
        waiting = min(waiting_bytes, int(WAITING_SHARE * self.limit.nbytes))
        nbytes = max(1, self.limit.nbytes // PIECES)
        for piece in cut_by_time(new, positions, nbytes, whole_instants=self.join.layout.delayed):
            now = min(watermark, piece.rest_from)
            yield from self.join.step(piece.new, now, piece.positions)
            self._estimate()
            self._shed(held, waiting)
            self.counts.add(self.join.counts)

    def _estimate(self) -> None:
        for alias, store in self.join.stores.items():
            self.survival.ledgers[alias].newest_position = store.newest_position
        found_share = self.survival.found_share(self.join.arrived)
        if found_share and self.limit.shed is not Shed.LEAST:  # which the answers themselves show
            self.join.counts.missed = self.join.counts.answers * (1 / found_share - 1)
        self.join.arrived = {}
        self.survival.expire(self.join.watermark)

    def _shed(self, held: HoldBuffer | None, waiting: int) -> None:
        beside, allowed = held.nbytes if held is not None else 0, self.limit.nbytes - waiting
        if self.join.used_bytes + beside <= allowed:
            return
        if held is not None and self.limit.shed is not Shed.NONE and beside > HELD_SHARE * allowed:
            self.join.counts.missed += held.thin(int(SHED_TO * HELD_SHARE * allowed))
            beside = held.nbytes
        for alias, positions in bring_under(self.join, replace(self.limit, nbytes=allowed), beside).items():
            self.join.counts.shed[alias] = len(positions)
            self.survival.ledgers[alias].shed(positions)

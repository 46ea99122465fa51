"""Row positions in a stream, for ROWS windows.

A position is known only when nothing earlier can still come, so tuples wait here until the watermark is past
them, are put in order (event time, then values column by column, NULL first, nested ones aside) and numbered
from 0. One numberer sees a whole stream; the tuples it releases can then be spread over buckets, together
with the event times of their positions, from which every bucket knows which of its tuples have expired.

    held: (ts 3), (ts 1)    watermark 3    released: (ts 1, position 0), held: (ts 3)

Inputs under other windows, when they are joined with a ROWS input, wait in the same way (`numbers=False`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from watersmeet.kernel.columns.hash_index import Longs
from watersmeet.kernel.columns.row_order import order_by_values
from watersmeet.kernel.layout import POSITION, TS
from watersmeet.kernel.state.chunks import HoldBuffer
from watersmeet.query import BEGINNING


@dataclass(frozen=True)
class RowPositions:
    """The event times of consecutive rows of a stream, the first of them numbered `first`."""

    first: int
    ts: Longs


NO_POSITIONS = RowPositions(0, np.empty(0, np.int64))


class RowNumberer:
    """Holds the tuples of one input until the watermark is past them, and numbers them if asked to."""

    def __init__(self, section: str, order_by: Sequence[str] = (), *, numbers: bool = True) -> None:
        self.buffer = HoldBuffer(section, TS)
        self.next_position = 0
        self.watermark = BEGINNING
        self._numbers = numbers
        self._order_by = tuple(order_by)

    def push(self, batch: pa.RecordBatch) -> int:
        """Takes new tuples; returns how many were late and dropped."""
        accepted = np.asarray(batch.column(TS)) >= self.watermark
        late = int(batch.num_rows - np.count_nonzero(accepted))
        self.buffer.add(batch.filter(pa.array(accepted)) if late else batch)
        return late

    def release(self, watermark: int) -> tuple[pa.RecordBatch | None, RowPositions]:
        """The tuples the watermark has just passed, with their positions; and the event times of these."""
        since, self.watermark = self.watermark, max(self.watermark, watermark)
        due = [part for batch in self.buffer.batches() if (part := _between(batch, since, self.watermark))]
        self.buffer.close_before(self.watermark)
        if not due:
            return None, RowPositions(self.next_position, NO_POSITIONS.ts)
        released = pa.concat_batches(due)
        if not self._numbers:
            return released, NO_POSITIONS
        released = released.take(self._order(released))
        known = RowPositions(self.next_position, np.array(released.column(TS), np.int64))
        self.next_position += len(known.ts)
        positions = np.arange(known.first, self.next_position, dtype=np.int64)
        return released.append_column(POSITION, pa.array(positions)), known

    def _order(self, batch: pa.RecordBatch) -> pa.Array:
        return order_by_values([batch.column(TS), *(batch.column(name) for name in self._order_by)])


def _between(batch: pa.RecordBatch, since: int, until: int) -> pa.RecordBatch | None:
    """The rows with since <= ts < until, or None."""
    ts = np.asarray(batch.column(TS))
    due = (ts >= since) & (ts < until)
    if not due.any():
        return None
    return batch if due.all() else batch.filter(pa.array(due))

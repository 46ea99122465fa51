"""Places in a stream, for ROWS windows.

A place is known only when nothing earlier can still arrive, so tuples wait here until the watermark is past
them, are put in order (event time, then values column by column, NULL first, nested ones aside) and numbered from 0. One ranker
sees a whole stream; what it releases can then be spread over buckets, together with the event times of the
places just released, from which every bucket can tell which of its tuples have left their window.

    waiting: (ts 3), (ts 1)    watermark 3    released: (ts 1, place 0), waiting: (ts 3)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.kernel.layout import PLACE, TS
from watersmeet.kernel.slice import Longs
from watersmeet.query import BEGINNING


@dataclass(frozen=True)
class Places:
    """The event times of consecutive places of a stream, the first of them numbered `first`."""

    first: int
    ts: Longs


NO_PLACES = Places(0, np.empty(0, np.int64))


class Ranker:
    """Numbers the tuples of one stream once the watermark is past them."""

    def __init__(self, order_by: Sequence[str], next_place: int = 0, watermark: int = BEGINNING) -> None:
        self.next_place = next_place
        self.watermark = watermark
        self._order_by = tuple(order_by)
        self._waiting: list[pa.RecordBatch] = []

    @property
    def waiting(self) -> tuple[pa.RecordBatch, ...]:
        """What to persist: the tuples that have no place yet."""
        return tuple(self._waiting)

    @property
    def waiting_rows(self) -> int:
        return sum(int(batch.num_rows) for batch in self._waiting)

    def push(self, batch: pa.RecordBatch) -> int:
        """Takes new tuples; returns how many were late and dropped."""
        accepted = np.asarray(batch.column(TS)) >= self.watermark
        late = int(batch.num_rows - np.count_nonzero(accepted))
        if late:
            batch = batch.filter(pa.array(accepted))
        if batch.num_rows:
            self._waiting.append(batch)
        return late

    def release(self, watermark: int) -> tuple[pa.RecordBatch | None, Places]:
        """The tuples before the watermark, in order and with their places; and those places' event times."""
        self.watermark = max(self.watermark, watermark)
        if not self._waiting:
            return None, Places(self.next_place, NO_PLACES.ts)
        everything = pa.concat_batches(self._waiting)
        ready = np.asarray(everything.column(TS)) < self.watermark
        if not ready.any():
            self._waiting = [everything]
            return None, Places(self.next_place, NO_PLACES.ts)
        self._waiting = [] if ready.all() else [everything.filter(pa.array(~ready))]
        released = everything if ready.all() else everything.filter(pa.array(ready))
        released = released.take(self._order(released))
        count = int(released.num_rows)
        places = np.arange(self.next_place, self.next_place + count, dtype=np.int64)
        known = Places(self.next_place, np.array(released.column(TS), np.int64))
        self.next_place += count
        return released.append_column(PLACE, pa.array(places)), known

    def _order(self, batch: pa.RecordBatch) -> pa.Array:
        keys = [(TS, "ascending", "at_start")]
        keys += [
            (name, "ascending", "at_start")
            for name in self._order_by
            if not pa.types.is_nested(batch.schema.field(name).type)
        ]
        return pc.sort_indices(batch, sort_keys=keys)

"""The tuples of an input under `[PARTITION BY k ROWS n]`: the last n of each value, and few others.

A tuple enters once the watermark is past it; from then on it is known what it has ended. Nothing that is
still to come can meet a tuple that has ended, so between two steps the last n of each value are all that
counts. Ended tuples stay in their chunks until they outnumber the others: then what is left is put together
as one new chunk, with row numbers from 0. So the state follows the number of values, and each tuple is
written twice or so.

Tuples that fail the local filters count as well: they are kept where more than one tuple of a value is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.kernel.columns.hash_index import Longs
from watersmeet.kernel.columns.narrow import narrowing_of
from watersmeet.kernel.layout import KEEP, POSITION, TS, InputLayout
from watersmeet.kernel.state.arrivals import Arrivals
from watersmeet.kernel.state.chunk import Chunk
from watersmeet.kernel.state.chunks import PersistedChunk
from watersmeet.kernel.state.latest_rows import LatestRows
from watersmeet.kernel.state.row_ends import RowEnds, SettledEnds
from watersmeet.kernel.state.slice import Slice
from watersmeet.kernel.state.store import TupleStore
from watersmeet.kernel.tuning import DEFAULT_TUNING, Tuning
from watersmeet.query import NEVER, Window


@dataclass(frozen=True)
class VersionExpiry:
    """Rows end when later ones of their value come."""

    row_ends: RowEnds
    tuning: Tuning
    window: Window | None = None

    def ends_of(self, batch: pa.RecordBatch, ts: Longs) -> Longs:
        return np.full(len(ts), NEVER)

    def describe_chunk(self, number: int, start: int, batch: pa.RecordBatch) -> Chunk:
        ts = np.asarray(narrowing_of(batch).column(batch, TS))
        return Chunk(number, start, batch, int(ts.min()), int(ts.max()), NEVER, NEVER)

    def slice_numbers(self, arrivals: Arrivals) -> tuple[int, Longs]:
        """Slices of few rows each for what has ended: they go at the end of the step."""
        if len(arrivals) and arrivals.ends[0] == NEVER:
            return 0, np.zeros(len(arrivals), np.int64)
        span = int(arrivals.ts.max()) - int(arrivals.ts.min())
        slices = len(arrivals) // self.tuning.min_rows_per_slice + 1
        width = span // slices + 1
        return width, arrivals.ts // width

    def slice_base(self, width: int, number: int) -> int | None:
        return None

    def slice_has_expired(self, piece: Slice, progress: int) -> bool:
        return piece.high_end <= progress

    def expired_prefix(self, chunk: Chunk, watermark: int, *, is_new: bool) -> int:
        return 0

    def spans_too_long(self, run: Sequence[Chunk]) -> bool:
        return False


class VersionStore(TupleStore):
    """The last tuples of each value of one input."""

    def __init__(self, layout: InputLayout, tuning: Tuning = DEFAULT_TUNING) -> None:
        self._ends = RowEnds()
        super().__init__(layout, tuning, VersionExpiry(self._ends, tuning), self._ends)
        size = int(getattr(layout.window, "size", 1))
        self._latest = LatestRows(size, layout.window.partition, layout.order_by)
        self._ended = 0  # rows in chunks

    def numbered(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if not self.layout.follows:
            return batch
        first, self.newest_position = self.newest_position + 1, self.newest_position + batch.num_rows
        numbers = np.arange(first, self.newest_position + 1, dtype=np.int64)
        return batch.append_column(POSITION, pa.array(numbers))

    def enter(self, arrivals: Arrivals) -> Arrivals:
        """Takes tuples that the watermark has passed; those that may be joined, with their ends."""
        if not len(arrivals):
            return arrivals
        joins = self._joins(arrivals)
        decided = self._latest.enter(arrivals.rows, arrivals.ts, self.take, joins)
        if self.layout.follows:
            ended = np.asarray(self.take([POSITION], decided.earlier)[0], np.int64)
            order = np.argsort(ended)
            self.settled = SettledEnds(ended[order], decided.earlier_ends[order]).of
        self._end(decided.earlier, decided.earlier_ends)
        self._end(arrivals.rows, decided.ends)
        # Among many tuples of one instant some leave the moment they enter: their lifetime is empty.
        return replace(arrivals, ends=decided.ends).pick(joins & (arrivals.ts < decided.ends))

    def index(self, arrivals: Arrivals) -> None:
        is_open = arrivals.ends == NEVER
        super().index(arrivals.pick(is_open))
        super().index(arrivals.pick(~is_open))

    def survivors(self) -> PersistedChunk | None:
        rows = self.live_rows
        if not rows or self._ended <= max(self.tuning.least_ended, rows - self._ended):
            return None
        parts = []
        for chunk in self.chunks:
            stays = self._ends.of(np.arange(chunk.start, chunk.stop)) == NEVER
            if stays.any():
                parts.append(chunk.batch.filter(pa.array(stays)))
        rest = pa.concat_batches(parts) if parts else self.chunks[0].batch.slice(0, 0)
        return PersistedChunk(self.layout.alias, self.next_chunk, rest)

    @property
    def index_bytes(self) -> int:
        return super().index_bytes + self._latest.nbytes + self._ends.nbytes

    @property
    def used_index_bytes(self) -> int:
        return super().used_index_bytes + self._latest.nbytes + self._ends.nbytes

    def _end(self, rows: Longs, ends: Longs) -> None:
        self._ends.put(rows, ends)
        self._ended += int(np.count_nonzero(ends != NEVER))

    def _joins(self, arrivals: Arrivals) -> npt.NDArray[np.bool_]:
        """Which tuples meet the local filters and have all keys."""
        names = [*([KEEP] if self.layout.keeps else []), *(name for _, name in self.layout.keys)]
        joins = np.ones(len(arrivals), np.bool_)
        for name, column in zip(names, self.take(names, arrivals.rows), strict=True):
            joins &= np.asarray(column.fill_null(False) if name == KEEP else column.is_valid())
        return joins


def store_of(layout: InputLayout, tuning: Tuning) -> TupleStore:
    """The store that an input's window asks for; empty."""
    return VersionStore(layout, tuning) if layout.window.partition else TupleStore(layout, tuning)

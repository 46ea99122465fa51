"""How the rows of a store end: into which slice they go, and when slices and chunks may be forgotten.

`WindowExpiry` serves tuples under a window, whose ends follow from their event times or row positions. Rows
that bring their own ends have a strategy of their own (`state.result_expiry`). *Progress* is what the
window counts by: the watermark, or the newest row position that is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from watersmeet.kernel.columns.hash_index import Longs
from watersmeet.kernel.columns.narrow import narrowing_of
from watersmeet.kernel.layout import POSITION, TS
from watersmeet.kernel.state.arrivals import Arrivals
from watersmeet.kernel.state.chunk import Chunk
from watersmeet.kernel.state.slice import SHORT_SPAN, Slice
from watersmeet.kernel.tuning import Tuning
from watersmeet.query import BEGINNING, NEVER, Window


class Expiry(Protocol):
    """When the rows of one store expire."""

    @property
    def window(self) -> Window | None:
        """The window from which ends follow; None where rows bring their ends."""
        ...

    def ends_of(self, batch: pa.RecordBatch, ts: Longs) -> Longs:
        """The ends of new rows, as far as they are known."""
        ...

    def describe_chunk(self, number: int, start: int, batch: pa.RecordBatch) -> Chunk:
        """A batch, narrowed or not, as a chunk that knows when it expires."""
        ...

    def slice_numbers(self, arrivals: Arrivals) -> tuple[int, Longs]:
        """Which slice each tuple belongs to, as (width of the slices, their numbers)."""
        ...

    def slice_base(self, width: int, number: int) -> int | None:
        """The time that all event times of a slice follow within `SHORT_SPAN`, if there is one."""
        ...

    def slice_has_expired(self, piece: Slice, progress: int) -> bool:
        """Whether all rows of a slice have."""
        ...

    def expired_prefix(self, chunk: Chunk, watermark: int, *, is_new: bool) -> int:
        """How many rows to cut off the front of a chunk that is live in part; 0 if it is not worth it."""
        ...

    def spans_too_long(self, run: Sequence[Chunk]) -> bool:
        """Whether merging chunks would keep rows much longer than needed."""
        ...


@dataclass(frozen=True)
class WindowExpiry:
    """Tuples expire as their window says."""

    window: Window
    tuning: Tuning

    def ends_of(self, batch: pa.RecordBatch, ts: Longs) -> Longs:
        return self.window.known_end_us(ts)

    def describe_chunk(self, number: int, start: int, batch: pa.RecordBatch) -> Chunk:
        narrowing = narrowing_of(batch)
        ts = np.asarray(narrowing.column(batch, TS))
        low, high = int(ts.min()), int(ts.max())
        if self.window.numbers_rows:
            last = int(np.asarray(narrowing.column(batch, POSITION)).max())
            return Chunk(number, start, batch, low, high, self.window.expires_at(last), NEVER)
        half = int(ts[: max(1, len(ts) // 2)].max())
        expiry = self.window.expires_at(high), self.window.expires_at(half)
        return Chunk(number, start, batch, low, high, *expiry)

    def slice_numbers(self, arrivals: Arrivals) -> tuple[int, Longs]:
        if self.window.row_count is not None and arrivals.positions is not None:
            width = max(self.window.row_count, self.tuning.min_rows_per_slice)
            return width, arrivals.positions // width
        if self.window.duration_us is None:
            return 0, np.zeros(len(arrivals), np.int64)
        width = self.window.duration_us  # less: tighter expiry, but each probe looks into more slices
        span = int(arrivals.ts.max()) - int(arrivals.ts.min())
        while span // width > self.tuning.max_slices_per_append:
            width *= 2
        return width, arrivals.ts // width

    def slice_base(self, width: int, number: int) -> int | None:
        is_of_time = not self.window.numbers_rows and 0 < width <= SHORT_SPAN
        return max(BEGINNING, width * number) if is_of_time else None

    def slice_has_expired(self, piece: Slice, progress: int) -> bool:
        if self.window.numbers_rows:
            return self.window.expires_at(piece.last_position) <= progress
        return piece.high_end <= progress

    def expired_prefix(self, chunk: Chunk, watermark: int, *, is_new: bool) -> int:
        """A chunk of a large batch may span many windows: it is cut once half of it has expired.

        So each row is copied, and persisted anew, once or twice. One that is new is persisted in any case, so
        it is cut for less.
        """
        if self.window.duration_us is None:
            return 0
        if (self.window.expires_at(chunk.min_ts) if is_new else chunk.half_expires_at) > watermark:
            return 0
        expired = int(np.argmax(self.window.expires_at(np.asarray(chunk.column(TS))) > watermark))
        return 0 if expired < self.tuning.cut_share * chunk.rows else expired

    def spans_too_long(self, run: Sequence[Chunk]) -> bool:
        duration, row_count = self.window.duration_us, self.window.row_count
        if duration is None:
            return row_count is not None and sum(chunk.rows for chunk in run) > row_count
        span = max(chunk.max_ts for chunk in run) - min(chunk.min_ts for chunk in run)
        return span > max(duration // 2, *(chunk.max_ts - chunk.min_ts for chunk in run))

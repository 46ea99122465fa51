"""Expiry of results, which bring their own ends.

A result ends when the first of its tuples does, so ends follow no rule: slices hold them, cut by the time of
the end, and a chunk stays until its last end.

    results [2, 9), [4, 9), [5, 30)    ends 7 at most after the last event time: slices of width 8 from 8, 24
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from watersmeet.kernel.columns.hash_index import Longs
from watersmeet.kernel.columns.narrow import narrowing_of
from watersmeet.kernel.layout import TS
from watersmeet.kernel.state.arrivals import Arrivals
from watersmeet.kernel.state.chunk import Chunk
from watersmeet.kernel.state.slice import Slice
from watersmeet.kernel.tuning import Tuning
from watersmeet.query import NEVER
from watersmeet.query.shared_dataflow import END


@dataclass(frozen=True)
class ResultExpiry:
    """Rows expire at the end that they bring."""

    tuning: Tuning
    window: None = None

    def ends_of(self, batch: pa.RecordBatch, ts: Longs) -> Longs:
        return np.array(batch.column(END))

    def describe_chunk(self, number: int, start: int, batch: pa.RecordBatch) -> Chunk:
        narrowing = narrowing_of(batch)
        ts, ends = (np.asarray(narrowing.column(batch, name)) for name in (TS, END))
        last = int(ends.max())
        is_cut = len(ends) >= self.tuning.cut_result_rows  # a chunk of few rows goes as a whole
        half = int(ends[: max(1, len(ends) // 2)].max()) if is_cut else last
        return Chunk(number, start, batch, int(ts.min()), int(ts.max()), last, half)

    def slice_numbers(self, arrivals: Arrivals) -> tuple[int, Longs]:
        is_bounded = arrivals.ends < NEVER
        if not is_bounded.any():
            return 0, np.zeros(len(arrivals), np.int64)
        ends = arrivals.ends[is_bounded]
        longest = int((ends - arrivals.ts[is_bounded]).max())
        width = 1 << max(0, longest - 1).bit_length()
        while (int(ends.max()) - int(ends.min())) // width > self.tuning.max_slices_per_append:
            width *= 2
        return width, np.where(is_bounded, arrivals.ends // width, NEVER)

    def slice_base(self, width: int, number: int) -> None:
        return None

    def slice_has_expired(self, piece: Slice, progress: int) -> bool:
        return piece.high_end <= progress

    def expired_prefix(self, chunk: Chunk, watermark: int, *, is_new: bool) -> int:
        """Rows are in the order of their ends (`order_by_end`)."""
        if chunk.half_expires_at > watermark:
            return 0
        return int(np.argmax(np.asarray(chunk.column(END)) > watermark))

    def spans_too_long(self, run: Sequence[Chunk]) -> bool:
        last, first = max(chunk.expires_at for chunk in run), min(chunk.expires_at for chunk in run)
        return last - first > max(chunk.expires_at - chunk.min_ts for chunk in run) // 2


def order_by_end(batch: pa.RecordBatch, tuning: Tuning) -> pa.RecordBatch:
    """A chunk of results in the order in which they expire, so that its front can be cut off."""
    ends = np.asarray(batch.column(END))
    if len(ends) < tuning.cut_result_rows or bool((ends[1:] >= ends[:-1]).all()):
        return batch
    return batch.take(pa.array(np.argsort(ends, kind="stable")))

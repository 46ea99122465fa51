"""The live rows of one relation of a ring: tuples under a window, or results that bring their own ends.

Results end when the first of their tuples does, so their ends follow no rule: slices hold them, cut by the
time of the end, and a chunk stays until its last end. The set of queries may change under a store, and with
it the columns: rows that came before a column was asked for read NULL there.

    results [2, 9), [4, 9), [5, 30)    ends 7 at most after the last event time: slices of width 8 from 8, 24
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from watersmeet.kernel.columns.hash_index import Longs
from watersmeet.kernel.columns.hashing import Hashes, hash_column
from watersmeet.kernel.columns.narrow import narrowing_of
from watersmeet.kernel.layout import TS, InputLayout
from watersmeet.kernel.state.chunk import Chunk
from watersmeet.kernel.state.slice import Slice
from watersmeet.kernel.state.store import MAX_SLICES_PER_APPEND, Arrivals, TupleStore
from watersmeet.query import NEVER, UNBOUNDED
from watersmeet.query.shared_dataflow import END, Relation

MIN_TRIMMED_ROWS = 64  # a smaller chunk of results is not worth cutting


class RelationStore(TupleStore):
    """The live rows of one relation; its keys are classes 0, 1, ... in order."""

    def __init__(self, relation: Relation) -> None:
        keys = tuple(enumerate(relation.keys))
        super().__init__(InputLayout(relation.name, relation.window or UNBOUNDED, keys, ()))
        self.keys = relation.keys
        self.brings_ends = relation.window is None
        self.columns: set[str] = set()  # that some row may have
        self._quiet_until = NEVER  # nothing to forget before

    @property
    def is_empty(self) -> bool:
        """Whether a probe can find nothing."""
        return not self._slices

    def keep(
        self, batch: pa.RecordBatch, number: int | None = None, hashes: Mapping[str, Hashes] | None = None
    ) -> Arrivals:
        """Keeps rows as a chunk; they are visible to probes once they are indexed.

        `number` is given when a chunk is read back, `hashes` of key columns where they are known.
        """
        ts: Longs = np.array(batch.column(TS), np.int64)
        ends = np.array(batch.column(END)) if self.brings_ends else self.layout.window.end_us(ts)
        chunk = self.add_chunk(batch, ts, -1, number)
        self.columns.update(batch.schema.names)
        self._quiet_until = min(self._quiet_until, self._half_end(chunk))
        known = hashes or {}
        by_class = {
            cls: known[name] if name in known else hash_column(chunk.column(name))
            for cls, name in enumerate(self.keys)
        }
        return Arrivals(ts, ends, np.arange(chunk.start, chunk.stop, dtype=np.int64), by_class)

    def forget(self) -> None:
        """Forgets all rows."""
        self.chunks, self._quiet_until = [], NEVER
        self._slices.clear()

    def expire(self, watermark: int, pending_from: int = NEVER) -> None:
        if watermark < self._quiet_until:
            return
        super().expire(watermark, pending_from)
        ends = [piece.high_end for piece in self._slices.values()]
        self._quiet_until = min([*ends, *(self._half_end(chunk) for chunk in self.chunks)], default=NEVER)

    def _half_end(self, chunk: Chunk) -> int:
        """When half of a chunk is over; one of few rows goes as a whole."""
        if not self.brings_ends:
            return self.layout.window.end_us(chunk.half_ts)
        return chunk.half_end if chunk.rows >= MIN_TRIMMED_ROWS else chunk.max_end

    def _new_slice(self, capacity: int, first_row: int, width: int, number: int) -> Slice:
        if not self.brings_ends:
            return super()._new_slice(capacity, first_row, width, number)
        return Slice(None, self._probed_by, capacity, first_row)

    def _slice_numbers(self, arrivals: Arrivals) -> tuple[int, Longs]:
        if not self.brings_ends:
            return super()._slice_numbers(arrivals)
        is_bounded = arrivals.ends < NEVER
        if not is_bounded.any():
            return 0, np.zeros(len(arrivals), np.int64)
        ends = arrivals.ends[is_bounded]
        longest = int((ends - arrivals.ts[is_bounded]).max())
        width = 1 << max(0, longest - 1).bit_length()
        while (int(ends.max()) - int(ends.min())) // width > MAX_SLICES_PER_APPEND:
            width *= 2
        return width, np.where(is_bounded, arrivals.ends // width, NEVER)

    def _chunk_is_over(self, chunk: Chunk, watermark: int, pending_from: int) -> bool:
        if not self.brings_ends:
            return super()._chunk_is_over(chunk, watermark, pending_from)
        return chunk.max_end <= watermark

    def _trimmed(self, chunk: Chunk, watermark: int) -> Chunk:
        if not self.brings_ends:
            return super()._trimmed(chunk, watermark)
        if self._half_end(chunk) > watermark:
            return chunk
        return self._without_first(chunk, int(np.argmax(np.asarray(chunk.column(END)) > watermark)))

    def _spans_too_long(self, run: list[Chunk]) -> bool:
        if not self.brings_ends:
            return super()._spans_too_long(run)
        last, first = max(chunk.max_end for chunk in run), min(chunk.max_end for chunk in run)
        longest = max(chunk.max_end - chunk.min_ts for chunk in run)
        return last - first > longest // 2

    def _chunk(self, number: int, start: int, batch: pa.RecordBatch, ts: Longs, last_place: int) -> Chunk:
        if not self.brings_ends:
            return super()._chunk(number, start, batch, ts, last_place)
        ends = np.asarray(narrowing_of(batch).column(batch, END))
        half = int(ends[: max(1, len(ends) // 2)].max())
        low, high = int(ts.min()), int(ts.max())
        return Chunk(number, start, batch, low, high, high, max_end=int(ends.max()), half_end=half)

    def _joined(self, batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
        return concat_unlike(batches)


def concat_unlike(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Batches end to end, NULL where one lacks a column that another has."""
    if len(batches) == 1:
        return batches[0]
    if all(batch.schema.equals(batches[0].schema) for batch in batches[1:]):
        return pa.concat_batches(list(batches))
    tables = [pa.Table.from_batches([batch]) for batch in batches]
    return pa.concat_tables(tables, promote_options="default").combine_chunks().to_batches()[0]


def ends_in_order(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Ordered by end, so that what is over can be cut off its front."""
    ends = np.asarray(batch.column(END))
    if len(ends) < MIN_TRIMMED_ROWS or bool((ends[1:] >= ends[:-1]).all()):
        return batch
    return batch.take(pa.array(np.argsort(ends, kind="stable")))

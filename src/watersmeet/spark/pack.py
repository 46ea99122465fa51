"""The map side: the rows of an input become chunks, one per bucket, all vectorised.

Tuples that fail the local filters or lack a key go no further, but the event times of all of them count for
the stream's progress, which every bucket is told: so every bucket wakes in every batch and all of them reach
the same watermark.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.kernel import KEEP, NO_HOT_VALUES, TS, Grid, HotTable, InputLayout, hash_keys, route_hot
from watersmeet.spark.hot_keys import HotKeys, encode_summaries
from watersmeet.spark.wire import END_OF_INPUT, UNKNOWN, WireRow, encode, to_arrow

NOW = "__now"  # the batch's own time, where some stream is declared with idle_after
CHUNK_ROWS = 1 << 20  # a task sends what it has gathered when it reaches this many rows
CHUNK_BYTES = 64 << 20  # or this many bytes


@dataclass(frozen=True)
class Pack:
    """Packs one input; called by `mapInArrow` with the rows of one partition."""

    number: int
    layout: InputLayout
    columns: tuple[str, ...]  # what a chunk holds
    grid: Grid
    labels: tuple[int, ...]
    hot: HotKeys | None = None
    chunk_bytes: int = CHUNK_BYTES

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        gathered: list[pa.RecordBatch] = []
        rows, undated, max_ts, now_us, nbytes = 0, 0, UNKNOWN, UNKNOWN, 0
        table = self.hot.table() if self.hot else NO_HOT_VALUES
        for batch in batches:
            if not batch.num_rows:
                continue
            if NOW in batch.schema.names:
                now_us = max(now_us, int(np.asarray(batch.column(NOW)).max()))
            seen = pc.max(batch.column(TS)).as_py()
            if seen is not None:
                max_ts = max(max_ts, seen)
            gathered.append(self._usable(batch))
            rows += int(batch.num_rows)
            nbytes += int(gathered[-1].nbytes)
            undated += int(batch.column(TS).null_count)
            if rows >= CHUNK_ROWS or nbytes >= self.chunk_bytes:
                yield self._send(gathered, max_ts, now_us, undated, table)
                gathered, rows, undated, nbytes = [], 0, 0, 0
        if rows:
            yield self._send(gathered, max_ts, now_us, undated, table)

    def _usable(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The tuples that may join; under a ROWS window every dated tuple counts."""
        needed = [TS] if self.layout.window.counts_rows else [TS, *(name for _, name in self.layout.keys)]
        usable = np.ones(batch.num_rows, np.bool_)
        for name in needed:
            if batch.column(name).null_count:
                usable &= np.asarray(batch.column(name).is_valid())
        if KEEP in batch.schema.names and not self.layout.window.counts_rows:
            usable &= np.asarray(pc.fill_null(batch.column(KEEP), False))
        batch = batch.select(list(self.columns))
        return batch if usable.all() else batch.filter(pa.array(usable))

    def _send(
        self, gathered: list[pa.RecordBatch], max_ts: int, now_us: int, undated: int, table: HotTable
    ) -> pa.RecordBatch:
        """A row for every bucket: its tuples, if any, and the stream's progress."""
        chunks: dict[int, tuple[int, bytes, int]] = {}
        summary, whole = b"", pa.concat_batches(gathered)
        if whole.num_rows:
            hashes = hash_keys(self.grid, self.layout, whole)
            for part in route_hot(self.grid, self.layout, whole, table, hashes):
                blob = encode(part.tuples)
                chunks |= dict.fromkeys(part.buckets, (int(part.tuples.num_rows), blob, part.copies))
            if self.hot is not None and self.hot.is_on:
                min_ts = int(np.asarray(whole.column(TS)).min())
                summary = encode_summaries(self.hot, self.grid, hashes, min_ts)
        digest, sent = table.digest, []
        for bucket, label in enumerate(self.labels):
            count, blob, copies = chunks.get(bucket, (0, b"", 0))
            row = WireRow(label, self.number, count, max_ts, now_us, chunk=blob, copies=copies, table=digest)
            sent.append(row if bucket else replace(row, undated=undated, summary=summary))
        return to_arrow(sent)


@dataclass(frozen=True)
class PackEnd:
    """Packs the control stream: any row of it is the end of all input."""

    labels: tuple[int, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if any(batch.num_rows for batch in batches):
            yield to_arrow([WireRow(label, END_OF_INPUT) for label in self.labels])

"""The map side: the rows of an input become chunks, one per bucket, all vectorised.

Tuples that fail the local filters or lack a key go no further, but the event times of all of them count for
the stream's progress, which every bucket is told: so every bucket wakes in every batch and all of them reach
the same watermark.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.kernel import KEEP, NO_HOT_VALUES, TS, Grid, HotTable, InputLayout, hash_keys, route_hot
from watersmeet.kernel.columns.hashing import Hashes
from watersmeet.spark.exchange.gather import CHUNK_BYTES, Gathered, gather
from watersmeet.spark.exchange.hot_keys import HotKeys, encode_summaries
from watersmeet.spark.exchange.wire import WireRow, encode, to_arrow


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
        """A row for every bucket: its tuples, if any, and the stream's progress."""
        table = self._table()
        for gathered in gather(batches, self._usable, self.chunk_bytes):
            hashes = hash_keys(self.grid, self.layout, gathered.tuples)
            chunks: dict[int, tuple[int, bytes, int]] = {}
            for part in route_hot(self.grid, self.layout, gathered.tuples, table, hashes):
                blob = encode(part.tuples)
                chunks |= dict.fromkeys(part.buckets, (int(part.tuples.num_rows), blob, part.copies))
            sent = [self._row(bucket, gathered, table, hashes) for bucket in range(len(self.labels))]
            for bucket, (rows, chunk, copies) in chunks.items():
                sent[bucket] = replace(sent[bucket], rows=rows, chunk=chunk, copies=copies)
            yield to_arrow(sent)

    def rows_of(self, bucket: int, batches: Iterator[pa.RecordBatch]) -> Iterator[WireRow]:
        """The rows of one bucket alone, for a stage that reads its tuples itself."""
        table = self._table()
        for gathered in gather(batches, self._usable, self.chunk_bytes):
            hashes = hash_keys(self.grid, self.layout, gathered.tuples)
            row = self._row(bucket, gathered, table, hashes)
            for part in route_hot(self.grid, self.layout, gathered.tuples, table, hashes, bucket):
                row = replace(row, rows=int(part.tuples.num_rows), read=part.tuples, copies=part.copies)
            yield row

    def _table(self) -> HotTable:
        return self.hot.table() if self.hot else NO_HOT_VALUES

    def _row(self, bucket: int, gathered: Gathered, table: HotTable, hashes: Mapping[int, Hashes]) -> WireRow:
        """What a bucket is told beside its tuples; the first also hears of frequent values."""
        label = self.labels[bucket]
        row = WireRow(label, self.number, 0, gathered.max_ts, gathered.now_us, table=table.digest)
        if bucket:
            return row
        summary = b""
        if gathered.tuples.num_rows and self.hot is not None and self.hot.is_on:
            min_ts = int(np.asarray(gathered.tuples.column(TS)).min())
            summary = encode_summaries(self.hot, self.grid, hashes, min_ts)
        return replace(row, null_times=gathered.null_times, summary=summary)

    def of_columns(self, names: tuple[str, ...]) -> Self:
        """The same for chunks of other columns."""
        return replace(self, columns=names)

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

"""The map side: the rows of an input become chunks, one per bucket, all vectorised.

Tuples that fail the local filters or lack a key go no further, but the event times of all of them count for
the stream's progress, which is reported to every bucket: so every bucket wakes in every batch and all of them
reach the same watermark.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.kernel import (
    IN_VIEW,
    KEEP,
    NO_HOT_VALUES,
    REF,
    TS,
    Grid,
    HotTable,
    InputLayout,
    hash_keys,
    route_hot,
)
from watersmeet.kernel.columns import Hashes
from watersmeet.spark.exchange.collect import Collected, Keyless, collect
from watersmeet.spark.exchange.hot_keys import HotKeys, encode_summaries
from watersmeet.spark.exchange.messages import MESSAGES, Dropped, Message, Progress, ReadRows, Tuples
from watersmeet.spark.exchange.packed_chunk import PackedChunk
from watersmeet.spark.tuning import DEFAULT, Tuning


@dataclass(frozen=True, kw_only=True)
class Pack:
    """Packs one input; called by `mapInArrow` with the rows of one partition."""

    number: int
    reading: int  # what the progress is that of: the number of the input, or of a further branch of a view
    layout: InputLayout
    columns: tuple[str, ...]  # what a chunk holds, as far as it does not come after the join
    grid: Grid
    labels: tuple[int, ...]
    hot: HotKeys | None = None
    max_ahead_us: int | None = None
    tuning: Tuning = DEFAULT

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The messages for all buckets, as rows of the shuffle."""
        return (MESSAGES.to_arrow(sent) for sent in self.messages(batches))

    def messages(self, batches: Iterator[pa.RecordBatch], only: int | None = None) -> Iterator[list[Message]]:
        """Each bucket's tuples, if any, and the stream's progress; with `only`, those of one bucket."""
        table = self.hot.table() if self.hot else NO_HOT_VALUES
        buckets = range(len(self.labels)) if only is None else [only]
        for collected in self._collected(batches):
            hashes = hash_keys(self.grid, self.layout, collected.tuples)
            sent: list[Message] = [self._progress(bucket, collected, table, hashes) for bucket in buckets]
            if 0 in buckets:
                sent.append(self._dropped(collected))
            for part in route_hot(self.grid, self.layout, collected.tuples, table, hashes, only):
                chunk = PackedChunk(part.tuples)
                targets = part.buckets if only is None else buckets
                sent += [Tuples(self.labels[target], self.number, chunk, part.copies) for target in targets]
                del part, chunk
            del collected
            yield sent
            del sent  # not beside the next ones

    def _collected(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Collected]:
        keys = [name for _, name in self.layout.keys]
        return collect(batches, self.usable, self.tuning, self.max_ahead_us, keys)

    def _progress(
        self, bucket: int, collected: Collected, table: HotTable, hashes: Mapping[int, Hashes]
    ) -> Progress:
        """What is reported to a bucket; to the first also the frequent values."""
        summary = b""
        if bucket == 0 and collected.tuples.num_rows and self.hot is not None and self.hot.is_on:
            min_ts = int(np.asarray(collected.tuples.column(TS)).min())
            summary = encode_summaries(self.hot, self.grid, hashes, min_ts)
        return Progress(
            bucket=self.labels[bucket],
            input=self.reading,
            max_ts=collected.max_ts,
            now_us=collected.now_us,
            table=table.digest,
            summary=summary,
            mark=collected.mark,
        )

    def _dropped(self, collected: Collected) -> Dropped:
        return Dropped(
            bucket=self.labels[0],
            input=self.number,
            null_times=collected.null_times,
            ahead=collected.ahead,
            read=self._read(collected.keyless),
        )

    def _read(self, keyless: Keyless) -> bytes:
        by_class = {cls: keyless.by_key[name] for cls, name in self.layout.keys if name in keyless.by_key}
        return ReadRows(keyless.read, keyless.kept, keyless.lacking, by_class).to_bytes()

    def usable(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The tuples that may join; under a ROWS window every tuple with an event time counts."""
        usable = np.ones(batch.num_rows, np.bool_)
        for name in self.layout.needed:
            if batch.column(name).null_count:
                usable &= np.asarray(batch.column(name).is_valid())
        if IN_VIEW in batch.schema.names:
            usable &= np.asarray(pc.fill_null(batch.column(IN_VIEW), False))
        if KEEP in batch.schema.names and not self.layout.window.counts_rows:
            usable &= np.asarray(pc.fill_null(batch.column(KEEP), False))
        batch = batch.select(self._held(batch.schema.names))
        return batch if usable.all() else batch.filter(pa.array(usable))

    def _held(self, names: list[str]) -> list[str]:
        """What a chunk of these rows holds; some columns may be left to a reference."""
        if REF not in names:
            return list(self.columns)
        return [*(name for name in self.columns if name in names), REF]

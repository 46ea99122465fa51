"""SELECT DISTINCT as a stage of its own: values meet by hash, and are let out when they appear.

The join before it lets answers out in watermark order, so every batch here is later than all before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pandas as pd
import pyarrow as pa
from pyspark.sql.types import BinaryType, LongType, StructField, StructType

from watersmeet.kernel import ANSWER_TS, DistinctValues, Grid, OpenValues, PersistedChunk, Shed
from watersmeet.kernel.columns import combine_hashes, hash_column
from watersmeet.kernel.routing import first_buckets, split
from watersmeet.spark.exchange.messages import MESSAGES, Message, Tuples
from watersmeet.spark.exchange.packed_chunk import PackedChunk, encode
from watersmeet.spark.exchange.unpack import CHUNK
from watersmeet.spark.stages.bucket_stage import BucketStage
from watersmeet.spark.stages.stage_plan import StagePlan
from watersmeet.spark.worker.bucket_state import Snapshot

LEFT_OUT = "left_out"
VALUES_SCHEMA = StructType([StructField(CHUNK, BinaryType()), StructField(LEFT_OUT, LongType())])


@dataclass(frozen=True)
class PackValues:
    """Packs the rows of a SELECT list by the hash of all their values."""

    columns: tuple[str, ...]
    labels: tuple[int, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if batch.num_rows:
                parts = split_values(batch, self.columns, self.labels)
                sent: list[Message] = [Tuples(label, 0, PackedChunk(part)) for label, part in parts]
                yield MESSAGES.to_arrow(sent)


def split_values(
    rows: pa.RecordBatch, columns: Sequence[str], labels: Sequence[int]
) -> list[tuple[int, pa.RecordBatch]]:
    """Rows of a SELECT list by the bucket of their values, t in microseconds; empty parts are left out."""
    column = rows.schema.names.index(ANSWER_TS)
    rows = rows.set_column(column, ANSWER_TS, rows.column(ANSWER_TS).view(pa.int64()))
    hashes = combine_hashes([hash_column(rows.column(name)) for name in columns])
    count = len(labels)
    parts = split(rows, first_buckets(Grid((count,)), {0: hashes}, rows.num_rows), count)
    return [(label, part) for label, part in zip(labels, parts, strict=True) if part.num_rows]


class DistinctStage(BucketStage[DistinctValues, Message, pa.RecordBatch, pa.RecordBatch]):
    """Keeps the values that are present; yields those that appear as blobs of rows, counts those left out."""

    codec = MESSAGES
    bucket_type = DistinctValues

    def __init__(self, plan: StagePlan, columns: tuple[str, ...], released: tuple[str, ...]) -> None:
        self.plan: StagePlan = plan
        self._columns = columns
        self._released = released  # the columns, and t if it is wanted

    def begin(self, bucket: DistinctValues, number: int, started: float) -> DistinctWork:
        return DistinctWork(bucket, self._released)

    def fresh(self) -> DistinctValues:
        layout = self.plan.bucket.layout
        kind = OpenValues if any(item.follows for item in layout.inputs) else DistinctValues
        return kind(self._columns, self._limit_bytes)

    def restore(self, snapshot: Snapshot, chunks: Iterable[PersistedChunk]) -> DistinctValues:
        return self.fresh().restored(snapshot, chunks)

    @property
    def _limit_bytes(self) -> int | None:
        limit = self.plan.bucket.limit
        return limit.nbytes if limit is not None and limit.shed is not Shed.NONE else None


class DistinctWork:
    """One micro-batch of the values of one bucket."""

    def __init__(self, bucket: DistinctValues, columns: tuple[str, ...]) -> None:
        self.bucket = bucket
        self._columns = columns

    def read(self, messages: Iterator[Message]) -> Iterator[pa.RecordBatch]:
        arrived = [message.chunk.batch for message in messages if isinstance(message, Tuples)]
        if arrived:
            yield pa.concat_batches(arrived)

    def answer(self, found: pa.RecordBatch) -> Iterator[pd.DataFrame]:
        if found.num_rows or self.bucket.left_out:
            blob = encode(_released(found, self._columns)) if found.num_rows else None
            yield pd.DataFrame({CHUNK: [blob], LEFT_OUT: [self.bucket.left_out]})

    def finish(self) -> Iterator[pd.DataFrame]:
        """All has been sent."""
        return iter(())


def _released(found: pa.RecordBatch, columns: Sequence[str]) -> pa.RecordBatch:
    """These columns of values that appear; t is an instant again, if it is one of them."""
    rows = found.select(list(columns))
    if ANSWER_TS not in columns:
        return rows
    place = rows.schema.names.index(ANSWER_TS)
    return rows.set_column(place, ANSWER_TS, rows.column(ANSWER_TS).view(pa.timestamp("us", "UTC")))

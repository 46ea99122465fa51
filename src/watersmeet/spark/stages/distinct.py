"""SELECT DISTINCT as a stage of its own: values meet by hash, and are let out when they appear.

The join before it lets answers out in watermark order, so every batch here is later than all before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.sql.types import BinaryType, LongType, StructField, StructType

from watersmeet.kernel import ANSWER_TS, DistinctValues, Grid, PersistedChunk, Shed
from watersmeet.kernel.columns.hashing import combine_hashes, hash_column
from watersmeet.kernel.routing.grid import first_buckets, split
from watersmeet.spark.exchange.wire import CHUNK, WireRow, decode, encode, to_arrow
from watersmeet.spark.stages.stage import BucketStage, StagePlan

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
                place = batch.schema.names.index(ANSWER_TS)
                instants = batch.column(ANSWER_TS).view(pa.int64())
                yield self._send(batch.set_column(place, ANSWER_TS, instants))

    def _send(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        hashes = combine_hashes([hash_column(batch.column(name)) for name in self.columns])
        count = len(self.labels)
        parts = split(batch, first_buckets(Grid((count,)), {0: hashes}, batch.num_rows), count)
        sent = [
            WireRow(label, 0, int(part.num_rows), chunk=encode(part))
            for label, part in zip(self.labels, parts, strict=True)
            if part.num_rows
        ]
        return to_arrow(sent)


class DistinctStage(BucketStage):
    """Keeps the values that are present; yields those that appear as blobs of rows, counts those left out."""

    def __init__(self, plan: StagePlan, columns: tuple[str, ...]) -> None:
        self.plan: StagePlan = plan
        self._columns = columns

    def fresh(self) -> DistinctValues:
        return DistinctValues(self._columns, self._limit_bytes)

    def restore(self, snapshot: Mapping[str, Any], chunks: Iterable[PersistedChunk]) -> DistinctValues:
        return DistinctValues.restore(self._columns, snapshot, chunks, self._limit_bytes)

    @property
    def _limit_bytes(self) -> int | None:
        limit = self.plan.bucket.limit
        return limit.nbytes if limit is not None and limit.shed is not Shed.NONE else None

    def run(
        self, bucket: DistinctValues, number: int, arriving: Iterator[WireRow], started: float
    ) -> Iterator[pd.DataFrame]:
        arrived = [decode(row.chunk) for row in arriving if row.chunk]
        if arrived:
            appeared = bucket.step(pa.concat_batches(arrived)).select(list(self._columns))
            if appeared.num_rows or bucket.left_out:
                blob = encode(appeared) if appeared.num_rows else None
                yield pd.DataFrame({CHUNK: [blob], LEFT_OUT: [bucket.left_out]})

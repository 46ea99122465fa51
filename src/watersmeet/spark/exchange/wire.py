"""What travels through Spark's shuffle: chunks as Arrow IPC blobs, a few rows per batch.

A wire row carries a bucket's label, whose tuples it holds, a mark of the stream's progress, and the tuples.
Rows of one stage's output are the rows of the next stage's input, so tuples never become JVM rows between.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql.types import BinaryType, IntegerType, LongType, StructField, StructType

from watersmeet.kernel import RowPositions
from watersmeet.query import BEGINNING

WIRE_SCHEMA = StructType(
    [
        StructField("bucket", IntegerType(), False),
        StructField("input", IntegerType(), False),
        StructField("rows", LongType(), False),
        StructField("max_ts", LongType(), False),
        StructField("now_us", LongType(), False),
        StructField("late", LongType(), False),
        StructField("null_times", LongType(), False),
        StructField("chunk", BinaryType(), False),
        StructField("places", BinaryType(), False),
        StructField("copies", LongType(), False),
        StructField("table", LongType(), False),
        StructField("summary", BinaryType(), False),
    ]
)

WIRE_ARROW = pa.schema(
    [
        ("bucket", pa.int32()),
        ("input", pa.int32()),
        ("rows", pa.int64()),
        ("max_ts", pa.int64()),
        ("now_us", pa.int64()),
        ("late", pa.int64()),
        ("null_times", pa.int64()),
        ("chunk", pa.binary()),
        ("places", pa.binary()),
        ("copies", pa.int64()),
        ("table", pa.int64()),
        ("summary", pa.binary()),
    ]
)

CHUNK = "chunk"  # the column of blobs

END_OF_INPUT = -1  # an `input` of its own: no stream has more to come
WATERMARK = -2  # an `input` of its own: the watermark a rank stage has reached, and what waits there
UNKNOWN = BEGINNING  # no event time seen, no batch time known
NAMED = -1  # a number of `rows` of its own: the chunk is the name of a file, which the stage is to read

_FIELDS = [field.name for field in WIRE_ARROW]


@dataclass(frozen=True)
class WireRow:
    """One row of the shuffle."""

    bucket: int  # the bucket's label
    input: int
    rows: int = 0
    max_ts: int = UNKNOWN
    now_us: int = UNKNOWN
    late: int = 0  # tuples dropped on the way because they were late
    null_times: int = 0  # tuples dropped on the way because they had no event time
    chunk: bytes = b""
    places: bytes = b""
    copies: int = (
        0  # the last rows of the chunk, which count in another bucket; with WATERMARK bytes that wait
    )
    table: int = 0  # the digest of the routing table the tuples were sent by
    summary: bytes = b""  # what the packing task tells of frequent values, in the first bucket's row
    gone_bytes: int = 0  # of a chunk that has been joined already, and is no longer here
    read: pa.RecordBatch | None = None  # the tuples, where the stage itself has read them

    @property
    def tuples(self) -> pa.RecordBatch | None:
        return decode(self.chunk) if self.chunk else self.read

    @property
    def nbytes(self) -> int:
        """What has arrived with this row."""
        return self.gone_bytes + len(self.chunk) + (self.read.nbytes if self.read is not None else 0)

    def joined(self) -> WireRow:
        """The row without its tuples."""
        return replace(self, chunk=b"", read=None, gone_bytes=self.nbytes)


def to_arrow(rows: Sequence[WireRow]) -> pa.RecordBatch:
    """Wire rows as the output of a map stage."""
    columns = {name: [getattr(row, name) for row in rows] for name in _FIELDS}
    return pa.RecordBatch.from_pydict(columns, WIRE_ARROW)


def to_pandas(rows: Sequence[WireRow]) -> pd.DataFrame:
    """Wire rows as the output of a stateful stage."""
    return pd.DataFrame({name: [getattr(row, name) for row in rows] for name in _FIELDS})


def from_pandas(frames: Iterable[pd.DataFrame]) -> Iterator[WireRow]:
    """The wire rows that reach a stateful stage; there are few, and they come in frames of up to 64 MB."""
    for frame in frames:
        for row in frame[_FIELDS].itertuples(index=False, name=None):
            yield WireRow(*row)


def encode(batch: pa.RecordBatch) -> bytes:
    """A batch as one self-describing blob."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def decode(blob: bytes) -> pa.RecordBatch:
    """The batch of a blob; its columns share the blob's memory."""
    with pa.ipc.open_stream(blob) as reader:
        return reader.read_next_batch()


def encode_places(places: RowPositions) -> bytes:
    return np.concatenate(([places.first], places.ts)).astype(np.int64).tobytes()


def decode_places(blob: bytes) -> RowPositions:
    numbers = np.frombuffer(blob, np.int64)
    return RowPositions(int(numbers[0]), numbers[1:])

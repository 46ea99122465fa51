"""What travels through a ring: rows labelled with a bucket and the level they are for.

A level takes the rows that are for it and hands on all others as they are, so one exchange after another
carries everything: tuples on their way to a later level, results, answers, and what each level tells.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pandas as pd
import pyarrow as pa
from pyspark.sql.types import (
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from watersmeet.spark.exchange.wire import UNKNOWN

SHARED_SCHEMA = StructType(
    [
        StructField("bucket", IntegerType(), False),
        StructField("level", IntegerType(), False),
        StructField("source", StringType(), False),
        StructField("rows", LongType(), False),
        StructField("max_ts", LongType(), False),
        StructField("now_us", LongType(), False),
        StructField("null_times", LongType(), False),
        StructField("chunk", BinaryType(), False),
        StructField("metrics", StringType()),
    ]
)
SHARED_ARROW = pa.schema(
    [
        ("bucket", pa.int32()),
        ("level", pa.int32()),
        ("source", pa.string()),
        ("rows", pa.int64()),
        ("max_ts", pa.int64()),
        ("now_us", pa.int64()),
        ("null_times", pa.int64()),
        ("chunk", pa.binary()),
        ("metrics", pa.string()),
    ]
)

ANSWERS = 1000  # a level of its own: `source` is the shape they have
TOLD = 1001  # a level of its own: metrics

MARK = "#mark "  # and an input: how far it has come; `chunk` has its frequent values, where they matter
BOUNDS = "#bounds"  # `chunk` has all streams' bounds before and after the batch, and the values alive
END = "#end"  # no stream has more to come

_FIELDS = SHARED_ARROW.names


@dataclass(frozen=True)
class SharedRow:
    """One row of the shuffle."""

    bucket: int  # its label
    level: int
    source: str
    rows: int = 0
    max_ts: int = UNKNOWN
    now_us: int = UNKNOWN
    null_times: int = 0  # tuples dropped on the way because they had no event time
    chunk: bytes = b""
    metrics: str | None = None


def dataflow_arrow(rows: Sequence[SharedRow]) -> pa.RecordBatch:
    """Rows as the output of a map stage."""
    columns = {name: [getattr(row, name) for row in rows] for name in _FIELDS}
    return pa.RecordBatch.from_pydict(columns, SHARED_ARROW)


def dataflow_pandas(rows: Sequence[SharedRow]) -> pd.DataFrame:
    """Rows as the output of a level."""
    return pd.DataFrame({name: [getattr(row, name) for row in rows] for name in _FIELDS})


def from_dataflow_pandas(frames: Iterable[pd.DataFrame]) -> Iterator[SharedRow]:
    """The rows that reach a level."""
    for frame in frames:
        for row in frame[_FIELDS].itertuples(index=False, name=None):
            yield SharedRow(*row)

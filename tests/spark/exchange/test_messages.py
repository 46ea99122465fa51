"""A message comes out of the shuffle as it went in, whichever way it takes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from watersmeet.kernel import RowPositions
from watersmeet.spark.exchange.messages import (
    MESSAGES,
    UNKNOWN,
    Dropped,
    EndOfInput,
    FileName,
    Message,
    NumberedUpTo,
    Positions,
    Progress,
    Tuples,
)
from watersmeet.spark.exchange.packed_chunk import PackedChunk
from watersmeet.spark.multiquery.messages import LEVEL_MESSAGES

SENT: list[Message] = [
    Progress(bucket=7, input=1, max_ts=2**62 + 1, table=2**55 + 1, summary=b"[]", mark=2**61 + 1),
    FileName(7, 0, "file:/a b.parquet", 5),
    EndOfInput(3),
    Positions.of(3, 1, RowPositions(4, np.array([5, 5, 8]))),
    NumberedUpTo(3, UNKNOWN, 12),
    Dropped(bucket=7, input=1, late=2, null_times=3, ahead=4),
]


def test_messages_travel_as_arrow_and_as_pandas() -> None:
    assert list(MESSAGES.from_arrow(MESSAGES.to_arrow(SENT))) == SENT
    assert list(MESSAGES.from_pandas([MESSAGES.to_pandas(SENT[:2]), MESSAGES.to_pandas(SENT[2:])])) == SENT
    positions = SENT[3]
    assert isinstance(positions, Positions)
    assert positions.positions.ts.tolist() == [5, 5, 8]


def test_a_chunk_is_encoded_once_and_decoded_when_it_is_looked_at() -> None:
    batch = pa.record_batch({"k": pa.array([1, 2])})
    chunk = PackedChunk(batch)
    rows = MESSAGES.to_arrow([Tuples(1, 0, chunk), Tuples(2, 0, chunk, copies=1)])
    first, second = MESSAGES.from_arrow(rows)
    assert isinstance(first, Tuples)
    assert isinstance(second, Tuples)
    assert (first.bucket, first.copies, second.bucket, second.copies) == (1, 0, 2, 1)
    assert first.chunk.batch.equals(batch)
    assert chunk.blob is chunk.blob
    assert second.chunk.nbytes == len(chunk.blob)


@pytest.mark.parametrize(
    ("spark_schema", "arrow_schema"),
    [(each.spark_schema, each.arrow_schema) for each in (MESSAGES, LEVEL_MESSAGES)],
)
def test_spark_and_arrow_have_one_schema(spark_schema: StructType, arrow_schema: pa.Schema) -> None:
    given = [(field.name, field.type) for field in to_arrow_schema(spark_schema)]
    assert given == [(field.name, field.type) for field in arrow_schema]


def test_rows_are_narrow() -> None:
    """Every column costs time in every batch."""
    assert len(MESSAGES.arrow_schema) <= 10
    assert len(LEVEL_MESSAGES.arrow_schema) <= 10


def test_a_message_in_sql_names_all_that_has_no_default() -> None:
    with pytest.raises(TypeError, match="FileName needs a value for path"):
        MESSAGES.to_sql(FileName, bucket="1", input="0L")


def test_spark_makes_the_same_messages_without_python(spark: SparkSession) -> None:
    names = spark.createDataFrame([("file:/x'y",)], "path string")
    rows = names.selectExpr(
        *MESSAGES.to_sql(FileName, bucket="explode(array(4, 5))", input="2L", path="path")
    )
    rows = rows.unionAll(names.selectExpr(*MESSAGES.to_sql(EndOfInput, bucket="7")))
    assert [(field.name, field.dataType) for field in rows.schema] == [
        (field.name, field.dataType) for field in MESSAGES.spark_schema
    ]
    assert list(MESSAGES.from_pandas([rows.toPandas()])) == [
        FileName(4, 2, "file:/x'y"),
        FileName(5, 2, "file:/x'y"),
        EndOfInput(7),
    ]

"""Answers of every type leave the join as they came in, as rows or as blobs, with NULLs and without."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql import types as T  # noqa: N812

from watersmeet.session import Session
from watersmeet.spark.exchange.packed_chunk import decode
from watersmeet.spark.exchange.unpack import CHUNK
from watersmeet.spark.jobs.job import RunOptions
from watersmeet.spark.metrics.metrics import METRICS
from watersmeet.spark.stages.answers import AnswerBlobs, AnswerRows

UTC = dt.UTC
PLAIN: dict[str, tuple[pa.DataType, Any]] = {
    "boolean": (pa.bool_(), True),
    "tinyint": (pa.int8(), -7),
    "smallint": (pa.int16(), 30_000),
    "int": (pa.int32(), -2_000_000_000),
    "bigint": (pa.int64(), 2**53 + 1),
    "float": (pa.float32(), 1.5),
    "double": (pa.float64(), float("inf")),
    "string": (pa.string(), "ä text"),
    "binary": (pa.binary(), b"\x00\xff"),
    "date": (pa.date32(), dt.date(1815, 6, 18)),
    "timestamp": (pa.timestamp("us", "UTC"), dt.datetime(2024, 2, 29, 23, 59, 59, 123456, UTC)),
    "timestamp_ntz": (pa.timestamp("us"), dt.datetime(1969, 7, 20, 20, 17, 40)),
    "decimal(12,3)": (pa.decimal128(12, 3), Decimal("-123456789.125")),
}
NESTED: dict[str, tuple[pa.DataType, Any]] = {
    "array<int>": (pa.list_(pa.int32()), [1, None, 3]),
    "struct<x:bigint,t:timestamp>": (
        pa.struct([("x", pa.int64()), ("t", pa.timestamp("us", "UTC"))]),
        {"x": 5, "t": dt.datetime(2024, 1, 1, tzinfo=UTC)},
    ),
}


def _pipeline(folder: Path) -> Path:
    """Two streams of one row with values and one with NULLs, joined on k: plain columns, and all of them."""
    types = PLAIN | NESTED
    columns = {
        "k": pa.array([1, 2], pa.int64()),
        "ts": pa.array([dt.datetime(2024, 1, 1, tzinfo=UTC)] * 2, pa.timestamp("us", "UTC")),
    } | {f"c{n}": pa.array([value, None], type_) for n, (type_, value) in enumerate(types.values())}
    declared = ", ".join(["k bigint", "ts timestamp", *(f"c{n} {name}" for n, name in enumerate(types))])
    lines = []
    for stream in ("s", "t"):
        (folder / stream).mkdir()
        pq.write_table(pa.table(columns), folder / stream / "one.parquet")
        options = f"format = 'parquet', path = '{folder / stream}', event_time = 'ts'"
        lines.append(f"CREATE STREAM {stream} ({declared}) WITH ({options});")
    froms = "s [RANGE 1 SECOND] AS a, t [RANGE 1 SECOND] AS b"
    for sink, count in (("rows", len(PLAIN)), ("blobs", len(types))):
        selected = ", ".join(f"{alias}.c{n} AS {alias}{n}" for alias in "ab" for n in range(count))
        lines.append(f"CREATE SINK {sink} WITH (format = 'parquet', path = '{folder / sink}');")
        lines.append(
            f"INSERT INTO {sink} SELECT a.k AS k, {selected}, answer_time FROM {froms} WHERE a.k = b.k;"
        )
    file = folder / "pipeline.sql"
    file.write_text("\n".join(lines))
    return file


def test_values_of_every_type_come_out_as_they_went_in(spark: SparkSession, tmp_path: Path) -> None:
    Session(spark).run(_pipeline(tmp_path), options=RunOptions(available_now=True))
    for sink, types in (("rows", PLAIN), ("blobs", PLAIN | NESTED)):
        table = pq.read_table(tmp_path / sink).sort_by("k")
        expected = [_zoneless(value) for _, value in types.values()]
        for alias in "ab":
            found = [table.column(f"{alias}{n}").to_pylist() for n in range(len(types))]
            assert [_zoneless(values[0]) for values in found] == expected
            assert [values[1] for values in found] == [None] * len(types)
        instants = [_zoneless(instant) for instant in table.column("answer_time").to_pylist()]
        assert instants == [dt.datetime(2024, 1, 1)] * 2


def _zoneless(value: Any) -> Any:
    """A value as Spark's parquet files have it: instants in UTC, without a zone."""
    if isinstance(value, dict):
        return {name: _zoneless(part) for name, part in value.items()}
    return value.replace(tzinfo=None) if isinstance(value, dt.datetime) else value


INPUT = T.StructType().add("x", T.LongType()).add("at", T.TimestampType())
WANTED = T.StructType().add("a", INPUT).add("t", T.TimestampType())


def _answers(rows: int) -> pa.RecordBatch:
    at = pa.array(range(rows), pa.timestamp("us", "UTC"))
    return pa.RecordBatch.from_pydict({"a.x": pa.array(range(rows)), "a.at": at, "t": pa.array(range(rows))})


def test_metrics_are_the_last_row_and_hold_no_answer() -> None:
    rows = AnswerRows.of(WANTED)
    assert rows is not None
    assert [field.name for field in rows.schema] == ["c0", "c1", "c2", METRICS]
    assert rows.schema["c1"].dataType == T.LongType()
    for batches in ([], [_answers(2)], [_answers(2), _answers(3)]):
        frame = rows.frame(batches, "1,2")
        assert len(frame) == sum(batch.num_rows for batch in batches) + 1
        assert frame[METRICS].isna().tolist() == [True] * (len(frame) - 1) + [False]
        assert frame["c0"].isna().tolist() == [False] * (len(frame) - 1) + [True]
    assert rows.frame([_answers(2)])["c1"].tolist() == [0, 1]


def test_blobs_hold_a_batch_each() -> None:
    frame = AnswerBlobs().frame([_answers(2), _answers(3)], "1,2")
    assert [decode(blob).num_rows for blob in frame[CHUNK] if blob is not None] == [2, 3]
    assert frame[METRICS].tolist()[-1] == "1,2"


def test_types_that_are_not_plain_go_as_blobs() -> None:
    nested = T.StructType([T.StructField("a", T.StructType([T.StructField("x", T.ArrayType(T.LongType()))]))])
    assert AnswerRows.of(nested) is None

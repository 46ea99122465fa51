"""Files read straight into chunks hold what Spark reads in them; what it refuses is refused."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.spark.pipelines import QUERIES, arrive, random_batches, write_case
from watersmeet.errors import DataError
from watersmeet.query import Column, Connector, Stream
from watersmeet.session import Session
from watersmeet.spark.jobs.job import RunOptions
from watersmeet.spark.sources.parquet.files import file_names
from watersmeet.spark.sources.parquet.folder_columns import DIRECT
from watersmeet.spark.sources.parquet.rows import FileColumn, read_chosen, read_rows

PARTITIONS = "spark.sql.shuffle.partitions"
TIME = dt.datetime(2024, 5, 1, 12, 30, 15, 123456, tzinfo=dt.UTC)
PLAIN = QUERIES["plain"].replace(" AND a.v <= c.v", "")

# (declared type, what the file holds)
HELD = {
    "wider integers": ("bigint", pa.array([1, None, -3], pa.int32())),
    "small integers": ("smallint", pa.array([1, None, -3], pa.int16())),
    "floats as doubles": ("double", pa.array([0.5, None, float("nan")], pa.float32())),
    "text": ("string", pa.array(["a", None, "ü"])),
    "repeated text": ("string", pa.array(["a", "b", "a"]).dictionary_encode()),
    "bytes": ("binary", pa.array([b"a", None, b"\xff"])),
    "truth": ("boolean", pa.array([True, None, False])),
    "days": ("date", pa.array([dt.date(2024, 2, 29), None, dt.date(1950, 1, 1)])),
    "decimals": ("decimal(12,4)", pa.array([Decimal("1.25"), None, Decimal("-3.50")], pa.decimal128(10, 2))),
    "microseconds": ("timestamp", pa.array([TIME, None, TIME], pa.timestamp("us", tz="UTC"))),
    "milliseconds of another zone": (
        "timestamp",
        pa.array([TIME, None], pa.timestamp("ms", tz="Asia/Tokyo")),
    ),
    "times without a zone": ("timestamp_ntz", pa.array([TIME.replace(tzinfo=None)], pa.timestamp("us"))),
}


def _rows(path: Path, type_: str, name: str = "x") -> list[Any]:
    """A column as the packing task reads it."""
    parts = list(read_rows(f"file:{path}", (FileColumn("out", name, type_),), None))
    return [value for part in parts for value in part.column("out").to_pylist()]


def _as_spark(value: Any) -> Any:
    """A value as Spark's collect gives it: times without their zone, bytes as bytearray."""
    if isinstance(value, dt.datetime):
        return value.replace(tzinfo=None)
    return "nan" if isinstance(value, float) and value != value else value


@pytest.mark.parametrize("held", HELD.values(), ids=HELD.keys())
def test_values_are_those_that_spark_reads(
    held: tuple[str, pa.Array], spark: SparkSession, tmp_path: Path
) -> None:
    type_, values = held
    path = tmp_path / "one.parquet"
    pq.write_table(pa.table({"x": values}), path)
    frame = spark.read.schema(f"x {type_}").parquet(str(path))
    expected = [_as_spark(row.x) for row in frame.collect()]
    assert [_as_spark(value) for value in _rows(path, type_)] == expected
    assert len(expected) == len(values)


def test_times_as_spark_writes_them_by_default(spark: SparkSession, tmp_path: Path) -> None:
    target = tmp_path / "int96"
    spark.sql(f"SELECT TIMESTAMP'{TIME}' AS x").write.parquet(str(target))
    (path,) = target.glob("*.parquet")
    assert _rows(path, "timestamp") == [TIME]


def test_names_are_found_whatever_their_case(tmp_path: Path) -> None:
    path = tmp_path / "one.parquet"
    pq.write_table(pa.table({"Dest": [5]}), path)
    assert _rows(path, "bigint", "dest") == [5]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"x": ["text"]}, "column x is declared bigint and the file holds string"),
        ({"x": [1], "X": [2], "y": [3]}, None),
        ({"X": [1], "x ": [2], "xX": [3]}, None),
    ],
)
def test_what_does_not_fit_is_named(
    content: dict[str, list[Any]], message: str | None, tmp_path: Path
) -> None:
    path = tmp_path / "one.parquet"
    pq.write_table(pa.table(content), path)
    if message is None:
        assert _rows(path, "bigint") == [1]
    else:
        with pytest.raises(DataError, match=message):
            _rows(path, "bigint")


def test_two_columns_that_differ_by_case_are_not_guessed_between(tmp_path: Path) -> None:
    path = tmp_path / "one.parquet"
    pq.write_table(pa.table({"DEST": [1], "Dest": [2]}), path)
    with pytest.raises(DataError, match="which of them is dest"):
        _rows(path, "bigint", "dest")


def test_a_file_that_is_gone_or_broken_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"none\.parquet has disappeared since it was listed"):
        _rows(tmp_path / "none.parquet", "bigint")
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(b"not parquet at all")
    with pytest.raises(DataError, match=r"broken\.parquet is damaged or not of the declared format"):
        _rows(broken, "bigint")


@pytest.mark.variant  # tests/spark/compile/test_order_of_sources.py shows a change of readers every time
@pytest.mark.parametrize("partitions", [1, 2])
def test_a_checkpoint_goes_on_whoever_reads_the_files(
    partitions: int, spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where one bucket takes the names as they come, and packed chunks through an exchange."""
    case = write_case(tmp_path, PLAIN, random_batches(seed=21, count=6), arrived=2)
    ends = [RunOptions(available_now=True)] * 2 + [RunOptions(available_now=True, flush=True)]
    usual, exchanged = spark.conf.get(PARTITIONS), []
    spark.conf.set(PARTITIONS, partitions)
    try:
        for number, options in enumerate(ends):
            spark.conf.set(DIRECT, "false" if number == 1 else "true")
            if number:
                arrive(case, [2 * number, 2 * number + 1])
            (job,) = Session(spark).run(case.file, checkpoint=case.checkpoint, options=options).jobs
            assert job.progress is not None
            assert job._query is not None
            job._query.explain()
            exchanged.append("Exchange" in capsys.readouterr().out)
    finally:
        spark.conf.unset(DIRECT)
        spark.conf.set(PARTITIONS, usual)
    case.check(spark)
    assert exchanged == [partitions > 1, True, partitions > 1]


@pytest.mark.parametrize(
    ("stream", "is_direct"),
    [
        (Stream("s", (Column("k", "bigint"), Column("ts", "timestamp")), "ts"), True),
        (Stream("s", (Column("k", "array<int>"), Column("ts", "timestamp")), "ts"), False),
        (Stream("s", (Column("k", "varchar(3)"), Column("ts", "timestamp")), "ts"), False),
        (Stream("s", (Column("k", "bigint"),), None), False),
    ],
)
def test_only_plain_streams_are_read_directly(
    stream: Stream, is_direct: bool, spark: SparkSession, tmp_path: Path
) -> None:
    source = Connector("parquet", (("path", str(tmp_path)), ("maxFilesPerTrigger", "1")))
    known = Stream(stream.name, stream.columns, stream.event_time, source=source)
    assert (file_names(spark, known, tmp_path) is not None) is is_direct
    merging = Connector("parquet", (*source.options, ("mergeSchema", "true")))
    assert file_names(spark, Stream("s", stream.columns, "ts", source=merging), tmp_path) is None


def test_chosen_rows_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "one.parquet"
    texts = [f"text {n}" for n in range(50_000)]
    pq.write_table(pa.table({"x": texts}), path, row_group_size=20_000)
    wanted = np.array([0, 3, 16_384, 19_999, 45_000])
    columns = [FileColumn("x", "x", "string"), FileColumn("y", "y", "bigint")]
    found = read_chosen(f"file:{path}", columns, wanted)
    assert [values.to_pylist() for values in found] == [[texts[n] for n in wanted], [None] * 5]
    assert [values.to_pylist() for values in read_chosen(f"file:{path}", columns, wanted[:0])] == [[], []]

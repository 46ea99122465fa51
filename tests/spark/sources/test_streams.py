from __future__ import annotations

import contextlib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from watersmeet.errors import ConfigurationError, DataError, WatersmeetError
from watersmeet.query import Column, Connector, Pipeline, Sink, Stream
from watersmeet.query.arrow_types import arrow_type
from watersmeet.spark.generator.generator import FORMAT
from watersmeet.spark.jobs.dead_letters import plan_dead_letters
from watersmeet.spark.jobs.job import RunOptions
from watersmeet.spark.session.failures import explain_failure
from watersmeet.spark.sources.event_time import ARRIVAL_TIME
from watersmeet.spark.sources.inferred_columns import InferredColumns
from watersmeet.spark.sources.open_stream import read_batch, read_stream, source_columns
from watersmeet.spark.sources.parquet.schema import fits

COLUMNS = (Column("dest", "string"), Column("size", "bigint"), Column("ts", "timestamp"))
TIMES = pa.array([1_000_000, 2_000_000], pa.timestamp("us", tz="UTC"))


def stream(
    format: str, columns: tuple[Column, ...] = COLUMNS, event_time: str | None = "ts", **options: str
) -> Stream:
    return Stream("s1", columns, event_time, source=Connector(format, tuple(options.items())))


def parquet(folder: Path, name: str = "f.parquet", **columns: pa.Array) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), folder / name)
    return folder


def run(frame: DataFrame, folder: Path) -> list[tuple[object, ...]]:
    """What the stream delivers, through the file sink."""
    query = (
        frame.writeStream.format("parquet")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(folder / "out"))
    )
    query.awaitTermination()
    return sorted(tuple(row) for row in frame.sparkSession.read.parquet(str(folder / "out")).collect())


def failure_of(frame: DataFrame, folder: Path) -> WatersmeetError:
    with pytest.raises(PySparkException) as failure:
        run(frame, folder)
    return explain_failure(failure.value)


def test_a_folder_whose_name_is_a_pattern_is_refused_as_other_files_or_none_would_be_read(
    tmp_path: Path,
) -> None:
    no_spark: SparkSession = None  # type: ignore[assignment]
    for name in ("my [1]", "a{b,c}", "st*r", "why?", "back\\slash"):
        base = tmp_path / name
        (base / "s1").mkdir(parents=True)
        for path in ("s1", "s1/*.parquet", str(base / "s1"), str(base / "*" / "*.parquet")):
            with pytest.raises(
                DataError, match=r"stream s1: Spark takes the path .* for a pattern and would"
            ):
                read_stream(no_spark, stream("parquet", path=path), base)


def test_a_relative_path_is_relative_to_the_pipeline_file(spark: SparkSession, tmp_path: Path) -> None:
    parquet(tmp_path / "data" / "s1", dest=["x", "y"], size=[1, 2], ts=TIMES)
    declared = stream("parquet", path="data/s1")
    assert [row[:2] for row in run(read_stream(spark, declared, tmp_path), tmp_path / "run")] == [
        ("x", 1),
        ("y", 2),
    ]
    assert sorted(tuple(row)[:2] for row in read_batch(spark, declared, tmp_path).collect()) == [
        ("x", 1),
        ("y", 2),
    ]


def test_only_the_declared_columns_come_in_their_order(spark: SparkSession, tmp_path: Path) -> None:
    parquet(tmp_path / "s", extra=[0, 0], TS=TIMES, Size=[1, 2], dest=["x", "y"])
    frame = read_stream(spark, stream("parquet", path=str(tmp_path / "s")), tmp_path)
    assert frame.columns == ["dest", "size", "ts"]
    assert [row[1] for row in run(frame, tmp_path / "run")] == [1, 2]


def test_tuples_without_an_event_time_are_stamped_on_arrival(spark: SparkSession, tmp_path: Path) -> None:
    declared = stream(FORMAT, COLUMNS[:2], None)
    assert read_stream(spark, declared, tmp_path).columns == ["dest", "size", ARRIVAL_TIME]


def test_the_generator_needs_no_registering(spark: SparkSession, tmp_path: Path) -> None:
    frame = read_batch(spark, stream(FORMAT, rows="10"), tmp_path)
    assert frame.count() == 10


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        (
            stream("parquet", path="data/s1"),
            "stream s1: there is no {base}/data/s1 (path = 'data/s1', relative to {base}). "
            "Make it, even empty, or correct it",
        ),
        (stream("parquet"), "stream s1 (format parquet): add path = 'folder'"),
        (
            stream("parquett", path="."),
            "stream s1: Spark has no format 'parquett'. Did you mean 'parquet'? A format that is not built "
            "in needs its package: --conf spark.jars.packages=GROUP:ARTIFACT:VERSION",
        ),
        (stream("jdbc"), "stream s1 (format jdbc): Data source jdbc does not support streamed reading"),
        (stream("socket"), 'stream s1 (format socket): Set a host to read from with option("host", ...)'),
        (
            stream("rate", rowsPerSecond="fast"),
            'stream s1 (format rate): For input string: "fast"',
        ),
        (
            stream("rate"),
            "stream s1: its source has no column dest; it has timestamp, value",
        ),
        (
            stream("rate", (Column("value", "string"),), None),
            "stream s1: column value is declared string, but its source makes it bigint",
        ),
        (
            stream(FORMAT, rate="0"),
            "watersmeet-generator: rate = '0' will not do: it must be above 0",
        ),
        (
            Stream("s1", COLUMNS, "ts"),
            "stream s1 has no source: declare one with WITH (format = 'parquet', path = '...')",
        ),
    ],
)
def test_a_source_that_cannot_be_read_is_refused_by_name(
    spark: SparkSession, tmp_path: Path, declared: Stream, message: str
) -> None:
    with pytest.raises(WatersmeetError) as refusal:
        read_stream(spark, declared, tmp_path)
    assert str(refusal.value) == message.format(base=tmp_path)


def test_a_source_with_columns_of_its_own_is_read_by_name(spark: SparkSession, tmp_path: Path) -> None:
    declared = stream("rate", (Column("value", "bigint"), Column("timestamp", "timestamp")), "timestamp")
    assert read_stream(spark, declared, tmp_path).columns == ["value", "timestamp"]


def test_columns_can_be_taken_from_the_source(spark: SparkSession, tmp_path: Path) -> None:
    parquet(tmp_path / "s", dest=["x", "y"], tags=[["a"], ["b"]], ts=TIMES)
    declared = stream("parquet", (), path="s")
    assert source_columns(spark, declared, tmp_path) == (
        Column("dest", "string"),
        Column("tags", "array<string>"),
        Column("ts", "timestamp"),
    )
    assert read_stream(spark, declared, tmp_path).columns == ["dest", "tags", "ts"]
    assert source_columns(spark, stream(FORMAT, ()), tmp_path)[0] == Column("dest", "string")


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        ({"dest": ["x"], "ts": TIMES[:1]}, "it has no column size (it has dest, ts)"),
        (
            {"dest": ["x"], "size": ["1"], "ts": TIMES[:1]},
            "column size is declared bigint and the file holds string",
        ),
        (
            {"dest": ["x"], "size": [1], "ts": pa.array([1], pa.timestamp("ns"))},
            "column ts holds nanoseconds, which Spark does not read; write it in microseconds "
            "(pyarrow: coerce_timestamps='us')",
        ),
    ],
)
def test_a_parquet_file_that_does_not_match_is_named_before_the_start(
    spark: SparkSession, tmp_path: Path, columns: dict[str, pa.Array], problem: str
) -> None:
    parquet(tmp_path / "s", "good.parquet", dest=["x"], size=[1], ts=TIMES[:1])
    parquet(tmp_path / "s", "other.parquet", **columns)
    with pytest.raises(DataError) as refusal:
        read_stream(spark, stream("parquet", path="s"), tmp_path)
    assert str(refusal.value) == (
        f"stream s1: {tmp_path}/s/other.parquet does not match its declared schema: {problem}"
    )


def test_a_damaged_parquet_file_is_named_before_the_start(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "bad.parquet").write_text("hello")
    with pytest.raises(DataError, match=r"stream s1: \S+bad.parquet is not a whole parquet file"):
        read_stream(spark, stream("parquet", path="."), tmp_path)


def test_spark_logs_unfinished_files_and_partition_folders_are_no_mismatch(
    spark: SparkSession, tmp_path: Path
) -> None:
    parquet(tmp_path / "s" / "size=7", dest=["x"], ts=TIMES[:1])
    (tmp_path / "s" / "_spark_metadata").mkdir()
    (tmp_path / "s" / "_spark_metadata" / "0").write_text("v1")
    (tmp_path / "s" / ".part.tmp").write_text("half")
    assert read_stream(spark, stream("parquet", path="s"), tmp_path).columns == ["dest", "size", "ts"]


WRITTEN = {
    "int": pa.array([1], pa.int32()),
    "bigint": pa.array([1], pa.int64()),
    "float": pa.array([1.5], pa.float32()),
    "string": pa.array(["1"]),
    "binary": pa.array([b"1"]),
    "date": pa.array([1], pa.date32()),
    "timestamp": pa.array([1], pa.timestamp("us", "UTC")),
    "timestamp_ntz": pa.array([1], pa.timestamp("ms")),
    "decimal": pa.array([1], pa.int64()).cast(pa.decimal128(19, 0)),
}
DECLARED = (
    "int", "bigint", "double", "string", "timestamp", "timestamp_ntz", "date", "decimal(12,2)",
    "decimal(22,2)",
)  # fmt: skip
# Spark reads these by their bits, a date as the number of its day; a declaration that says so is a mistake.
REINTERPRETED = {
    ("int", "date"),
    ("date", "int"),
    ("date", "bigint"),
    ("date", "double"),
    ("timestamp", "bigint"),
    ("timestamp_ntz", "bigint"),
}


def test_what_is_said_to_fit_is_read_by_spark(spark: SparkSession, tmp_path: Path) -> None:
    """All at once: a column for each type that is written and declared."""
    pairs = [(held, declared) for held in WRITTEN for declared in DECLARED if _fit(held, declared)]
    assert len(pairs) > len(DECLARED)
    parquet(tmp_path / "s", **{f"c{n}": WRITTEN[held] for n, (held, _) in enumerate(pairs)})
    schema = ", ".join(f"c{n} {declared}" for n, (_, declared) in enumerate(pairs))
    [row] = spark.read.schema(schema).parquet(str(tmp_path / "s")).collect()
    assert all(value is not None for value in row)


def _fit(held: str, declared: str) -> bool:
    return fits(WRITTEN[held].type, arrow_type(declared))


@pytest.mark.variant  # eighty reads, most of which fail; those that succeed are read in another test
def test_what_is_said_to_fit_is_what_spark_reads(spark: SparkSession, tmp_path: Path) -> None:
    read, said = set(), set()
    for held, values in WRITTEN.items():
        parquet(tmp_path / held, a=values)
        for declared in DECLARED:
            with contextlib.suppress(PySparkException, Py4JJavaError):
                spark.read.schema(f"a {declared}").parquet(str(tmp_path / held)).collect()
                read.add((held, declared))
            if _fit(held, declared):
                said.add((held, declared))
    assert said == read - REINTERPRETED


def test_a_later_file_of_another_type_stops_the_query_with_a_clear_message(
    spark: SparkSession, tmp_path: Path
) -> None:
    source = parquet(tmp_path / "s", dest=["x"], size=[1], ts=TIMES[:1])
    frame = read_stream(spark, stream("parquet", path="s"), tmp_path)
    parquet(source, "late.parquet", dest=["x"], size=["1"], ts=TIMES[:1])
    error = failure_of(frame, tmp_path / "run")
    assert isinstance(error, DataError)
    assert str(error) == (
        f"file://{tmp_path}/s/late.parquet does not match its declared schema: column size is declared "
        "bigint and the file holds BINARY. Put one that does in its place, or take it away, then start again "
        "with the same checkpoint: nothing is lost"
    )


@pytest.mark.parametrize(
    ("format", "text"), [("json", '{"dest": "x", "size": "many"}\n'), ("csv", "x,many,2025-01-01\n")]
)
def test_a_record_that_does_not_fit_stops_the_query_with_a_clear_message(
    spark: SparkSession, tmp_path: Path, format: str, text: str
) -> None:
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "file").write_text(text)
    error = failure_of(read_stream(spark, stream(format, path="s"), tmp_path), tmp_path / "run")
    assert str(error).startswith(f"file://{tmp_path}/s/file holds a record that does not match its declared")


def test_such_records_can_be_let_through(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "file").write_text('{"dest": "x", "size": "many"}\n')
    declared = stream("json", path="s", mode="PERMISSIVE")
    assert run(read_stream(spark, declared, tmp_path), tmp_path / "run") == [("x", None, None)]


def test_a_kafka_stream_must_declare_its_columns(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="declare the columns of its Kafka messages"):
        source_columns(spark, stream("kafka", ()), tmp_path)


@pytest.mark.parametrize(
    ("format", "options", "text"),
    [
        ("csv", {"header": "true"}, "dest,size,ts\nx,5,2025-01-01T00:00:00Z\n"),
        ("json", {}, '{"dest": "x", "size": 5, "ts": "2025-01-01T00:00:00Z"}\n'),
    ],
)
def test_columns_are_inferred_once_and_kept_with_the_checkpoint(
    spark: SparkSession, tmp_path: Path, format: str, options: dict[str, str], text: str
) -> None:
    declared = stream(format, (), path="s", **options)
    (tmp_path / "s").mkdir()
    root = str(tmp_path / "checkpoint")
    with pytest.raises(DataError, match=r"there is nothing in .*/s yet to infer its columns from. Declare"):
        InferredColumns(spark, tmp_path, root)(declared)
    (tmp_path / "s" / "0").write_text(text)
    first = InferredColumns(spark, tmp_path, root)
    assert set(first(declared)) == set(COLUMNS)
    first.keep()
    assert set(first.fresh) == {"s1"}
    # What comes later may look otherwise; the folder grows, the columns stay.
    (tmp_path / "s" / "1").write_text(text.replace("5", '"many"' if format == "json" else "many"))
    second = InferredColumns(spark, tmp_path, root)
    assert second(declared) == first.fresh["s1"]
    assert second.fresh == {}
    (tmp_path / "checkpoint" / "columns.json").write_text("{")
    with pytest.raises(DataError, match=r"is damaged: columns.json cannot be read"):
        InferredColumns(spark, tmp_path, root)(declared)


def test_dead_letters_are_for_kafka_and_need_a_sink_of_their_own(spark: SparkSession, tmp_path: Path) -> None:
    kafka = stream("kafka", bootstrap="h", topic="t", dead_letters="bad")
    files = stream("json", path="s", dead_letters="bad")
    sink = Sink("other", Connector("console"))
    for declared, message in (
        (kafka, "stream s1: dead_letters = 'bad' names no sink; there are: other"),
        (files, "stream s1 .format json.: dead_letters is for Kafka"),
    ):
        with pytest.raises(ConfigurationError, match=message):
            plan_dead_letters(spark, Pipeline((declared,), (sink,)), "c", tmp_path, RunOptions())

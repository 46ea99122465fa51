from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from watersmeet.errors import ConfigurationError
from watersmeet.query import Connector, Sink
from watersmeet.spark.sinks.memory import memory_table
from watersmeet.spark.sinks.write_stream import spark_interval, write_stream
from watersmeet.spark.sources.generator import FORMAT


def source(spark: SparkSession, **options: str) -> DataFrame:
    return spark.readStream.format(FORMAT).options(**{"rows": "100", **options}).load()


def sink(format: str, **options: str) -> Sink:
    return Sink("out", Connector(format, tuple(options.items())))


def test_a_relative_path_is_relative_to_the_pipeline_file(spark: SparkSession, tmp_path: Path) -> None:
    query = write_stream(
        source(spark),
        sink("parquet", path="out/common", compression="gzip"),
        name="common",
        checkpoint=tmp_path / "checkpoint",
        available_now=True,
        base=tmp_path,
    )
    query.awaitTermination()
    assert query.name == "common"
    assert spark.read.parquet(str(tmp_path / "out" / "common")).count() == 100
    assert list((tmp_path / "out" / "common").glob("*.gz.parquet"))


def test_a_second_run_goes_on_from_the_checkpoint(spark: SparkSession, tmp_path: Path) -> None:
    for rows in ("100", "130"):
        write_stream(
            source(spark, rows=rows),
            sink("json", path="out"),
            name="again",
            checkpoint=tmp_path / "checkpoint",
            available_now=True,
            base=tmp_path,
        ).awaitTermination()
    assert spark.read.json(str(tmp_path / "out")).count() == 130


def test_without_a_sink_answers_go_to_the_console(spark: SparkSession, tmp_path: Path) -> None:
    query = write_stream(
        source(spark), None, name="shown", checkpoint=tmp_path / "c", available_now=True, base=tmp_path
    )
    query.awaitTermination()
    assert query.lastProgress is not None
    assert "ConsoleTable" in query.lastProgress["sink"]["description"]


def test_a_trigger_starts_batches_at_its_interval_until_stopped(spark: SparkSession, tmp_path: Path) -> None:
    query = write_stream(
        source(spark, rate="100000"),
        sink("memory"),
        name="ticking",
        checkpoint=tmp_path / "c",
        trigger_us=100_000,
        base=tmp_path,
    )
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    assert query.exception() is None
    assert spark.table("out").count() > 0


def test_memory_goes_on_over_several_runs_of_a_query(spark: SparkSession, tmp_path: Path) -> None:
    for rows in ("70", "100"):
        write_stream(
            source(spark, rows=rows, rows_per_batch="30"),
            Sink("remembered", Connector("memory")),
            name="1-remembered",
            checkpoint=tmp_path / "checkpoint",
            available_now=True,
            base=tmp_path,
        ).awaitTermination()
        assert spark.table("remembered").count() == int(rows)
    again = memory_table(spark, "remembered", str(tmp_path / "checkpoint"))
    again(spark.table("remembered").limit(30), 0)  # a batch that is done again takes its own place
    assert spark.table("remembered").count() == 100


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (sink("parquet"), "sink out (format parquet): add path = 'folder'"),
        (
            sink("jsonn", path="out"),
            "sink out: Spark has no format 'jsonn'. Did you mean 'json'? A format that is not built in needs "
            "its package: --conf spark.jars.packages=GROUP:ARTIFACT:VERSION",
        ),
        (
            sink("postgres", table="t"),
            "sink out (format postgres): add url = 'jdbc:postgresql://host:5432/database'",
        ),
        (sink("postgres", url="jdbc:x"), "sink out (format postgres): add table = 'answers'"),
        (sink("kafka", topic="t"), "sink out (format kafka): add bootstrap = 'host:9092'"),
        (sink("kafka", bootstrap="h"), "sink out (format kafka): add topic = 'name'"),
        (
            sink("kafka", bootstrap="h", topic="t", value="avro"),
            "sink out: value = 'avro' is none of json, raw",
        ),
        (
            sink("kafka", bootstrap="h", topic="t", key="no"),
            "sink out: key = 'no' is no column of its answers; they have dest, src, size, ts",
        ),
        (
            sink("kafka", bootstrap="h", value="raw"),
            "sink out: with value = 'raw' the query must SELECT ... AS value",
        ),
        (sink("jdbc"), "sink out (format jdbc): Data source jdbc does not support streamed writing"),
    ],
)
def test_a_sink_that_cannot_be_written_is_refused_by_name(
    spark: SparkSession, tmp_path: Path, target: Sink, message: str
) -> None:
    with pytest.raises(ConfigurationError) as refusal:
        write_stream(source(spark), target, name="refused", checkpoint=tmp_path / "c", base=tmp_path)
    assert str(refusal.value) == message


def test_an_interval_is_whole_milliseconds() -> None:
    assert spark_interval(1_500_000) == "1500 milliseconds"
    with pytest.raises(ConfigurationError, match="1500 us is not possible: write whole milliseconds"):
        spark_interval(1_500)

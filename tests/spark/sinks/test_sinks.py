from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from watersmeet.errors import ConfigurationError, QueryError
from watersmeet.plan.multiquery.plan_dataflow import Registered, plan_dataflow
from watersmeet.query import NEVER, Connector, Sink
from watersmeet.spark.multiquery.check import SparkCheck
from watersmeet.spark.sinks.memory import open_memory
from watersmeet.spark.sinks.target import Target
from watersmeet.spark.sinks.write_stream import spark_interval, write_stream
from watersmeet.sql import bind_query, parse_pipeline


class Source:
    """A stream of files of a hundred rows each."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder, self.files = spark, folder, 0
        folder.mkdir()
        self.add()

    def add(self) -> None:
        rows = {"dest": ["x"] * 100, "size": list(range(100))}
        pq.write_table(pa.table(rows), self.folder / f"{self.files}.parquet")
        self.files += 1

    def frame(self) -> DataFrame:
        reader = self.spark.readStream.schema("dest string, size bigint").option("maxFilesPerTrigger", 1)
        return reader.parquet(str(self.folder))


@pytest.fixture
def source(spark: SparkSession, tmp_path: Path) -> Source:
    return Source(spark, tmp_path / "source")


def sink(format: str, **options: str) -> Sink:
    return Sink("out", Connector(format, tuple(options.items())))


def test_files_go_where_the_pipeline_file_says_and_a_second_run_adds_to_them(
    spark: SparkSession, tmp_path: Path, source: Source
) -> None:
    """A relative path is relative to the pipeline file."""
    target = sink("parquet", path="out/common", compression="gzip")
    for _ in range(2):
        query = write_stream(
            source.frame(),
            target,
            name="common",
            checkpoint=tmp_path / "checkpoint",
            available_now=True,
            base=tmp_path,
        )
        query.awaitTermination()
        assert query.name == "common"
        assert spark.read.parquet(str(tmp_path / "out" / "common")).count() == 100 * source.files
        source.add()
    assert list((tmp_path / "out" / "common").glob("*.gz.parquet"))


def test_without_a_sink_answers_go_to_the_console_and_a_batch_done_again_is_shown_again(
    tmp_path: Path, source: Source
) -> None:
    for _ in range(2):
        query = write_stream(
            source.frame(), None, name="shown", checkpoint=tmp_path / "c", available_now=True, base=tmp_path
        )
        query.awaitTermination()
        assert query.lastProgress is not None
        assert "ConsoleTable" in query.lastProgress["sink"]["description"]
        assert (query.lastProgress["batchId"], query.lastProgress["numInputRows"]) == (0, 100)
        # As if the driver had died when the batch was shown and the checkpoint did not know it.
        for file in (tmp_path / "c" / "commits").glob("*0*"):
            file.unlink()


def test_memory_is_filled_at_the_triggers_interval_until_stopped_and_over_several_runs(
    spark: SparkSession, tmp_path: Path, source: Source
) -> None:
    target = Sink("remembered", Connector("memory"))
    ticking = write_stream(
        source.frame(),
        target,
        name="remembered",
        checkpoint=tmp_path / "checkpoint",
        trigger_us=100_000,
        base=tmp_path,
    )
    try:
        ticking.processAllAvailable()
    finally:
        ticking.stop()
    assert ticking.exception() is None
    assert spark.table("remembered").count() == 100
    source.add()
    write_stream(
        source.frame(),
        target,
        name="remembered",
        checkpoint=tmp_path / "checkpoint",
        available_now=True,
        base=tmp_path,
    ).awaitTermination()
    assert spark.table("remembered").count() == 200
    place = Target(
        spark=spark, sink=target, base=tmp_path, checkpoint=str(tmp_path / "checkpoint"), name="remembered"
    )
    # A batch that is done again replaces itself.
    table = open_memory(place).table
    (writer,) = {writer for writer, _ in table.batches}
    table.put(spark.table("remembered").limit(100), writer, 0)
    assert spark.table("remembered").count() == 200
    # And the oldest batches go where there is a limit.
    few = replace(place, sink=Sink("remembered", Connector("memory", (("rows", "150"),))))
    open_memory(few).table.put(spark.table("remembered").limit(120), writer, 1000)
    assert spark.table("remembered").count() == 120


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (sink("parquet"), "sink out (format parquet): add path = 'folder'"),
        (sink("memory", rows="all"), "sink out: rows = 'all' is not a number of answers to hold"),
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
            "sink out: key = 'no' is no column of its answers; they have dest, size",
        ),
        (
            sink("kafka", bootstrap="h", value="raw"),
            "sink out: with value = 'raw' the query must SELECT ... AS value",
        ),
        (sink("jdbc"), "sink out (format jdbc): Data source jdbc does not support streamed writing"),
    ],
)
def test_a_sink_that_cannot_be_written_is_refused_by_name(
    tmp_path: Path, source: Source, target: Sink, message: str
) -> None:
    with pytest.raises(ConfigurationError) as refusal:
        write_stream(source.frame(), target, name="refused", checkpoint=tmp_path / "c", base=tmp_path)
    assert str(refusal.value) == message


def test_a_function_that_is_not_deterministic_is_refused_where_answers_are_kept(
    spark: SparkSession, tmp_path: Path, source: Source
) -> None:
    spark.udf.register("whim", F.udf(lambda size: size, "bigint").asNondeterministic())
    answers = source.frame().selectExpr("whim(size) AS size")
    with pytest.raises(
        ConfigurationError, match="query q into sink out: it calls a function that is not det"
    ):
        write_stream(answers, sink("parquet", path="o"), name="q", checkpoint=tmp_path / "c", base=tmp_path)
    assert not (tmp_path / "c").exists()
    check = SparkCheck(spark)
    streams = parse_pipeline("CREATE STREAM s (size BIGINT) WITH (format = 'json', path = 's');").streams
    shown = bind_query("SELECT whim(a.size) AS size FROM s AS a", streams)
    tail = plan_dataflow([Registered("q", 1, shown, 0, NEVER)], streams, 1).tails[0]
    assert [column.name for column in check.answer_columns(shown, "q", tail.conditions)] == ["size"]
    with pytest.raises(
        QueryError, match="query q into sink out: it calls a function that is not deterministic"
    ):
        check.answer_columns(replace(shown, sink="out"), "q", tail.conditions)


def test_an_interval_is_whole_milliseconds() -> None:
    assert spark_interval(1_500_000) == "1500 milliseconds"
    with pytest.raises(ConfigurationError, match="1500 us is not possible: write whole milliseconds"):
        spark_interval(1_500)

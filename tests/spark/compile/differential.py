"""Runs a query through Spark over given micro-batches, and compares with the oracle.

Every micro-batch is one Parquet file per stream, taken one a trigger. So are the files of the control folder:
empty ones while there is input, then one with a row, which ends it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from tests.strategies import to_arrow
from watersmeet.oracle import oracle
from watersmeet.oracle.oracle import MicroBatch
from watersmeet.plan.physical import plan_physical
from watersmeet.query import Connector, Query, Stream
from watersmeet.spark.compile.compile import Compiler
from watersmeet.spark.sources.parquet.files import file_names


def write_batches(folder: Path, query: Query, batches: Sequence[MicroBatch]) -> None:
    """One file per stream and batch; their times of change give the order in which Spark takes them."""
    for stream in query.streams:
        (folder / stream.name).mkdir(parents=True)
        for number, batch in enumerate(batches):
            path = folder / stream.name / f"{number:04}.parquet"
            pq.write_table(to_arrow(stream, batch.get(stream.name, ())), path)
            _set_time(path, number)


def write_control(folder: Path, batches: int, *, flush: bool) -> None:
    """Files without a row while there are batches, then the end."""
    control = folder / "control"
    control.mkdir()
    nothing: list[str] = []
    for number, rows in enumerate([*[nothing] * batches, *([["end"]] if flush else [])]):
        path = control / f"{number:04}.parquet"
        pq.write_table(pa.table({"value": pa.array(rows, pa.string())}), path)
        _set_time(path, number)


def _set_time(path: Path, number: int) -> None:
    os.utime(path, (1_000_000 + number, 1_000_000 + number))


def read_batches(spark: SparkSession, folder: Path, stream: Stream) -> DataFrame:
    schema = ", ".join(f"`{column.name}` {column.type}" for column in stream.columns)
    reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
    return reader.parquet(str(folder / stream.name))


def name_files(spark: SparkSession, folder: Path, stream: Stream) -> DataFrame | None:
    options = (("path", str(folder / stream.name)), ("maxFilesPerTrigger", "1"))
    source = Connector("parquet", options)
    return file_names(spark, Stream(stream.name, stream.columns, stream.event_time, source=source), folder)


def answers(
    spark: SparkSession, folder: Path, query: Query, *, direct: bool, routing: str = "shares"
) -> DataFrame:
    """The streaming DataFrame of a query over written batches."""
    partitions = int(spark.conf.get("spark.sql.shuffle.partitions") or 2)
    sources = {stream.name: read_batches(spark, folder, stream) for stream in query.streams}
    named = {s.name: name_files(spark, folder, s) for s in query.streams} if direct else {}
    control = spark.readStream.schema("value string").option("maxFilesPerTrigger", 1)
    compiler = Compiler(
        spark=spark,
        plan=plan_physical(query, partitions, routing=routing),
        sources=sources,
        control=control.parquet(str(folder / "control")),
        files={name: frame for name, frame in named.items() if frame is not None},
    )
    return compiler.answers()


def run_through_spark(
    spark: SparkSession,
    folder: Path,
    query: Query,
    batches: Sequence[MicroBatch],
    *,
    flush: bool = True,
    direct: bool = False,
    routing: str = "shares",
) -> list[tuple[Any, ...]]:
    """The rows Spark emits for the batches, each stream's n-th file in the n-th trigger."""
    write_batches(folder, query, batches)
    write_control(folder, len(batches), flush=flush)
    stream = answers(spark, folder, query, direct=direct, routing=routing).writeStream.format("parquet")
    stream = stream.option("checkpointLocation", str(folder / "checkpoint"))
    stream.trigger(availableNow=True).start(str(folder / "out")).awaitTermination()
    return [tuple(row) for row in spark.read.parquet(str(folder / "out")).collect()]


def check(
    spark: SparkSession,
    folder: Path,
    query: Query,
    batches: Sequence[MicroBatch],
    *,
    flush: bool = True,
    direct: bool = False,
    routing: str = "shares",
) -> None:
    """The answers are the oracle's, and there are some."""
    found = run_through_spark(spark, folder, query, batches, flush=flush, direct=direct, routing=routing)
    expected = oracle.run(query, batches, flush=flush)
    assert expected.rows, "a case without answers proves nothing"
    assert oracle.bag(found) == oracle.bag(expected.rows)

"""Runs a query through Spark over given micro-batches, and compares with the oracle.

Every micro-batch is one Parquet file per stream, taken one a trigger; a row in the control folder ends the
input.
"""

from __future__ import annotations

import os
import uuid
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from tests.strategies import to_arrow
from watersmeet.oracle import oracle
from watersmeet.oracle.oracle import MicroBatch
from watersmeet.plan.physical import plan_physical
from watersmeet.query import Query, Stream
from watersmeet.spark.compile.compile import Compiler


def write_batches(folder: Path, query: Query, batches: list[MicroBatch]) -> None:
    """One file per stream and batch; their times of change give the order in which Spark takes them."""
    for stream in query.streams:
        (folder / stream.name).mkdir(parents=True)
        for number, batch in enumerate(batches):
            path = folder / stream.name / f"{number:04}.parquet"
            pq.write_table(to_arrow(stream, batch.get(stream.name, ())), path)
            os.utime(path, (1_000_000 + number, 1_000_000 + number))


def read_batches(spark: SparkSession, folder: Path, stream: Stream) -> DataFrame:
    schema = ", ".join(f"`{column.name}` {column.type}" for column in stream.columns)
    reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
    return reader.parquet(str(folder / stream.name))


def answers(spark: SparkSession, folder: Path, query: Query) -> DataFrame:
    """The streaming DataFrame of a query over written batches."""
    control = folder / "control"
    control.mkdir(exist_ok=True)
    partitions = int(spark.conf.get("spark.sql.shuffle.partitions") or 2)
    sources = {stream.name: read_batches(spark, folder, stream) for stream in query.streams}
    end = spark.readStream.schema("value string").text(str(control))
    plan = plan_physical(query, partitions)
    return Compiler(spark=spark, plan=plan, sources=sources, control=end).answers()


def run_through_spark(
    spark: SparkSession, folder: Path, query: Query, batches: list[MicroBatch], *, flush: bool = True
) -> list[tuple[Any, ...]]:
    """The rows Spark emits for the batches, each stream's n-th file in the n-th trigger."""
    write_batches(folder, query, batches)
    name = f"answers_{uuid.uuid4().hex}"
    for end in [False, True] if flush else [False]:
        if end:
            (folder / "control" / "end.txt").write_text("end\n")
        stream = answers(spark, folder, query).writeStream.format("parquet").queryName(name)
        stream = stream.option("checkpointLocation", str(folder / "checkpoint"))
        stream.trigger(availableNow=True).start(str(folder / "out")).awaitTermination()
    return [tuple(row) for row in spark.read.parquet(str(folder / "out")).collect()]


def check(
    spark: SparkSession, folder: Path, query: Query, batches: list[MicroBatch], *, flush: bool = True
) -> None:
    found = run_through_spark(spark, folder, query, batches, flush=flush)
    expected = oracle.run(query, batches, flush=flush)
    assert oracle.bag(found) == oracle.bag(expected.rows)

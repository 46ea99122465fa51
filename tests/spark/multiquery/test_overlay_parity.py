"""A dataflow on Spark counts what the overlay lab counts of the same workload (`overlay_parity`)."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from tests.kernel.multiquery.overlay_parity import (
    QUERIES,
    STATISTICS,
    count_nulls,
    dataflow_streams,
    draw_batches,
    run_dhtjoin,
    run_rjoin,
)
from tests.strategies import to_arrow
from watersmeet import Session
from watersmeet.oracle.oracle import MicroBatch, bag
from watersmeet.spark.metrics.progress import observed_metrics


def run_on_spark(
    spark: SparkSession, folder: Path, batches: list[MicroBatch]
) -> tuple[Counter[str], dict[str, list[tuple[object, ...]]]]:
    """What one dataflow of all queries reported, summed over its batches, and each query's answers."""
    session = Session(spark)
    for stream in dataflow_streams():
        source = folder / stream.name
        source.mkdir()
        for number, batch in enumerate(batches):
            pq.write_table(to_arrow(stream, batch[stream.name]), source / f"{number}.parquet")
            os.utime(source / f"{number}.parquet", (1_000_000 + number, 1_000_000 + number))
        schema = ", ".join(f"{column.name} {column.type}" for column in stream.columns)
        reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
        session.stream(stream.name, reader.parquet(str(source)), event_time="ts")
    writer = session.queries(QUERIES, STATISTICS).writeStream.format("parquet").trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(folder / "checkpoint")).start(str(folder / "answers"))
    query.awaitTermination()
    reported: Counter[str] = Counter()
    for report in query.recentProgress:
        reported.update(observed_metrics(json.loads(report.json)))
    answers: dict[str, list[tuple[object, ...]]] = {name: [] for name in QUERIES}
    for row in spark.read.parquet(str(folder / "answers")).collect():
        answers[row["query"]].append(tuple(json.loads(row["answer"]).values()))
    return reported, answers


def test_a_dataflow_on_spark_counts_what_the_overlay_lab_counts(spark: SparkSession, tmp_path: Path) -> None:
    batches = draw_batches(5, count=3)
    reported, answers = run_on_spark(spark, tmp_path, batches)
    dhtjoin, rjoin = run_dhtjoin(batches), run_rjoin(batches)
    assert reported["sent"] == dhtjoin.indexed.total()
    assert reported["stored"] == dhtjoin.sent_on.total()
    assert reported["combinations"] == dhtjoin.made.total()
    assert {level: reported[f"combinations_level_{level}"] for level in dhtjoin.made} == dhtjoin.made
    assert reported["sent_by_all"] == rjoin.at_value_level + count_nulls(batches)
    assert reported["answers"] == sum(len(rows) for rows in dhtjoin.answers.values())
    for name in QUERIES:
        assert answers[name], f"{name} without answers proves nothing"
        assert bag(answers[name]) == bag(dhtjoin.answers[name]) == bag(rjoin.answers[name]), name

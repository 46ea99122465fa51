from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from watersmeet.spark.exchange.labels import MAX_LABELS, bucket_labels, spark_hash


def test_the_hash_is_the_one_spark_computes(spark: SparkSession) -> None:
    values = np.concatenate(
        [np.arange(-500, 500), [2**31 - 1, -(2**31)], np.random.default_rng(1).integers(-(2**31), 2**31, 500)]
    ).astype(np.int32)
    frame = spark.createDataFrame([(int(value),) for value in values], "x int")
    expected = [row[0] for row in frame.select(F.hash("x")).collect()]
    assert spark_hash(values).tolist() == expected


@pytest.mark.parametrize("count", [1, 2, 3, 7, 16, 200, 1000, MAX_LABELS])
def test_labels_are_distinct_and_their_hash_names_their_partition(count: int) -> None:
    labels = bucket_labels(count)
    assert len(set(labels)) == count
    assert all(label >= 0 for label in labels)
    assert (spark_hash(np.array(labels, np.int32)) % count).tolist() == list(range(count))


@pytest.mark.parametrize("count", [1, 2, 5, 16])
def test_spark_puts_label_i_on_partition_i(spark: SparkSession, count: int) -> None:
    labels = bucket_labels(count)
    frame = spark.createDataFrame([(label,) for label in labels], "bucket int")
    placed = frame.repartition(count, "bucket").select("bucket", F.spark_partition_id()).collect()
    assert {row[0]: row[1] for row in placed} == {label: place for place, label in enumerate(labels)}


@pytest.mark.parametrize("count", [0, MAX_LABELS + 1])
def test_a_count_without_labels_is_refused(count: int) -> None:
    with pytest.raises(ValueError, match="between 1 and 4096"):
        bucket_labels(count)


def test_a_stateful_stage_runs_each_bucket_on_a_partition_of_its_own(
    spark: SparkSession, tmp_path: Path
) -> None:
    count = int(spark.conf.get("spark.sql.shuffle.partitions") or 0)
    labels = bucket_labels(count)

    class Report(StatefulProcessor):  # defined here, so that it travels to the workers by value
        def init(self, handle: StatefulProcessorHandle) -> None:
            pass

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
            list(rows)
            context = TaskContext.get()
            assert context is not None
            yield pd.DataFrame({"bucket": [key[0]], "place": [context.partitionId()]})

    source = spark.createDataFrame([(label,) for label in labels], "bucket int")
    source.write.parquet(str(tmp_path / "in"))
    placed = (
        spark.readStream.schema("bucket int")
        .parquet(str(tmp_path / "in"))
        .groupBy("bucket")
        .transformWithStateInPandas(Report(), "bucket int, place int", "Append", "None")
    )
    query = (
        placed.writeStream.format("parquet")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(tmp_path / "out"))
    )
    query.awaitTermination()
    found = spark.read.parquet(str(tmp_path / "out")).collect()
    assert {row[0]: row[1] for row in found} == {label: place for place, label in enumerate(labels)}

"""Spark's own joins, which we are measured beside, run with the settings that the benchmarks give them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.pipelines import QUERIES, random_batches, write_case
from watersmeet.bench.engines import IN_MEMORY
from watersmeet.session import Session
from watersmeet.spark.jobs.job import RunOptions


@pytest.fixture
def state_in_memory(spark: SparkSession) -> Iterator[Session]:
    """A session whose next queries keep their state in memory."""
    session, before = Session(spark), {key: spark.conf.get(key) for key in IN_MEMORY}
    for key, value in IN_MEMORY.items():
        spark.conf.set(key, value)
    yield session
    for key, usual in before.items():
        assert usual is not None
        spark.conf.set(key, usual)


def test_with_their_state_in_memory_they_give_the_same_answers(
    state_in_memory: Session, spark: SparkSession, tmp_path: Path
) -> None:
    batches = random_batches(seed=6, count=3)[1:]  # times before 1970 are late for Spark
    case = write_case(tmp_path, QUERIES["chain"], batches)
    options = RunOptions(available_now=True, routing="native")
    state_in_memory.run(case.file, checkpoint=case.checkpoint, options=options)
    case.check(spark, flush=False)

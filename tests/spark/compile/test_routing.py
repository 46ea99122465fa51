"""Routings through Spark, each once: that their answers are the oracle's is tested in process."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.pipelines import arrive, random_batches, write_case
from tests.testing.test_routing import PIPELINED, REWRITTEN, shifting_batches
from watersmeet import Session
from watersmeet.errors import ConfigurationError
from watersmeet.spark.jobs.job import RunOptions
from watersmeet.spark.metrics.progress import observed_metrics


def test_levels_run_through_spark_and_a_resumed_query_keeps_its_routing(
    spark: SparkSession, tmp_path: Path
) -> None:
    case = write_case(tmp_path, REWRITTEN[1], shifting_batches()[:3], arrived=2)
    options = RunOptions(available_now=True, routing="rewrite")
    (job,) = Session(spark).run(case.file, checkpoint=case.checkpoint, options=options).jobs
    reported = [observed_metrics(report) for report in job.reports]
    assert sum(each["combinations_level_2"] for each in reported) > 0
    with pytest.raises(ConfigurationError, match="routing: rewrite in the checkpoint, pipeline in the query"):
        Session(spark).start(
            case.file, checkpoint=case.checkpoint, options=RunOptions(available_now=True, routing="pipeline")
        )
    arrive(case, [2])
    # A routing that was not asked for again goes on as it was.
    resumed = Session(spark).run(
        case.file, checkpoint=case.checkpoint, options=RunOptions(available_now=True)
    )
    assert resumed.jobs[0].plan.routing.name == "rewrite"
    case.check(spark, flush=False)


@pytest.mark.variant  # as any other change is refused: tests/spark/jobs/test_restart.py
def test_a_query_cannot_change_its_routing(spark: SparkSession, tmp_path: Path) -> None:
    # Spark's watermark begins in 1970, and the first of these batches before it.
    case = write_case(tmp_path, PIPELINED[0], random_batches(12, count=2)[1:])
    options = RunOptions(available_now=True, routing="native")
    Session(spark).run(case.file, checkpoint=case.checkpoint, options=options)
    case.check(spark, flush=False)
    with pytest.raises(ConfigurationError, match="routing: native in the checkpoint, shares in the query"):
        Session(spark).start(
            case.file, checkpoint=case.checkpoint, options=RunOptions(available_now=True, routing="shares")
        )

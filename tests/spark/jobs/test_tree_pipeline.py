"""A tree of joins in stages through Spark: stopped and resumed, it gives each answer once."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.pipelines import arrive, random_batches, write_case
from watersmeet.plan.routing.routing import TreePipeline
from watersmeet.session import Session
from watersmeet.spark.jobs.checkpoint import Checkpoint
from watersmeet.spark.jobs.job import RunOptions

pytestmark = pytest.mark.slow

SQL = (
    "SELECT a.v AS va, b.v AS vb, c.v AS vc, answer_time FROM s1 [RANGE 4 SECONDS] AS a "
    "LEFT JOIN s2 [RANGE 3 SECONDS] AS b ON a.k = b.k AND a.v <= b.v "
    "FULL JOIN s3 [TUMBLE 6 SECONDS] AS c ON b.v = c.v AND a.k < c.k"
)


def test_stages_resume_without_loss_or_repetition(spark: SparkSession, tmp_path: Path) -> None:
    case = write_case(tmp_path, SQL, random_batches(seed=7, count=2, rows=25), arrived=1)
    session = Session(spark)
    session.run(case.file, checkpoint=case.checkpoint, options=RunOptions(available_now=True))
    assert Checkpoint(spark, str(case.checkpoint / "out")).routing() == TreePipeline.name
    arrive(case, [1])
    last = RunOptions(available_now=True, flush=True)
    session.run(case.file, checkpoint=case.checkpoint, options=last)
    case.check(spark)
    assert {row[:3].count(None) for row in case.found(spark)} == {0, 1, 2}

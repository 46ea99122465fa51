"""A changelog as a table and a stream counted in copies, through Spark, stopped and resumed."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.compile.differential import check
from tests.spark.pipelines import arrive, random_batches, write_case
from tests.testing.random_cases import draw_case
from watersmeet.session import Session
from watersmeet.spark.jobs.job import RunOptions

SELECT = (
    "SELECT a.k, a.v AS va, b.v AS vb, c.v AS vc, answer_time FROM s1 [RANGE 4 SECONDS] AS a, "
    "s2 [PARTITION BY k ROWS 1] AS b, s3 [PARTITION BY v ROWS 2] AS c "
    "WHERE a.k = b.k AND b.k = c.k AND b.v <> 3"
)


def test_versions_outlive_a_restart(spark: SparkSession, tmp_path: Path) -> None:
    batches = random_batches(seed=71, count=4)
    case = write_case(tmp_path, SELECT, batches, arrived=0)
    for numbers, flush in ((range(2), False), (range(2, 4), True)):
        arrive(case, numbers)
        options = RunOptions(available_now=True, flush=flush)
        Session(spark).start(case.file, checkpoint=case.checkpoint, options=options).follow()
    case.check(spark)


@pytest.mark.variant
@pytest.mark.parametrize(
    ("variant", "seed"), [("partitioned", 3), ("partitioned files", 4), ("partitioned aggregate", 0)]
)
def test_answers_are_the_oracles(variant: str, seed: int, spark: SparkSession, tmp_path: Path) -> None:
    case = draw_case(seed, variant=variant)
    check(spark, tmp_path, case.query, case.batches, direct=case.setup.direct_files)

"""Views through Spark: stopped and resumed, each answer once; what is resumed is the same view."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.pipelines import arrive, random_batches, write_case
from watersmeet.errors import ConfigurationError
from watersmeet.session import Session
from watersmeet.spark.jobs.job import RunOptions

ONCE = RunOptions(available_now=True, flush=False)
SELECT = """WITH even AS (SELECT k, v AS w, ts FROM s1 WHERE v % 2 = 0
                    UNION ALL SELECT k, one AS w, ts FROM s2
                              LATERAL VIEW explode(CAST(array(v, k) AS ARRAY<BIGINT>)) e AS one WHERE one > 4)
SELECT a.k, a.w, b.x, answer_time
FROM even {} AS a, (SELECT k AS key, v AS x, ts AS at FROM s3) [RANGE 3 SECONDS] AS b WHERE a.k = b.key"""


@pytest.mark.parametrize("window", ["[RANGE 4 SECONDS]", pytest.param("[ROWS 9]", marks=pytest.mark.variant)])
def test_a_view_is_resumed_where_it_stopped(spark: SparkSession, tmp_path: Path, window: str) -> None:
    case = write_case(tmp_path, SELECT.format(window), random_batches(seed=71, count=4), arrived=0)

    def run() -> None:
        Session(spark).run(case.file, checkpoint=case.checkpoint, options=ONCE)

    arrive(case, range(2))
    run()
    arrive(case, range(2, 4))
    run()
    case.check(spark, flush=False)
    case.file.write_text(case.file.read_text().replace("v % 2 = 0", "v % 2 = 1"))
    with pytest.raises(ConfigurationError, match=r"SELECT 1\.1 of a's view: .* where s1\.v % 2 = 0"):
        run()

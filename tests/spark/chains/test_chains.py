"""Streams of answers through Spark: each answer once from end to end, in one run or in many."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from tests.paths import ROOT
from tests.spark.pipelines import arrive, random_batches, write_case
from tests.spark.processes import jvm, kill
from tests.spark.run_pipeline import Request
from watersmeet.session import Session
from watersmeet.spark.jobs.job import RunOptions

TO_THE_END = RunOptions(available_now=True, flush=True)

JOIN = """
CREATE STREAM j AS SELECT a.k, a.v AS w, b.v AS x, a.ts AS at
FROM s1 [RANGE 4 SECONDS] AS a, s2 [RANGE 3 SECONDS] AS b WHERE a.k = b.k AND a.v <> b.v;
"""
DISTINCT = JOIN.replace("SELECT a.k", "SELECT DISTINCT a.k").replace("AS at", "AS at, answer_time")
TWICE = (
    "SELECT p.k, p.w, q.x, q.at, s.v, answer_time FROM j [RANGE 2 SECONDS] AS p, j [RANGE 2 SECONDS] AS q, "
    "s3 [RANGE 1 SECOND] AS s WHERE p.k = q.k AND q.k = s.k AND p.w < q.x"
)
DEEPER = """
CREATE VIEW small AS SELECT k, w, answer_time FROM j WHERE w < 5;
CREATE STREAM jj AS SELECT l.k, l.w, c.v AS y
FROM small [RANGE 3 SECONDS] AS l LEFT JOIN s3 [RANGE 2 SECONDS] AS c ON l.k = c.k AND l.w = c.v;
"""
COUNTED = (
    "SELECT r.k, r.w, r.y, s.v, r.answer_time AS rt "
    "FROM jj [ROWS 30] AS r, s2 [RANGE 4 SECONDS] AS s WHERE r.k = s.k"
)


@pytest.mark.parametrize(
    ("derived", "selects", "count", "routing"),
    [
        (JOIN, [TWICE], 2, None),
        pytest.param(JOIN + DEEPER, [TWICE, COUNTED], 4, None, marks=pytest.mark.variant),
        pytest.param(JOIN, [TWICE], 2, "pipeline", marks=pytest.mark.variant),
        pytest.param(DISTINCT, [TWICE], 2, None, marks=pytest.mark.variant),
    ],
)
def test_a_chain_is_stopped_and_resumed_with_each_answer_once(
    derived: str, selects: list[str], count: int, routing: str | None, spark: SparkSession, tmp_path: Path
) -> None:
    case = write_case(
        tmp_path, selects, random_batches(seed=31, count=count), derived=derived, arrived=count // 2
    )

    def run(*, flush: bool) -> None:
        options = RunOptions(available_now=True, flush=flush, routing=routing)
        Session(spark).run(case.file, checkpoint=case.checkpoint, options=options)

    run(flush=False)
    arrive(case, range(count // 2, count))
    run(flush=True)
    case.check(spark)


@pytest.mark.variant
def test_a_chain_that_is_killed_again_and_again_gives_each_answer_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    """All queries run side by side, until the process is killed at any moment, with its JVM or without."""
    rounds, rng = 4, Random(8)
    batches = random_batches(seed=33, count=2 * rounds, rows=25, keys=10)
    case = write_case(tmp_path, [TWICE, COUNTED], batches, derived=JOIN + DEEPER, arrived=0)
    request = Request(
        str(case.file), str(case.checkpoint), str(tmp_path / "spark.log"), available_now=False, flush=False
    )
    for number in range(rounds):
        arrive(case, range(2 * number, 2 * number + 2))
        process = subprocess.Popen(
            request.command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "started\n", process.communicate()[1]
            for _ in range(rng.randint(0, 3)):
                process.stdout.readline()  # a batch of some query
            time.sleep(rng.uniform(0, 6))
            victims = [process.pid, jvm(process.pid)] if number % 2 else [jvm(process.pid)]
            assert all(victim is not None and kill(victim) for victim in victims)
        finally:
            process.kill()
            process.communicate(timeout=120)
    Session(spark).run(case.file, checkpoint=case.checkpoint, options=TO_THE_END)
    case.check(spark)

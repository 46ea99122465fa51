"""Streams of answers through Spark: each answer once from end to end, in one run or in many."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from tests.spark.pipelines import arrive, random_batches, write_case
from watersmeet.session import Session
from watersmeet.spark.jobs.job import RunOptions

ONCE = RunOptions(available_now=True)
TO_THE_END = RunOptions(available_now=True, flush=True)

CHAIN = """
CREATE STREAM j AS SELECT a.k, a.v AS w, b.v AS x, a.ts AS at
FROM s1 [RANGE 4 SECONDS] AS a, s2 [RANGE 3 SECONDS] AS b WHERE a.k = b.k AND a.v <> b.v;
CREATE VIEW small AS SELECT k, w, answer_time FROM j WHERE w < 5;
CREATE STREAM jj AS SELECT l.k, l.w, c.v AS y
FROM small [RANGE 3 SECONDS] AS l LEFT JOIN s3 [RANGE 2 SECONDS] AS c ON l.k = c.k AND l.w = c.v;
"""
SELECTS = [
    "SELECT p.k, p.w, q.x, q.at, s.v, answer_time FROM j [RANGE 2 SECONDS] AS p, j [RANGE 2 SECONDS] AS q, "
    "s3 [RANGE 1 SECOND] AS s WHERE p.k = q.k AND q.k = s.k AND p.w < q.x",
    "SELECT r.k, r.w, r.y, s.v, r.answer_time AS rt "
    "FROM jj [ROWS 30] AS r, s2 [RANGE 4 SECONDS] AS s WHERE r.k = s.k",
]


def test_a_chain_is_stopped_and_resumed_with_each_answer_once(spark: SparkSession, tmp_path: Path) -> None:
    case = write_case(tmp_path, SELECTS, random_batches(seed=31, count=4), derived=CHAIN, arrived=2)

    def run(options: RunOptions) -> None:
        Session(spark).run(case.file, checkpoint=case.checkpoint, options=options)

    run(ONCE)
    arrive(case, range(2, 4))
    run(TO_THE_END)
    case.check(spark)

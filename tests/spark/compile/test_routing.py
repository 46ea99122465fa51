"""However a query is routed, its answers are the oracle's."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.pipelines import arrive, random_batches, write_case
from watersmeet import Session
from watersmeet.errors import ConfigurationError, QueryError
from watersmeet.oracle.oracle import Tuple
from watersmeet.plan.routing import Pipeline
from watersmeet.spark.jobs.job import RunOptions
from watersmeet.spark.metrics.progress import observed_metrics

A, B, C = "s1 [RANGE 4 SECONDS]", "s2 [RANGE 3 SECONDS]", "s3 [RANGE 5 SECONDS]"
QUERIES = [
    f"SELECT a.v AS va, b.v AS vb, c.k AS kc, answer_time FROM {A} AS a, {B} AS b, {C} AS c "
    "WHERE a.k = b.k AND b.v = c.v AND a.v > 1 AND a.v + c.k > 3",
    # bushy: the two pairs meet on a third attribute
    f"SELECT a.v AS va, d.v AS vd FROM {A} AS a, {B} AS b, {C} AS c, s1 [RANGE 2 SECONDS] AS d "
    "WHERE a.k = b.k AND b.v = c.v AND c.k = d.k AND d.v < 3 AND a.v < 8",
    f"SELECT a.k, c.v FROM {A} AS a, {B} AS b, {C} AS c WHERE a.k = b.k AND b.v = c.v AND c.k = a.v",
]


def test_a_pipeline_gives_the_oracles_answers_and_goes_on_after_a_stop(
    spark: SparkSession, tmp_path: Path
) -> None:
    case = write_case(tmp_path, QUERIES, random_batches(11, count=5), arrived=3)
    options = RunOptions(available_now=True, routing="pipeline")
    jobs = Session(spark).run(case.file, checkpoint=case.checkpoint, options=options).jobs
    levels = [job.plan.routing.dataflow.levels for job in jobs if isinstance(job.plan.routing, Pipeline)]
    assert len(levels) == len(QUERIES)
    assert min(levels) == 2
    arrive(case, [3, 4])
    # What was not asked for goes on as it was.
    Session(spark).run(case.file, checkpoint=case.checkpoint, options=RunOptions(available_now=True))
    case.check(spark, flush=False)


REWRITTEN = [
    # a chain whose query waits in the middle
    f"SELECT a.v AS va, b.v AS vb, d.v AS vd FROM {B} AS b, {A} AS a, {C} AS c, s1 [RANGE 2 SECONDS] AS d "
    "WHERE a.k = b.k AND b.v = c.v AND c.k = d.k AND d.v < 3 AND a.v < 8",
    f"SELECT a.k, b.v AS vb, c.k AS kc, answer_time FROM {A} AS a, {B} AS b, {C} AS c "
    "WHERE a.k = b.k AND a.v = c.v AND b.v + c.k > 3",
    f"SELECT a.k, c.v FROM {A} AS a, {B} AS b, {C} AS c WHERE a.k = b.k AND b.v = c.v AND c.k = a.v",
]


def test_rewriting_gives_the_oracles_answers_while_frequent_values_change(
    spark: SparkSession, tmp_path: Path
) -> None:
    batches = random_batches(21, count=5, keys=8)
    for number, batch in enumerate(batches):  # half of s2 has one k, half of s3 one v, others every batch
        for name, column in (("s2", "k"), ("s3", "v")):
            frequent = {column: (number + (name == "s3")) % 4}
            batch[name] = [
                Tuple(t.ts, {**t.values, **(frequent if n % 2 else {})}) for n, t in enumerate(batch[name])
            ]
    case = write_case(tmp_path, REWRITTEN, batches, arrived=3)
    options = RunOptions(available_now=True, routing="rewrite")
    jobs = Session(spark).run(case.file, checkpoint=case.checkpoint, options=options).jobs
    for job in jobs:
        told = [observed_metrics(report) for report in job.reports]
        went = {name: sum(each[name] for each in told) for name in told[0] if name.startswith("went_")}
        assert sum(count > 0 for count in went.values()) > 1, went
    with pytest.raises(ConfigurationError, match="rewritten step by step"):
        Session(spark).start(
            case.file, checkpoint=case.checkpoint, options=RunOptions(available_now=True, routing="pipeline")
        )
    arrive(case, [3, 4])
    resumed = Session(spark).run(
        case.file, checkpoint=case.checkpoint, options=RunOptions(available_now=True)
    )
    assert {job.plan.routing.name for job in resumed.jobs} == {"rewrite"}
    case.check(spark, flush=False)


def test_a_query_cannot_change_its_routing(spark: SparkSession, tmp_path: Path) -> None:
    # Spark's watermark begins in 1970, and the first of these batches before it.
    case = write_case(tmp_path, QUERIES[0], random_batches(12, count=2)[1:])
    options = RunOptions(available_now=True, routing="native")
    Session(spark).run(case.file, checkpoint=case.checkpoint, options=options)
    case.check(spark, flush=False)
    with pytest.raises(ConfigurationError, match="joins of Spark's own"):
        Session(spark).start(
            case.file, checkpoint=case.checkpoint, options=RunOptions(available_now=True, routing="shares")
        )


def test_a_pipeline_refuses_what_it_cannot_run(spark: SparkSession, tmp_path: Path) -> None:
    rows = "SELECT a.v FROM s1 [ROWS 10] AS a, s2 [RANGE 3 SECONDS] AS b WHERE a.k = b.k"
    case = write_case(tmp_path, rows, random_batches(12, count=1))
    with pytest.raises(QueryError, match="ROWS"):
        Session(spark).start(case.file, options=RunOptions(available_now=True, routing="pipeline"))

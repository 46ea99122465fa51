"""Random SQL through Spark: it takes what binding takes or says why not, and its answers are the oracle's."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.compile.differential import check
from tests.sql.random_sql import (
    JOIN,
    STREAMS,
    draw_batches,
    draw_condition,
    draw_expressions,
    draw_hostile,
    draw_query,
)
from watersmeet.errors import QueryError, WatersmeetError
from watersmeet.oracle import oracle
from watersmeet.plan.multiquery import Registered, plan_dataflow
from watersmeet.query import Query
from watersmeet.spark.multiquery.check import SparkCheck
from watersmeet.sql import bind_query

EXPRESSIONS = 14  # in one query, so that one run compares them all


def analysed(check_: SparkCheck, query: Query) -> bool:
    """Whether Spark takes a query; anything but that and a refusal of it fails the test."""
    try:
        tail = plan_dataflow([Registered("q", 0, query)], STREAMS, 3).tails[0]
    except WatersmeetError:
        return False  # not for a shared dataflow
    refusal = ""
    try:
        check_.answer_columns(query, "q", tail.conditions)
    except QueryError as error:
        refusal = str(error)
    assert not refusal or ("Spark refuses it: " in refusal and "Traceback" not in refusal)
    return not refusal


def test_spark_takes_right_queries_and_refuses_odd_ones_in_plain_words(
    spark: SparkSession, long_mode: bool
) -> None:
    random_, check_ = random.Random(7), SparkCheck(spark)
    count = 150 if long_mode else 6
    join = JOIN.format(window="RANGE 4 SECONDS")
    for written in draw_expressions(random_, count):
        assert analysed(check_, bind_query(f"SELECT {written.noisy} AS x {join}", STREAMS)), written
    tried = 0
    while tried < count:
        text, _ = draw_hostile(random_)
        try:
            query = bind_query(text, STREAMS)
        except WatersmeetError:
            continue
        tried += 1
        analysed(check_, query)


@pytest.mark.variant  # in process it is shown in tests/sql/test_random_sql.py
def test_the_values_of_random_expressions_are_the_oracles(
    spark: SparkSession, tmp_path: Path, long_mode: bool
) -> None:
    for seed in range(12 if long_mode else 1):
        random_ = random.Random(300 + seed)
        written = draw_expressions(random_, EXPRESSIONS)
        outputs = ", ".join(f"{each.noisy} AS x{number}" for number, each in enumerate(written))
        condition = draw_condition(random_).noisy
        sql = f"SELECT {outputs} {JOIN.format(window='TUMBLE 6 SECONDS')} AND {condition}"
        check(spark, tmp_path / str(seed), bind_query(sql, STREAMS), draw_batches(random_))


@pytest.mark.variant
def test_the_answers_of_random_queries_are_the_oracles(
    spark: SparkSession, tmp_path: Path, long_mode: bool
) -> None:
    random_, checked = random.Random(500), 0
    while checked < (24 if long_mode else 1):
        query, batches = bind_query(draw_query(random_).noisy, STREAMS), draw_batches(random_)
        if oracle.run(query, batches, flush=True).rows:
            check(spark, tmp_path / str(checked), query, batches, direct=checked % 2 == 0)
            checked += 1

"""Sums and means of distinct values: written so that Spark's streaming aggregation takes them."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.compile.differential import check
from watersmeet.errors import ConfigurationError
from watersmeet.oracle.oracle import Tuple
from watersmeet.query import Column, Stream
from watersmeet.spark.grouping.distinct_aggregates import without_distinct
from watersmeet.sql import bind_query

TYPES = {"a.n": "int", "a.x": "double", "a.price": "decimal(10,2)", "a.name": "string"}
COLUMNS = (
    Column("k", "bigint"),
    Column("n", "int"),
    Column("x", "double"),
    Column("price", "decimal(10,2)"),
    Column("ts", "timestamp"),
)
STREAMS = [Stream(name, COLUMNS, "ts") for name in ("s1", "s2")]


@pytest.mark.parametrize(
    ("written", "type_"),
    [
        ("sum(DISTINCT a.n)", "BIGINT"),
        ("sum(DISTINCT a.x)", "DOUBLE"),
        ("avg(DISTINCT a.n)", "DOUBLE"),
        ("sum(DISTINCT a.price)", "DECIMAL(20, 2)"),
        ("sum(DISTINCT CAST(a.name AS SMALLINT))", "BIGINT"),
    ],
)
def test_a_sum_has_the_type_that_spark_gives_it(written: str, type_: str) -> None:
    text = without_distinct(written, TYPES.get)
    assert "DISTINCT" not in text
    assert f"CAST(0 AS {type_})" in text


@pytest.mark.parametrize(
    "written", ["sum(DISTINCT a.name)", "sum(DISTINCT a.n + 1)", "avg(DISTINCT a.price)"]
)
def test_what_has_no_certain_type_is_refused_in_words(written: str) -> None:
    with pytest.raises(ConfigurationError, match="is not certain"):
        without_distinct(written, TYPES.get)


def test_other_aggregates_are_refused_in_words() -> None:
    with pytest.raises(ConfigurationError, match="can take COUNT, MIN, MAX, SUM and AVG"):
        without_distinct("stddev(DISTINCT a.n)", TYPES.get)


@pytest.mark.variant
def test_the_sums_are_the_oracles(spark: SparkSession, tmp_path: Path) -> None:
    query = bind_query(
        "SELECT a.k, sum(DISTINCT a.n) AS n, avg(DISTINCT b.n) AS mean, sum(DISTINCT b.price) AS price, "
        "sum(DISTINCT a.x) AS x, answer_time FROM s1 [RANGE 10 SECONDS] a, s2 [RANGE 10 SECONDS] b "
        "WHERE a.k = b.k GROUP BY a.k HAVING sum(DISTINCT b.n) > 2 EMIT EVERY 4 SECONDS",
        STREAMS,
    )
    values = [(n % 3, None if n % 7 == 0 else n % 5, n % 4 / 2, Decimal(n % 6) / 4) for n in range(60)]
    tuples = [
        Tuple(1_000_000 * number, {"k": k, "n": n, "x": x, "price": round(price, 2)})
        for number, (k, n, x, price) in enumerate(values)
    ]
    batches = [
        {"s1": tuples[start : start + 20 : 2], "s2": tuples[start + 1 : start + 20]} for start in (0, 20, 40)
    ]
    check(spark, tmp_path, query, batches)

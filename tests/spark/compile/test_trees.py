"""Trees of outer, semi and anti joins through Spark; the many run in process."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.compile.differential import check
from tests.strategies import answered_at_end
from tests.testing.outer_queries import condition, leaf, node, query, random_batches
from watersmeet.query import (
    Aggregate,
    Expr,
    JoinKind,
    JoinNode,
    Output,
    column_expr,
    last_of_each,
    rows,
    tumble_us,
)

pytestmark = pytest.mark.slow

A, B, C = map(leaf, "abc")
ON = condition("a.v + 1 < b.v OR b.v IS NULL", "a.v", "b.v")


def _tree(lower: JoinKind, upper: JoinKind, key: str = "k") -> JoinNode:
    return node(upper, node(lower, A, B, ("a.k", "b.k"), on=[ON]), C, (f"a.{key}", f"c.{key}"))


@pytest.mark.parametrize(
    ("tree", "direct"),
    [
        (_tree(JoinKind.LEFT, JoinKind.FULL), True),
        pytest.param(_tree(JoinKind.FULL, JoinKind.ANTI), False, marks=pytest.mark.variant),
        pytest.param(_tree(JoinKind.SEMI, JoinKind.LEFT), True, marks=pytest.mark.variant),
        pytest.param(_tree(JoinKind.ANTI, JoinKind.LEFT, "v"), False, marks=pytest.mark.variant),
    ],
)
def test_answers_are_the_oracles(tree: JoinNode, direct: bool, spark: SparkSession, tmp_path: Path) -> None:
    asked = query(tree, {"b": tumble_us(7)}, lateness_us=3)
    check(spark, tmp_path, asked, random_batches(asked, seed=1), direct=direct)


@pytest.mark.variant
@pytest.mark.parametrize("direct", [False, True])
def test_answers_of_stages_are_the_oracles(direct: bool, spark: SparkSession, tmp_path: Path) -> None:
    """What stops and is resumed is shown in tests/spark/jobs/test_tree_pipeline.py."""
    asked = query(_tree(JoinKind.FULL, JoinKind.FULL, "v"), {"b": tumble_us(7)}, lateness_us=3)
    check(spark, tmp_path, asked, random_batches(asked, seed=5), direct=direct, routing="pipeline")


@pytest.mark.variant
def test_answers_are_the_oracles_where_windows_count_rows(spark: SparkSession, tmp_path: Path) -> None:
    asked = query(_tree(JoinKind.LEFT, JoinKind.FULL), {"a": rows(4), "c": rows(3)}, lateness_us=3)
    check(spark, tmp_path, asked, random_batches(asked, seed=2))


@pytest.mark.variant
@pytest.mark.parametrize("at_end", [False, True])
def test_groups_of_answers_are_the_oracles(at_end: bool, spark: SparkSession, tmp_path: Path) -> None:
    asked = query(_tree(JoinKind.LEFT, JoinKind.LEFT), lateness_us=3)
    group = column_expr("b", "v", "bigint")
    count, tick = Expr("count(*)", type="bigint"), Expr("answer_time", uses_answer_time=True)
    select = (Output("v", group), Output("n", count), Output("tick", tick))
    grouped = replace(asked, select=select, aggregate=Aggregate((group,), 5))
    check(spark, tmp_path, answered_at_end(grouped) if at_end else grouped, random_batches(asked, seed=3))


@pytest.mark.variant
def test_distinct_answers_are_the_oracles(spark: SparkSession, tmp_path: Path) -> None:
    asked = query(_tree(JoinKind.LEFT, JoinKind.ANTI), lateness_us=3)
    asked = replace(asked, select=(Output("v", column_expr("b", "v", "bigint")),), distinct=True)
    check(spark, tmp_path, asked, random_batches(asked, seed=4))


@pytest.mark.variant
def test_answers_are_the_oracles_where_the_last_of_each_value_count(
    spark: SparkSession, tmp_path: Path
) -> None:
    windows = {"a": last_of_each(("k",), 2), "c": last_of_each(("v",))}
    asked = query(_tree(JoinKind.LEFT, JoinKind.FULL), windows, lateness_us=3)
    check(spark, tmp_path, asked, random_batches(asked, seed=6))

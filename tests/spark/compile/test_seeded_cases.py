"""A few random cases through Spark, by seeds that are known to have answers; the many run in process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.spark.compile.differential import check
from tests.testing.random_cases import draw_case
from watersmeet.plan.physical import plan_physical
from watersmeet.plan.routing.routing import Pipeline, Rewrite

pytestmark = pytest.mark.slow

# By seed of `tests/testing/random_cases.py`: what Spark itself does between the tasks differs in each.
ROWS = {28: "rows", 75: "numbered", 90: "distinct", 7: "aggregate"}
FURTHER = (28, 75, 90, 43)  # whose stages other tests run through Spark as well
FILES = {43: "files", 99: "files"}


def _seeds(cases: dict[int, str]) -> list[Any]:
    return [pytest.param(seed, marks=pytest.mark.variant) if seed in FURTHER else seed for seed in cases]


@pytest.mark.parametrize("seed", _seeds(ROWS))
def test_answers_are_the_oracles_where_spark_reads(seed: int, spark: SparkSession, tmp_path: Path) -> None:
    case = draw_case(seed)
    assert case.variant == ROWS[seed]
    check(spark, tmp_path, case.query, case.batches)


@pytest.mark.parametrize("seed", _seeds(FILES))
def test_answers_are_the_oracles_where_files_are_read_directly(
    seed: int, spark: SparkSession, tmp_path: Path
) -> None:
    case = draw_case(seed)
    assert case.variant == FILES[seed]
    check(spark, tmp_path, case.query, case.batches, direct=True)


@pytest.mark.parametrize(
    ("routing", "variant", "seed"),
    [("pipeline", "aggregate", 41), ("rewrite", "distinct", 11)],
)
@pytest.mark.variant  # tests/spark/multiquery/test_tails.py has tails behind levels
def test_answers_are_the_oracles_behind_several_levels(
    routing: str, variant: str, seed: int, spark: SparkSession, tmp_path: Path
) -> None:
    case = draw_case(seed, variant=variant)
    routed = plan_physical(case.query, 2, routing=routing).routing
    assert isinstance(routed, Pipeline | Rewrite)
    assert routed.dataflow.levels > 1
    check(spark, tmp_path, case.query, case.batches[:3], routing=routing)


@pytest.mark.variant  # its stages run through Spark in other tests, what they do is tested in process
@pytest.mark.parametrize("seed", [26, 1], ids=["rows", "blobs"])
def test_values_of_answers_that_end_later_are_the_oracles(
    seed: int, spark: SparkSession, tmp_path: Path
) -> None:
    case = draw_case(seed, variant="numbered distinct")
    check(spark, tmp_path, case.query, case.batches[:3])

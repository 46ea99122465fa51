"""Orders that nobody has paid: the answers of the example, in process, and through Spark with `--long`."""

from __future__ import annotations

import shutil
from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.examples.test_as_of import tuples_of
from tests.paths import EXAMPLES
from watersmeet.plan.explain import explain
from watersmeet.plan.statistics.statistics import Statistics
from watersmeet.session import Session
from watersmeet.spark.jobs.job import RunOptions
from watersmeet.sql import parse_pipeline
from watersmeet.testing import run_query

EXAMPLE = EXAMPLES / "unpaid_orders"
TEXT = (EXAMPLE / "pipeline.sql").read_text()
EXPECTED = [(2, "Bob", Decimal("20.00")), (4, "Ada", Decimal("40.00"))]


@pytest.mark.parametrize("partitions", [1, 4])
def test_orders_that_nobody_has_paid_within_an_hour(partitions: int) -> None:
    result = run_query(TEXT, [tuples_of(EXAMPLE)], partitions=partitions, flush=True)
    assert sorted(row[:3] for row in result.answers) == EXPECTED
    assert result.matches_oracle()


def test_an_order_is_answered_as_soon_as_its_hour_is_over() -> None:
    """The watermark is at 12:59:55, five seconds behind the last order: order 5 is not decided yet."""
    arrived = tuples_of(EXAMPLE)
    arrived["payments"][-1]["order_id"] = 6
    early = run_query(TEXT, [arrived, {}])
    late = run_query(TEXT, [arrived, {}], flush=True)
    assert sorted(row[0] for row in early.answers) == [2, 4]
    assert sorted(row[0] for row in late.answers) == [2, 4, 5]


def test_the_page_says_what_explain_says() -> None:
    [query] = parse_pipeline(TEXT).queries
    said = explain(query, Statistics()).notes[-1]
    assert f"    {said}\n" in (EXAMPLE / "README.md").read_text()


@pytest.mark.variant
def test_so_it_is_through_spark(spark: SparkSession, tmp_path: Path) -> None:
    shutil.copytree(EXAMPLE, tmp_path / "example")
    options = RunOptions(available_now=True, flush=True)
    Session(spark).start(tmp_path / "example" / "pipeline.sql", options=options).follow()
    found = spark.read.parquet(str(tmp_path / "example" / "out")).collect()
    assert sorted(tuple(row)[:3] for row in found) == EXPECTED

"""`EMIT AT END` through Spark: its own aggregation closes each window once."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.compile.differential import check
from tests.testing.test_emit_at_end import drawn


@pytest.mark.variant
@pytest.mark.parametrize("seed", [0, 3])
def test_answers_are_the_oracles(seed: int, spark: SparkSession, tmp_path: Path) -> None:
    case = drawn(seed)
    check(spark, tmp_path, case.query, case.batches)

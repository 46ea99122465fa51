"""Random queries and streams through Spark give exactly the oracle's answers."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from pyspark.sql import SparkSession

from tests.spark.differential import check
from tests.strategies import ALL_WINDOWS, TIME_WINDOWS, cases
from watersmeet.oracle import MicroBatch
from watersmeet.query import Query

FEW = settings(
    max_examples=4,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.mark.parametrize("kind", ["plain", "distinct", "aggregate"])
def test_answers_equal_the_oracles(
    kind: str, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> None:
    windows = ALL_WINDOWS if kind == "plain" else TIME_WINDOWS

    @given(cases(kinds=(kind,), windows=windows, key_expressions=True))
    @FEW
    def holds(case: tuple[Query, list[MicroBatch]]) -> None:
        folder: Path = tmp_path_factory.mktemp("case")
        check(spark, folder, *case)

    holds()

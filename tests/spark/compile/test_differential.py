"""Random queries and streams through Spark give exactly the oracle's answers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from pyspark.sql import SparkSession

from tests.spark.compile.differential import check
from tests.strategies import ALL_WINDOWS, TIME_WINDOWS, cases
from watersmeet.oracle.oracle import MicroBatch
from watersmeet.query import Query


@pytest.mark.parametrize("kind", ["plain", "distinct", "aggregate"])
def test_answers_equal_the_oracles(
    kind: str,
    spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
    examples: Callable[[int], settings],
) -> None:
    windows = ALL_WINDOWS if kind == "plain" else TIME_WINDOWS
    # A case takes seconds, so a failing one is not shrunk here but in the kernel's own property tests.
    drawn = settings(examples(1), phases=[Phase.explicit, Phase.generate])

    @given(cases(kinds=(kind,), windows=windows, key_expressions=True))
    @drawn
    def holds(case: tuple[Query, list[MicroBatch]]) -> None:
        folder: Path = tmp_path_factory.mktemp("case")
        check(spark, folder, *case)

    holds()

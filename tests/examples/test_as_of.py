"""The examples of as-of joins: their answers, in process, and through Spark with `--long`."""

from __future__ import annotations

import json
import shutil
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.paths import EXAMPLES
from watersmeet.session import Session
from watersmeet.spark.jobs.job import RunOptions
from watersmeet.testing import run_query

EXPECTED = {
    "changelog": [
        (1, Decimal("10.00"), "Ada", "basic"),
        (2, Decimal("20.00"), "Bob", "basic"),
        (3, Decimal("30.00"), "Ada", "gold"),
        (6, Decimal("60.00"), "Ada", "gold"),
    ],
    "prices_as_of": [
        ("a", "phone", "jam", Decimal("5.00")),
        ("a", "phone", "tea", Decimal("3.00")),
        ("b", "laptop", "tea", Decimal("3.50")),
        ("c", "laptop", "tea", Decimal("3.50")),
    ],
}


def tuples_of(example: Path) -> dict[str, list[dict[str, Any]]]:
    """The tuples of an example by stream, amounts as they are written."""
    return {
        folder.name: [
            json.loads(line, parse_float=Decimal)
            for file in sorted(folder.glob("*.json"))
            for line in file.read_text().splitlines()
        ]
        for folder in (example / "data").iterdir()
    }


@pytest.mark.parametrize("name", EXPECTED)
@pytest.mark.parametrize("partitions", [1, 4])
def test_each_tuple_meets_the_version_of_its_time(name: str, partitions: int) -> None:
    example = EXAMPLES / name
    text = (example / "pipeline.sql").read_text()
    result = run_query(text, [tuples_of(example)], partitions=partitions, flush=True)
    assert sorted(row[:4] for row in result.answers) == EXPECTED[name]
    assert result.matches_oracle()


@pytest.mark.variant
@pytest.mark.parametrize("name", EXPECTED)
def test_so_it_does_through_spark(name: str, spark: SparkSession, tmp_path: Path) -> None:
    shutil.copytree(EXAMPLES / name, tmp_path / name)
    options = RunOptions(available_now=True, flush=True)
    Session(spark).start(tmp_path / name / "pipeline.sql", options=options).follow()
    found = spark.read.parquet(str(tmp_path / name / "out")).collect()
    assert sorted(tuple(row)[:4] for row in found) == EXPECTED[name]

"""A join by conditions on event times, through Spark; a checkpoint without derived windows stays so."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.pipelines import arrive, random_batches, write_case
from watersmeet.session import Session
from watersmeet.spark.jobs.job import RunOptions

ONCE = RunOptions(available_now=True, flush=False)
SELECT = (
    "SELECT a.k, a.v AS va, b.v AS vb FROM s1 {} AS a, s2 {} AS b "
    "WHERE a.k = b.k AND b.ts BETWEEN a.ts - INTERVAL '2' SECOND AND a.ts + INTERVAL 1500 MILLISECONDS"
)


@pytest.mark.parametrize("began_with", ["", pytest.param("[UNBOUNDED]", marks=pytest.mark.variant)])
def test_it_is_resumed_with_the_windows_it_was_started_with(
    spark: SparkSession, tmp_path: Path, began_with: str
) -> None:
    batches = random_batches(seed=61, count=4, streams=("s1", "s2"))
    case = write_case(tmp_path, SELECT.format("", ""), batches, arrived=0)
    written = case.file.read_text()
    case.file.write_text(written.replace(SELECT.format("", ""), SELECT.format(began_with, began_with)))
    warned: list[str] = []

    def run() -> list[bool]:
        started = Session(spark).start(
            case.file,
            checkpoint=case.checkpoint,
            options=ONCE,
            on_warning=lambda query, warning: warned.append(warning),
        )
        started.follow()
        return [item.is_derived for item in started.jobs[0].plan.query.inputs]

    arrive(case, range(2))
    assert run() == [not began_with] * 2
    case.file.write_text(written)
    arrive(case, range(2, 4))
    assert run() == [not began_with] * 2
    case.check(spark)
    assert len(warned) == (2 if began_with else 0)

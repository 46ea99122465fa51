"""A backlog is worked off in bounded batches, evenly in event time, with the oracle's answers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.pipelines import BATCH_S, QUERIES, SECOND_US, random_batches, write_case
from watersmeet.session import Session
from watersmeet.spark.jobs.job import Job, RunOptions
from watersmeet.spark.metrics.progress import Progress
from watersmeet.spark.sources.batch_limits import SETTING

pytestmark = pytest.mark.spark

ROWS, FILES, GAP = 30, 15, 6  # the third stream begins that many files after the others
ROW_BYTES = 24


@pytest.fixture
def small_batches(spark: SparkSession) -> Iterator[None]:
    """A batch of three streams has about one file of each."""
    spark.conf.set(SETTING, str(3 * ROWS * ROW_BYTES))
    yield
    spark.conf.unset(SETTING)


@pytest.mark.usefixtures("small_batches")
def test_a_backlog_is_read_in_small_batches_and_no_stream_runs_ahead(
    spark: SparkSession, tmp_path: Path
) -> None:
    batches = random_batches(3, FILES, ROWS)
    for early in batches[:GAP]:
        early["s3"] = []
    case = write_case(tmp_path, QUERIES["plain"], batches)
    case.file.write_text(case.file.read_text().replace(", 'option.maxFilesPerTrigger' = '1'", ""))
    for number in range(GAP):
        (tmp_path / "s3" / f"{number:04}.parquet").unlink()
    seen: list[Progress] = []

    def follow(_: Job, progress: Progress) -> None:
        seen.append(progress)

    options = RunOptions(available_now=True, flush=True)
    Session(spark).run(case.file, checkpoint=case.checkpoint, options=options, on_progress=follow)

    case.check(spark)
    assert len(seen) > FILES / 2
    assert max(progress.rows for progress in seen) <= 3 * 3 * ROWS
    assert not any(progress.late for progress in seen)
    reached = [{item.alias: item.max_ts_us or 0 for item in progress.inputs} for progress in seen]
    gap_us = GAP * BATCH_S * SECOND_US
    together = [times for times in reached if times["a"] > 1.1 * gap_us]
    assert len(together) > 3
    assert max(times["c"] - times["a"] for times in together) < 0.7 * gap_us  # the others have come there

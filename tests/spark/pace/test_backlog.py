"""A backlog is worked off in bounded batches, evenly in event time, with the oracle's answers."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.kafka.broker import Broker
from tests.spark.multiquery.test_shared_dataflow import QUERIES as MANY
from tests.spark.multiquery.test_shared_dataflow import dataflow_job
from tests.spark.pipelines import BATCH_S, QUERIES, SECOND_US, Case, random_batches, write_case
from watersmeet.query import NEVER
from watersmeet.session import Session
from watersmeet.spark.jobs.job import RunOptions
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


def write_backlog(folder: Path, select: str) -> Case:
    """Three streams of files, of which the third begins later than the others."""
    batches = random_batches(3, FILES, ROWS)
    for early in batches[:GAP]:
        early["s3"] = []
    case = write_case(folder, select, batches)
    case.file.write_text(case.file.read_text().replace(", 'option.maxFilesPerTrigger' = '1'", ""))
    for number in range(GAP):
        (folder / "s3" / f"{number:04}.parquet").unlink()
    return case


def check_evenness(seen: Sequence[Progress], first: str, later: str, gap_us: int) -> None:
    """The stream that begins later has waited, and then goes on beside the other."""
    batches = [{item.alias: item for item in progress.inputs} for progress in seen]
    assert any(batch[first].rows and not batch[later].rows for batch in batches)
    reached = [(batch[first].max_ts_us or 0, batch[later].max_ts_us or 0) for batch in batches]
    begin = reached[0][0]
    together = [later - first for first, later in reached if first > begin + 1.1 * gap_us]
    assert len(together) > 3
    assert max(together) < 0.7 * gap_us


@pytest.mark.usefixtures("small_batches")
def test_a_backlog_is_read_in_small_batches_and_no_stream_runs_ahead(
    spark: SparkSession, tmp_path: Path
) -> None:
    case = write_backlog(tmp_path, QUERIES["plain"])
    seen: list[Progress] = []
    Session(spark).run(
        case.file,
        checkpoint=case.checkpoint,
        options=RunOptions(available_now=True, flush=True),
        on_progress=lambda _, progress: seen.append(progress),
    )
    case.check(spark)
    assert len(seen) > FILES / 2
    assert max(progress.rows for progress in seen) <= 3 * 3 * ROWS
    assert not any(progress.late for progress in seen)
    check_evenness(seen, "a", "c", GAP * BATCH_S * SECOND_US)


@pytest.mark.variant
@pytest.mark.usefixtures("small_batches")
def test_so_is_that_of_a_shared_dataflow(spark: SparkSession, tmp_path: Path) -> None:
    case = write_backlog(tmp_path, MANY["same"])
    job = dataflow_job(spark, case, {"same": (MANY["same"], 0, NEVER)})
    seen: list[Progress] = []
    job.start()
    while job.is_running():
        seen += job.poll()
        time.sleep(0.1)
    seen += job.poll()
    assert seen[-1].totals.rows == ROWS * (3 * FILES - GAP)
    check_evenness(seen, "s1", "s3", GAP * BATCH_S * SECOND_US)


def run_two(spark: SparkSession, folder: Path, declared: Sequence[str]) -> list[Progress]:
    """Streams `one`, 2000 tuples at 100 a second, and `two`, of which the first thousand are missing."""
    file = folder / "pipeline.sql"
    query = "SELECT a.k FROM one [RANGE 1 SECOND] AS a, two [RANGE 1 SECOND] AS b WHERE a.k = b.k"
    file.write_text(
        "\n".join([*declared, "CREATE SINK out WITH (format = 'noop');", f"INSERT INTO out {query};"])
    )
    seen: list[Progress] = []
    Session(spark).run(
        file,
        checkpoint=folder / "checkpoint",
        options=RunOptions(available_now=True),
        on_progress=lambda _, progress: seen.append(progress),
    )
    assert seen[-1].totals.rows == 3000
    assert seen[-1].totals.late == 0
    assert len(seen) > 10
    return seen


@pytest.fixture
def batches_of_rows(spark: SparkSession) -> Iterator[None]:
    """A batch of two streams has at most a hundred tuples of each."""
    spark.conf.set(SETTING, str(2 * 100 * 32))
    yield
    spark.conf.unset(SETTING)


@pytest.mark.variant
@pytest.mark.usefixtures("batches_of_rows")
def test_so_is_that_of_generated_tuples(spark: SparkSession, tmp_path: Path) -> None:
    declared = [
        f"CREATE STREAM {name} (k BIGINT, ts TIMESTAMP) WITH (format = 'watersmeet-generator', "
        f"event_time = 'ts', rate = '100', keys = '50', rows = '{rows}', start = '2025-01-01 00:00:{start}');"
        for name, rows, start in (("one", 2000, "00"), ("two", 1000, "10"))
    ]
    check_evenness(run_two(spark, tmp_path, declared), "a", "b", 10 * SECOND_US)


@pytest.mark.variant
@pytest.mark.connectors
@pytest.mark.usefixtures("batches_of_rows")
def test_so_is_that_of_topics(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    declared = []
    for name, first in (("one", 0), ("two", 1000)):
        messages = spark.range(first, 2000, 1, 1).selectExpr(
            "'one partition' AS key",
            "to_json(struct(id % 50 AS k, timestamp_millis(id * 10) AS ts)) AS value",
        )
        to = {"kafka.bootstrap.servers": broker.bootstrap, "topic": f"backlog-{name}"}
        messages.write.format("kafka").options(**to).save()
        declared.append(
            f"CREATE STREAM {name} (k BIGINT, ts TIMESTAMP) WITH (format = 'kafka', event_time = 'ts', "
            f"bootstrap = '{broker.bootstrap}', topic = 'backlog-{name}', startingOffsets = 'earliest');"
        )
    check_evenness(run_two(spark, tmp_path, declared), "a", "b", 10 * SECOND_US)

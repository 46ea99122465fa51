"""A link that is cut, and healed: its sender tries again, and each answer comes once."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.sites.test_run_site import follow_all
from tests.sites.two_sites import PLAN, SITES, assert_answers, write_pipeline, write_tuples
from tests.spark.kafka.broker import Broker
from watersmeet.session import Session
from watersmeet.sites.run_site import SiteRequest, start_site
from watersmeet.spark.jobs.job import RunOptions
from watersmeet.spark.jobs.pipeline_run import PipelineRun

pytestmark = [pytest.mark.spark, pytest.mark.variant]

DEADLINE_S = 240.0
LINK = """CREATE LINK paris TO oslo WITH (format = 'kafka', bootstrap = '{bootstrap}', topic = 'cut',
  'kafka.max.block.ms' = '4000', 'kafka.request.timeout.ms' = '2000', 'kafka.delivery.timeout.ms' = '4000',
  'kafka.linger.ms' = '0');
"""


def follow(runs: list[PipelineRun], until: Callable[[], bool]) -> None:
    """Follows runs side by side until something has happened; none of them may fail for good."""
    deadline = time.monotonic() + DEADLINE_S
    while not until():
        assert time.monotonic() < deadline, "it has not happened"
        for run in runs:
            rounds = iter((False, True))
            run.follow(until=lambda rounds=rounds: next(rounds))  # type: ignore[misc]
            assert not run.failures


def is_cut(run: PipelineRun) -> bool:
    (job,) = run.jobs
    return any("cannot be written" in str(setback) for setback in job.setbacks)


def cut_and_heal(
    spark: SparkSession, file: Path, cut: Callable[[], object], heal: Callable[[], object]
) -> None:
    """Both sites run while the link is cut under paris, and healed once it has noticed; then all ends."""
    session = Session(spark)
    requests = [SiteRequest(file=file, site=site, plan=PLAN) for site in SITES.values()]
    runs = [start_site(session, request, RunOptions()) for request in requests]
    try:
        for run in runs:
            run.jobs[0]._query.processAllAvailable()  # type: ignore[union-attr]
        cut()
        try:
            write_tuples(file.parent, 1)
            follow(runs, lambda: is_cut(runs[0]))
        finally:
            heal()
        write_tuples(file.parent, 2)
        before = runs[1].jobs[0].progress
        answers = before.totals.answers if before else 0
        follow(runs, lambda: (p := runs[1].jobs[0].progress) is not None and p.totals.answers > answers)
    finally:
        for run in runs:
            run.stop()
    finite = RunOptions(available_now=True, flush=True)
    follow_all([start_site(session, request, finite) for request in requests])
    assert_answers(file.parent)


def test_a_folder_that_cannot_be_written_for_a_while(spark: SparkSession, tmp_path: Path) -> None:
    file = write_pipeline(tmp_path)
    folder = tmp_path / ".watersmeet" / "pipeline" / "links" / "out" / "paris-to-oslo"
    folder.mkdir(parents=True)
    if subprocess.run(["mount", "--bind", folder, folder], check=False, capture_output=True).returncode:
        pytest.skip("this user may not mount")
    try:
        cut_and_heal(
            spark,
            file,
            lambda: subprocess.run(["mount", "-o", "remount,ro,bind", folder], check=True),
            lambda: subprocess.run(["mount", "-o", "remount,rw,bind", folder], check=True),
        )
    finally:
        subprocess.run(["umount", folder], check=True)


@pytest.mark.connectors
def test_a_broker_that_is_stopped_for_a_while(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    file = write_pipeline(tmp_path, LINK.format(bootstrap=broker.bootstrap))
    cut_and_heal(spark, file, broker.stop, broker.start)

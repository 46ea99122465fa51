"""A slow link: a relay brings its files when it likes, in any order. Answers come late, and each once."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.sites.test_run_site import FINITE, follow_all
from tests.sites.two_sites import PLAN, assert_answers, write_pipeline, write_tuples
from watersmeet.cli.sites.show_sites import SiteReport, link_lines
from watersmeet.session import Session
from watersmeet.sites.run_site import SiteRequest, start_site
from watersmeet.spark.jobs.job import RunOptions
from watersmeet.spark.jobs.pipeline_run import PipelineRun

pytestmark = [pytest.mark.spark, pytest.mark.variant]

SLICES = 3
LINK = "CREATE LINK paris TO oslo WITH (format = 'parquet', path = '{path}');\n"


class Relay:
    """Carries files from the folder that paris writes to the one that oslo reads."""

    def __init__(self, folder: Path) -> None:
        self.sent, self.arrived = folder / "sent" / "out", folder / "arrived" / "out"
        self._carried: set[str] = set()

    @property
    def waiting(self) -> list[Path]:
        """Files on their way, in the order they were sent in."""
        return sorted(
            (file for file in self.sent.glob("*.parquet") if file.name not in self._carried),
            key=lambda file: file.stat().st_mtime_ns,
        )

    def carry(self, file: Path) -> None:
        """A file arrives, as a whole."""
        self.arrived.mkdir(parents=True, exist_ok=True)
        draft = self.arrived / f".{file.name}.draft"
        shutil.copy(file, draft)
        draft.rename(self.arrived / file.name)
        self._carried.add(file.name)


def settle(run: PipelineRun) -> None:
    """Waits until a site has taken all that is there, and has reported it."""
    (job,) = run.jobs
    job._query.processAllAvailable()  # type: ignore[union-attr]
    rounds = iter((False, True))
    run.follow(until=lambda: next(rounds))


def waiting_between(paris: PipelineRun, oslo: PipelineRun) -> str:
    """What the screen says is on the link and not read yet."""
    reports = [SiteReport("paris"), SiteReport("oslo")]
    for report, run in zip(reports, (paris, oslo), strict=True):
        (progress,) = run.progress.values()
        report.note({"query": run.jobs[0].name, **progress.as_json()})
    (line,) = link_lines(reports)
    return line.waiting


def test_a_link_that_is_an_hour_behind(spark: SparkSession, tmp_path: Path) -> None:
    """Nothing is forgotten, and marks do not count before all that was sent ahead of them has arrived."""
    file, relay, session = write_pipeline(tmp_path, LINK.format(path="sent")), Relay(tmp_path), Session(spark)
    other = tmp_path / "pipeline-of-oslo.sql"
    other.write_text(file.read_text().replace("'sent'", "'arrived'"))
    shutil.copy(file.with_suffix(".stats.json"), other.with_suffix(".stats.json"))
    checkpoint = str(tmp_path / "checkpoint")
    at_paris = SiteRequest(file=file, site="paris", plan=PLAN, checkpoint=checkpoint)
    at_oslo = SiteRequest(file=other, site="oslo", plan=PLAN, checkpoint=checkpoint)
    paris, oslo = (start_site(session, request, RunOptions()) for request in (at_paris, at_oslo))
    try:
        for number in range(SLICES):
            write_tuples(tmp_path, number)
            for run in (paris, oslo):
                settle(run)
        assert (found := oslo.jobs[0].progress) is not None
        assert (found.totals.answers, found.state_rows) == (0, SLICES * 300), (
            "oslo keeps all it may be asked for"
        )
        assert waiting_between(paris, oslo) == "oslo has not read yet"
        first, *later = relay.waiting
        for ahead in reversed(later):
            relay.carry(ahead)
        settle(oslo)
        assert oslo.jobs[0].progress is not None
        assert oslo.jobs[0].progress.totals.answers > 100, "rows are joined as they come"
        assert waiting_between(paris, oslo) == "oslo has not read yet"
        relay.carry(first)
        settle(oslo)
        assert waiting_between(paris, oslo) == ""
        assert oslo.jobs[0].progress.state_rows < SLICES * 300, "what has expired is gone"
    finally:
        for run in (paris, oslo):
            run.stop()
    follow_all([start_site(session, at_paris, FINITE)])
    for last in relay.waiting:
        relay.carry(last)
    follow_all([start_site(session, at_oslo, FINITE)])
    assert_answers(tmp_path)

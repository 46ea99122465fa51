"""A query that is stopped has not come to the end of its input, whoever asks afterwards whether it runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from watersmeet.spark.jobs.job import Job, RunOptions
from watersmeet.spark.sources.read_sources import Sources


@dataclass
class FakeStreamingQuery:
    """A query of Spark that runs until it is stopped or told to end."""

    isActive: bool = True  # noqa: N815

    def exception(self) -> None: ...

    def stop(self) -> None:
        self.isActive = False


@dataclass
class FakeCheckpoint:
    """Writes down what it is told."""

    log: list[str] = field(default_factory=list)

    def end_input(self) -> None:
        self.log.append("end input")

    def mark_ended(self) -> None:
        self.log.append("mark ended")


@dataclass(kw_only=True)
class FakeJob(Job):
    """A job whose queries are no queries of Spark's."""

    stops_while_starting: bool = False

    def launch(self) -> Any:
        if self.stops_while_starting:
            self.stop()
        return FakeStreamingQuery()

    def _read_reports(self) -> None: ...


def new_job(checkpoint: FakeCheckpoint, *, waits_at_end: bool = True) -> FakeJob:
    rest: Any = dict.fromkeys(("spark", "sink", "base"))
    options = RunOptions(available_now=True, flush=True)
    found: Any = checkpoint
    plan: Any = SimpleNamespace(query=SimpleNamespace(waits_at_end=waits_at_end))
    return FakeJob(name="out", checkpoint=found, options=options, plan=plan, sources=Sources({}, {}), **rest)


def test_a_flush_that_has_nothing_to_let_out_is_no_second_run() -> None:
    checkpoint = FakeCheckpoint()
    job = new_job(checkpoint, waits_at_end=False)
    job.start()
    finish(job)
    assert not job.is_running()
    assert checkpoint.log == ["mark ended"]


def finish(job: FakeJob) -> None:
    query: Any = job._query
    query.isActive = False


def test_a_flush_ends_the_input_and_then_marks_it_ended() -> None:
    checkpoint = FakeCheckpoint()
    job = new_job(checkpoint)
    job.start()
    assert job.is_running()
    finish(job)
    assert job.is_running()
    assert checkpoint.log == ["end input"]
    finish(job)
    assert not job.is_running()
    assert checkpoint.log == ["end input", "mark ended"]


def test_the_input_of_a_job_that_is_stopped_is_not_ended() -> None:
    """As when its lease is lost: a thread stops it, and whoever follows it asks once more."""
    checkpoint = FakeCheckpoint()
    job = new_job(checkpoint)
    job.start()
    job.stop()
    assert not job.is_running()
    assert checkpoint.log == []


def test_the_input_of_a_job_that_is_stopped_at_its_end_is_not_marked_ended() -> None:
    """Answers that waited for the watermark are not out yet."""
    checkpoint = FakeCheckpoint()
    job = new_job(checkpoint)
    job.start()
    finish(job)
    assert job.is_running()
    job.stop()
    assert not job.is_running()
    assert checkpoint.log == ["end input"]


def test_a_job_that_is_stopped_while_it_starts_does_not_run() -> None:
    job = new_job(FakeCheckpoint())
    job.stops_while_starting = True
    job.start()
    assert not job.is_running()
    query: Any = job._query
    assert not query.isActive

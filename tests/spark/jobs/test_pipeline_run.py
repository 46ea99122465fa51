"""A run owns what one start has started: two runs of a session are followed and stopped apart."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from watersmeet.errors import WatersmeetError
from watersmeet.spark.jobs.pipeline_run import PipelineRun
from watersmeet.spark.metrics.progress import Progress


@dataclass
class FakeQuery:
    """A job, or the query of dead letters: runs until it has been polled so often."""

    name: str
    log: list[str] = field(default_factory=list)
    batches: int = 2
    progress: Progress | None = None
    fails: bool = False

    def start(self) -> None:
        if self.fails:
            raise WatersmeetError(f"{self.name} cannot start")
        self.log.append(f"start {self.name}")

    def is_running(self) -> bool:
        self.batches -= 1
        return self.batches >= 0

    def poll(self) -> list[Progress]:
        self.progress = Progress(batch_id=0, timestamp="2025-01-01T00:00:00Z", batch_ms=1)
        return [self.progress]

    def stop(self) -> None:
        self.log.append(f"stop {self.name}")


def new_run(jobs: list[FakeQuery], letters: list[FakeQuery]) -> PipelineRun:
    fakes: Any = (tuple(jobs), tuple(letters))
    return PipelineRun(*fakes, poll_s=0)


def test_stopping_a_run_stops_its_dead_letters_and_nobody_elses() -> None:
    log: list[str] = []
    first = new_run([FakeQuery("job 1", log)], [FakeQuery("letters 1", log)])
    second = new_run([FakeQuery("job 2", log)], [FakeQuery("letters 2", log)])
    first.start()
    second.start()
    # Dead letters start first: what is malformed for a job is then there for them.
    assert log == ["start letters 1", "start job 1", "start letters 2", "start job 2"]
    log.clear()
    first.stop()
    assert log == ["stop job 1", "stop letters 1"]


def test_a_run_that_cannot_start_leaves_nothing_running() -> None:
    log: list[str] = []
    run = new_run([FakeQuery("job", log), FakeQuery("bad", log, fails=True)], [FakeQuery("letters", log)])
    with pytest.raises(WatersmeetError, match="bad cannot start"):
        run.start()
    assert log == ["start letters", "start job", "stop job", "stop bad", "stop letters"]


def test_a_run_is_followed_until_the_last_of_its_queries_ends() -> None:
    short, long = FakeQuery("short", batches=1), FakeQuery("long", batches=4)
    reported: list[str] = []
    run = new_run([short, long], [FakeQuery("letters", batches=0)])
    run.follow(lambda job, progress: reported.append(job.name))
    assert reported == ["short", "long"] * 5  # once more after the end, for what came last
    assert set(run.progress) == {"short", "long"}


def test_a_run_is_followed_no_longer_than_the_caller_wants() -> None:
    run = new_run([FakeQuery("job", batches=1000)], [])
    run.follow(until=lambda: bool(run.progress))
    assert set(run.progress) == {"job"}

"""Queries and a lock without Spark behind them, for tests of runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from watersmeet.errors import ConfigurationError, WatersmeetError
from watersmeet.spark.jobs.pipeline_run import PipelineRun
from watersmeet.spark.metrics.progress import Progress


@dataclass
class FakeQuery:
    """A job, or the query of dead letters: runs until it has been asked so often, or fails then."""

    name: str
    log: list[str] = field(default_factory=list)
    batches: int = 2
    progress: Progress | None = None
    refusal: WatersmeetError | None = None  # at its start
    failure: WatersmeetError | None = None  # at its end
    setbacks: list[WatersmeetError] = field(default_factory=list)
    has_ended: bool = False
    settled: bool = True
    awaits: tuple[str, ...] = ()

    def start(self) -> None:
        if self.refusal is not None:
            raise self.refusal
        self.log.append(f"start {self.name}")

    def is_settled(self) -> bool:
        return self.settled

    def is_running(self) -> bool:
        self.batches -= 1
        return self.batches >= 0

    def poll(self) -> list[Progress]:
        if self.failure is not None and self.batches < 0:
            raise self.failure
        number = 0 if self.progress is None else self.progress.batch_id + 1
        self.progress = Progress(batch_id=number, timestamp="2025-01-01T00:00:00Z", batch_ms=1)
        return [self.progress]

    def take_warnings(self) -> list[str]:
        """Its batches bring nothing to light."""
        return []

    def conclude(self) -> list[str]:
        """Nor does its end."""
        return []

    def let_go(self) -> None:
        """Nothing waits here."""

    def stop(self) -> None:
        self.log.append(f"stop {self.name}")


@dataclass
class FakeLock:
    """The lock of a checkpoint."""

    log: list[str]
    lost: str = ""
    acts: list[Callable[[], None]] = field(default_factory=list)

    def check(self) -> None:
        if self.lost:
            raise ConfigurationError(self.lost)

    def when_lost(self, act: Callable[[], None]) -> None:
        self.acts.append(act)

    def release(self) -> None:
        self.log.append("unlock")


def new_run(jobs: list[FakeQuery], letters: list[FakeQuery], lock: FakeLock | None = None) -> PipelineRun:
    fakes: Any = {"jobs": tuple(jobs), "dead_letters": tuple(letters)}
    return PipelineRun(**fakes, lock=lock, poll_s=0, settle_s=0.01)

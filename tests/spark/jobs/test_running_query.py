"""A failure that passes by itself is tried again, a few times and apart; any other is raised."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from pyspark.errors import PySparkException

from watersmeet.errors import DataError, TransientError
from watersmeet.spark.jobs import running_query
from watersmeet.spark.jobs.retries import FIRST_PAUSE_S, RETRIES, Retries
from watersmeet.spark.jobs.running_query import RunningQuery

BUSY = RuntimeError("org.apache.spark.SparkException: Python worker failed to connect back.")
FULL = RuntimeError("java.io.IOException: No space left on device")
BOTH = RuntimeError("No space left on device\nCaused by: Python worker failed to connect back.")


@dataclass
class FakeStreamingQuery:
    """A query of Spark that has failed, or runs."""

    error: Exception | None

    @property
    def isActive(self) -> bool:  # noqa: N802
        return self.error is None

    def exception(self) -> Exception | None:
        return self.error

    def stop(self) -> None: ...


@dataclass(kw_only=True)
class Scripted(RunningQuery):
    """A query whose starts go as written: an exception that `launch` raises, or what its query fails with."""

    script: list[tuple[str, Exception | None]]
    starts: int = 0

    def launch(self) -> Any:
        where, error = self.script[min(self.starts, len(self.script) - 1)]
        self.starts += 1
        if where == "launch" and error is not None:
            raise error
        return FakeStreamingQuery(error)


@dataclass
class Clock:
    now: float = 0.0
    slept: list[float] = field(default_factory=list)

    def monotonic(self) -> float:
        return self.now

    def sleep(self, duration_s: float) -> None:
        self.slept.append(duration_s)
        self.now += duration_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(running_query, "time", clock)
    return clock


def follow(query: Scripted, clock: Clock) -> None:
    query.start()
    while query.is_running() and clock.now < 100:
        clock.now += 0.5
    query.check()


@pytest.mark.parametrize("where", ["launch", "query"])
def test_a_worker_that_did_not_start_in_time_is_waited_for(clock: Clock, where: str) -> None:
    query = Scripted(script=[(where, BUSY), (where, BUSY), ("query", None)])
    follow(query, clock)
    assert query.starts == 3
    assert query.is_running()
    assert [type(error) for error in query.setbacks] == [TransientError] * 2


@pytest.mark.parametrize("where", ["launch", "query"])
def test_a_failure_that_comes_back_is_not_passing(clock: Clock, where: str) -> None:
    query = Scripted(script=[(where, BUSY)])
    with pytest.raises((TransientError, RuntimeError), match=r"did not start in time|connect back"):
        follow(query, clock)
    assert query.starts == 1 + RETRIES
    assert FIRST_PAUSE_S * (2**RETRIES - 1) <= clock.now < 100


@pytest.mark.parametrize("error", [FULL, BOTH])
def test_any_other_failure_is_raised_at_once_even_beside_one_that_passes(
    clock: Clock, error: Exception
) -> None:
    query = Scripted(script=[("query", BUSY), ("query", error), ("query", None)])
    with pytest.raises(DataError, match="the disk is full"):
        follow(query, clock)
    assert query.starts == 2


def test_what_spark_refuses_at_a_start_is_said_in_words_and_our_own_mistakes_are_not_hidden(
    clock: Clock,
) -> None:
    refused = Scripted(script=[("launch", PySparkException("No space left on device"))])
    with pytest.raises(DataError, match="the disk is full"):
        refused.start()
    with pytest.raises(KeyError):
        Scripted(script=[("launch", KeyError("a bug"))]).start()


def test_a_query_that_is_stopped_is_not_started_again(clock: Clock) -> None:
    query = Scripted(script=[("query", BUSY), ("query", None)])
    query.start()
    assert query.is_running()
    query.stop()
    clock.now += 1000
    assert not query.is_running()
    assert query.starts == 1


def test_pauses_grow_and_differ_and_a_batch_that_ends_makes_up_for_failures() -> None:
    early, late = Retries(lambda: 0.0), Retries(lambda: 0.9)
    error = TransientError("busy")
    assert [early.pause_s(error) for _ in range(4)] == [2.0, 4.0, 8.0, None]
    assert late.pause_s(error) == pytest.approx(3.8)
    early.reset()
    assert early.pause_s(error) == 2.0
    assert early.pause_s(DataError("damaged")) is None

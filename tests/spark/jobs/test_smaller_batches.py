"""After a crash by memory a query takes less into a batch, in the same process and in the next one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from watersmeet.errors import MemoryShortageError
from watersmeet.spark.jobs import job as job_module
from watersmeet.spark.jobs import running_query
from watersmeet.spark.jobs.checkpoint import Checkpoint
from watersmeet.spark.jobs.job import SMALLEST_AFTER_KILL, Job, RunOptions
from watersmeet.spark.jobs.poll import PolledQuery
from watersmeet.spark.jobs.retries import RETRIES
from watersmeet.spark.session.block_size import session_tuning
from watersmeet.spark.sources.read_sources import Sources
from watersmeet.spark.tuning import DEFAULT

KILLED = RuntimeError("org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)")
BUSY = RuntimeError("org.apache.spark.SparkException: Python worker failed to connect back.")


@dataclass
class FakeStreamingQuery:
    """A query of Spark that has failed, or runs."""

    error: Exception | None = None
    lastProgress: Any = None  # noqa: N815

    @property
    def isActive(self) -> bool:  # noqa: N802
        return self.error is None

    def exception(self) -> Exception | None:
        return self.error

    def stop(self) -> None:
        """It has ended, or ends."""


PLAIN: Any = SimpleNamespace(
    conf=SimpleNamespace(get=lambda _, default: default)
)  # a session without settings


EVERYTHING = 1 << 40


def sources(smaller: int = 1) -> Sources:
    return Sources({}, {}, batch_bytes=1024 // smaller if smaller else EVERYTHING)


@dataclass(kw_only=True)
class Scripted(PolledQuery):
    """A query whose runs fail as written; `taken` are the sizes of batches and pieces at each start."""

    script: list[Exception | None]
    taken: list[tuple[int, int]] = field(default_factory=list)

    def launch(self) -> Any:
        self.taken.append((self.sources.batch_bytes, session_tuning(PLAIN, self._smaller).piece_bytes))
        return FakeStreamingQuery(self.script[min(len(self.taken) - 1, len(self.script) - 1)])


@pytest.fixture
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(0, 10**9, 1000))
    monkeypatch.setattr(running_query, "time", SimpleNamespace(monotonic=lambda: next(clock)))


def scripted(*script: Exception | None) -> Scripted:
    return Scripted(sources=sources(), read_smaller=sources, script=list(script))


@pytest.mark.usefixtures("_at_once")
def test_a_query_whose_worker_was_killed_goes_on_with_smaller_batches_and_pieces() -> None:
    query = scripted(KILLED, KILLED, None)
    query.start()
    while len(query.taken) < 3:
        assert query.is_running()
    assert query.taken == [(1024 >> n, DEFAULT.piece_bytes >> n) for n in range(3)]
    assert [type(error) for error in query.setbacks] == [MemoryShortageError] * 2
    assert query.is_running()


@pytest.mark.usefixtures("_at_once")
def test_other_failures_leave_batches_as_they_are() -> None:
    query = scripted(BUSY, None)
    query.start()
    while len(query.taken) < 2:
        assert query.is_running()
    assert query.taken == [(1024, DEFAULT.piece_bytes)] * 2


@pytest.mark.usefixtures("_at_once")
def test_memory_that_never_suffices_is_an_error_in_the_end() -> None:
    query = scripted(KILLED)
    query.start()
    while query.is_running():
        assert len(query.taken) < 100
    assert len(query.taken) == 1 + RETRIES
    with pytest.raises(MemoryShortageError, match="killed or out of memory"):
        query.check()


def new_job(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception | None = None,
    read_rest: Callable[[], Sources] | None = None,
) -> Job:
    """A job that has been started on a checkpoint, with nothing of Spark behind it."""
    fakes: Any = {
        "Compiler": lambda **_: SimpleNamespace(answers=lambda: None),
        "write_stream": lambda *_, **__: FakeStreamingQuery(error),
    }
    for name, fake in fakes.items():
        monkeypatch.setattr(job_module, name, fake)
    monkeypatch.setattr(Checkpoint, "control", lambda _: None)
    nothing: Any = None
    plan: Any = SimpleNamespace(query=SimpleNamespace(inputs=(), readings=()))
    job = Job(
        spark=nothing,
        name="q",
        plan=plan,
        sources=sources(),
        read_smaller=sources,
        read_rest=read_rest,
        sink=None,
        checkpoint=Checkpoint(nothing, str(folder)),
        base=folder,
        options=RunOptions(),
    )
    job._query = FakeStreamingQuery()
    job.start()
    return job


def test_a_run_after_one_that_was_killed_takes_less_until_one_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = [new_job(tmp_path, monkeypatch).sources.batch_bytes for _ in range(7)]  # each is killed
    assert taken == [1024, 512, 256, 128, 64, 64, 64]
    assert 1024 // SMALLEST_AFTER_KILL == 64
    new_job(tmp_path, monkeypatch).stop()
    assert new_job(tmp_path, monkeypatch).sources.batch_bytes == 1024


def test_a_run_that_failed_for_lack_of_memory_counts_as_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = new_job(tmp_path, monkeypatch, error=KILLED)
    job.stop()
    assert new_job(tmp_path, monkeypatch).sources.batch_bytes == 512


@pytest.mark.usefixtures("_at_once")
def test_at_the_end_of_the_input_all_that_is_left_stays_one_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its end is in the next batch, and what came after that would be late."""
    (tmp_path / "control").mkdir()
    (tmp_path / "control/end-1.txt").write_text("end\n")
    job = new_job(tmp_path, monkeypatch, error=KILLED, read_rest=lambda: sources(smaller=0))
    starts = [job.sources.batch_bytes]
    while job.is_running():
        starts.append(job.sources.batch_bytes)
    assert set(starts) == {EVERYTHING}
    assert job._smaller == 1 << RETRIES

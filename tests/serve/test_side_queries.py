"""Queries for dead letters fail by themselves: the dataflow beside them goes on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.serve.fake_engine import FakeEngine, FakeJob
from tests.serve.registry.dataflows import new_record
from tests.serve.serving import new_server
from watersmeet.errors import DataError, WatersmeetError
from watersmeet.serve.registry.changes import BoundDataflow
from watersmeet.serve.registry.folder import RegistryFolder
from watersmeet.serve.registry.record import write_record
from watersmeet.serve.registry.tail_files import TailWriter
from watersmeet.serve.spark_engine import SparkEngine
from watersmeet.spark.jobs.job import RunOptions
from watersmeet.spark.metrics.progress import Progress

pytestmark = pytest.mark.usefixtures("hurry")


class Lock:
    def check(self) -> None:
        """The checkpoint is ours."""


@dataclass
class Letters:
    """A query for dead letters; whoever asks it again after its failure asks in vain."""

    name: str
    failure: Exception | None = None
    asked: int = 0
    rounds: int = 0  # in which it still runs

    def poll(self) -> None:
        self.asked += 1
        if self.failure is not None:
            raise self.failure

    def is_running(self) -> bool:
        self.rounds -= 1
        return self.rounds >= 0


def new_engine(folder: Path, letters: list[Letters], *, available_now: bool = False) -> SparkEngine:
    tails: Any = TailWriter(RegistryFolder(folder))
    lock: Any = Lock()
    asked: Any = letters
    options = RunOptions(available_now=available_now)
    return SparkEngine(None, new_record(folder), tails, options, lock, asked)  # type: ignore[arg-type]


def test_dead_letters_that_fail_are_reported_and_the_others_followed(tmp_path: Path) -> None:
    bad, good = Letters("dead-letters-a", DataError("Kafka does not answer")), Letters("dead-letters-b")
    engine = new_engine(tmp_path, [bad, good])
    for _ in range(3):
        failures = engine.check_side_queries()
        assert {name: str(error) for name, error in failures.items()} == {
            "dead-letters-a": "Kafka does not answer"
        }
    assert (bad.asked, good.asked) == (1, 3)


def test_what_ends_by_itself_waits_for_its_dead_letters_and_says_if_they_have_failed(tmp_path: Path) -> None:
    """The dataflow has read everything before those beside it have."""
    folder = RegistryFolder(tmp_path)
    write_record(folder, new_record(tmp_path))
    slow, bad = Letters("dead-letters-a", rounds=3), Letters("dead-letters-b", DataError("no such topic"))
    beside = new_engine(tmp_path, [slow, bad], available_now=True)
    engine = EndedEngine(others=beside)
    server = new_server(folder, engine)
    server.serve(until=lambda: False)
    assert slow.rounds == -1
    assert {name: str(error) for name, error in server.side_failures.items()} == {
        "dead-letters-b": "no such topic"
    }


@dataclass
class EndedEngine(FakeEngine):
    """A dataflow that has nothing left to read, beside others."""

    others: SparkEngine | None = None

    def job(self, current: BoundDataflow, before: Progress | None) -> FakeJob:
        job = super().job(current, before)
        job.start = lambda: None  # type: ignore[method-assign]
        return job

    def check_side_queries(self) -> Mapping[str, WatersmeetError]:
        assert self.others is not None
        return self.others.check_side_queries()

    def side_queries_run(self) -> bool:
        assert self.others is not None
        return self.others.side_queries_run()

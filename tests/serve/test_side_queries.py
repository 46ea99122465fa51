"""Queries for dead letters fail by themselves: the dataflow beside them goes on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.serve.registry.dataflows import new_record
from watersmeet.errors import DataError
from watersmeet.serve.registry.folder import RegistryFolder
from watersmeet.serve.registry.tail_files import TailWriter
from watersmeet.serve.spark_engine import SparkEngine
from watersmeet.spark.jobs.job import RunOptions


class Lock:
    def check(self) -> None:
        """The checkpoint is ours."""


@dataclass
class Letters:
    """A query for dead letters; whoever asks it again after its failure asks in vain."""

    name: str
    failure: Exception | None = None
    asked: int = 0

    def poll(self) -> None:
        self.asked += 1
        if self.failure is not None:
            raise self.failure


def test_dead_letters_that_fail_are_reported_and_the_others_followed(tmp_path: Path) -> None:
    bad, good = Letters("dead-letters-a", DataError("Kafka does not answer")), Letters("dead-letters-b")
    folder: Any = RegistryFolder(tmp_path)
    lock: Any = Lock()
    engine = SparkEngine(
        None,  # type: ignore[arg-type]
        new_record(tmp_path),
        TailWriter(folder),
        RunOptions(),
        lock,
        [bad, good],  # type: ignore[list-item]
    )
    for _ in range(3):
        failures = engine.check_side_queries()
        assert {name: str(error) for name, error in failures.items()} == {
            "dead-letters-a": "Kafka does not answer"
        }
    assert (bad.asked, good.asked) == (1, 3)

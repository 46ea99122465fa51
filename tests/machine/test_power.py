"""The machine finds what Spark must not do: each mistake in its order of steps shows as a wrong answer."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest

from tests.machine.machine import run_schedule
from tests.machine.sinks import Answer, KafkaModel
from tests.machine.spark_log import SparkLog
from tests.machine.state import Executor, Partition, StateVersions, Version
from tests.machine.world import World
from watersmeet.serve import server
from watersmeet.testing.sources import Arrived
from watersmeet.testing.state_store import Contents

SEEDS = range(20, 140)

Mistake = Callable[[pytest.MonkeyPatch], None]


def commits_before_the_sink(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SparkLog, "committed", property(lambda log: log.newest))


def loads_the_newest_state(patch: pytest.MonkeyPatch) -> None:
    """A batch that is done again goes on from what its first try has left."""

    def load(self: StateVersions, executor: Executor, partition: Partition, version: Version) -> Contents:
        commits = [commit for owner, commit in self._lineages if owner == partition]
        return self._lineages[partition, max(commits)] if commits else {}

    patch.setattr(StateVersions, "load", load)


def lists_the_folder_again(patch: pytest.MonkeyPatch) -> None:
    """A batch that is done again takes all files that are there by then."""
    as_logged = World.arrived

    def arrived(self: World, batch: int, **how: Any) -> Arrived:
        self.let_files_appear()
        for stream in self.streams:
            self.log.take_files(stream.name, self.listing(stream.name), 100)
        self.log.offsets[batch] = {source: len(log) for source, log in self.log.sources.items()}
        return as_logged(self, batch, **how)

    patch.setattr(World, "arrived", arrived)


def drops_no_duplicates(patch: pytest.MonkeyPatch) -> None:
    def content(self: KafkaModel) -> list[Answer]:
        return self.messages

    patch.setattr(KafkaModel, "content", content)


@pytest.mark.parametrize(
    "mistake",
    [
        commits_before_the_sink,
        loads_the_newest_state,
        pytest.param(lists_the_folder_again, marks=pytest.mark.variant),
        drops_no_duplicates,
    ],
)
def test_a_mistake_in_spark_would_be_found(mistake: Mistake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    monkeypatch.setattr(server, "POLL_S", 0.0)
    monkeypatch.setattr(server, "WAIT_POLL_S", 0.0)
    monkeypatch.setattr(server, "QUIET_S", 0.0)
    mistake(monkeypatch)
    assert any(run_schedule(seed).difference for seed in SEEDS)

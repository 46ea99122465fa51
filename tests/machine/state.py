"""Spark's state stores, as far as they decide what a task finds: versions, changelogs, executors' own copies.

A task of batch N loads version N and commits version N + 1, so a batch that is done again begins where its
first try did. A commit uploads a changelog: what changed since the version that was loaded. An executor that
holds the version it is asked for does not load it.

In format 1 a version has one name: of two tries that commit it, the last one's upload stays, while an
executor may hold the other's. In format 2 each commit has an id of its own, and the driver's commit log says
which one counts. `SETTINGS` of the product say which format its queries run in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from watersmeet.spark.session.environment import SETTINGS
from watersmeet.testing.state_store import Contents

FORMAT_SETTING = "spark.sql.streaming.stateStore.checkpointFormatVersion"

Partition = tuple[int, int]  # position of the stage, label of the bucket
Commit = int
_GONE = object()


@dataclass(frozen=True)
class Version:
    """A version of a partition's state; in format 2 it is known by the commit that wrote it."""

    number: int
    commit: Commit | None = None


@dataclass
class Executor:
    """The copies of state that one executor holds."""

    copies: dict[Partition, tuple[Version, Contents]] = field(default_factory=dict)


class StateVersions:
    """What all tasks have uploaded."""

    def __init__(self, settings: Mapping[str, str] = SETTINGS) -> None:
        self.has_commits = settings.get(FORMAT_SETTING, "1") == "2"
        self._numbers = count(1)
        self._changelogs: dict[tuple[Partition, int], Mapping[Any, Any]] = {}
        self._lineages: dict[tuple[Partition, Commit], Contents] = {}

    def load(self, executor: Executor, partition: Partition, version: Version) -> Contents:
        """The state that a task begins with."""
        held = executor.copies.get(partition)
        if self.has_commits:
            if version.commit is None:
                return {}
            if held is not None and held[0].commit == version.commit:
                return held[1]
            return self._lineages[partition, version.commit]
        if held is not None and held[0].number == version.number:
            return held[1]
        return self._replay(partition, version.number)

    def _replay(self, partition: Partition, last: int) -> Contents:
        found: dict[Any, Any] = {}
        for number in range(1, last + 1):
            for key, value in self._changelogs.get((partition, number), {}).items():
                if value is _GONE:
                    found.pop(key, None)
                else:
                    found[key] = value
        return found

    def commit(
        self, executor: Executor, partition: Partition, number: int, before: Contents, after: Contents
    ) -> Version:
        """Uploads a version, and leaves it with the executor."""
        version = Version(number, next(self._numbers))
        gone = dict.fromkeys(before.keys() - after.keys(), _GONE)
        changed = {key: value for key, value in after.items() if before.get(key) is not value}
        self._changelogs[partition, number] = {**gone, **changed}
        assert version.commit is not None
        self._lineages[partition, version.commit] = after
        executor.copies[partition] = (version, after)
        return version

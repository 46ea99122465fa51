"""The sinks: the real commit protocol of files over a storage in memory, and models of two services.

All of them take the same batches, one after the other, and the driver may crash before and after every
operation on any of them.

- Files: `spark/sinks/file_commit.py` itself. A task of a driver that is gone may still write into its folder.
- PostgreSQL: a batch is staged in a table of its run, its rows are counted, and one transaction moves them,
  skips ids that are there, and marks the batch.
- Kafka: messages are sent one by one, and a reader drops those whose id it has seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from tests.machine.schedule import Schedule
from tests.spark.sinks.memory_tree import Disk, MemoryTree
from watersmeet.spark.sinks.file_commit import HIDDEN, FileWriter, begin, commit, discard


@dataclass(frozen=True)
class Answer:
    """An answer on its way into a sink."""

    id: str
    query: str
    row: tuple[Any, ...]


WRITER = FileWriter("answers", "9f3c01ab")

Parts = Sequence[Sequence[Answer]]  # of a batch, by the task that writes them


class Sink(Protocol):
    """What outlives the driver that writes into it."""

    @property
    def name(self) -> str: ...

    def write(self, run: int, batch: int, queries: frozenset[str], parts: Parts) -> None:
        """Takes the answers of a try of a batch, which holds these queries."""

    def content(self) -> list[Answer]:
        """What a reader gets."""


class ScheduledTree(MemoryTree):
    """A storage whose every operation is a step of the schedule."""

    def __init__(self, disk: Disk, schedule: Schedule) -> None:
        super().__init__(disk)
        self._schedule = schedule

    def create(self, path: str, text: str) -> bool:
        with self._schedule.durable(f"files: create {path}"):
            return super().create(path, text)

    def move(self, source: str, target: str) -> None:
        with self._schedule.durable(f"files: move {source} to {target}"):
            super().move(source, target)

    def remove(self, path: str) -> None:
        for each in [each for each in self.disk.texts if each == path or each.startswith(f"{path}/")]:
            with self._schedule.durable(f"files: remove {each}"):
                self.disk.texts.pop(each, None)


@dataclass
class FileSink:
    """A folder of files, and the answers that each of them holds."""

    schedule: Schedule
    disk: Disk = field(default_factory=Disk)
    held: dict[str, Sequence[Answer]] = field(default_factory=dict)
    abandoned: list[str] = field(default_factory=list)  # staging folders of tries before this one
    name: str = "files"

    def write(self, run: int, batch: int, queries: frozenset[str], parts: Parts) -> None:
        tree = ScheduledTree(self.disk, self.schedule)
        token = f"{run}-{len(self.held)}"
        attempt = begin(tree, WRITER, batch=batch, queries=queries, token=token)
        self._disturb()
        self.abandoned.append(attempt.staging)
        if attempt.due != queries:
            left_out = ", ".join(sorted(queries - attempt.due)) or "the query"
            self.schedule.count(
                "published before", f"  files: {left_out} of batch {batch} is published already"
            )
        due = [[answer for answer in part if answer.query in attempt.due] for part in parts]
        if not any(due):
            discard(tree, attempt)
            return
        for number, part in enumerate(due):
            if part:
                self._stage(tree, f"{attempt.staging}/part-{number:05}.parquet", part)
        commit(tree, WRITER, attempt)

    def _stage(self, tree: ScheduledTree, path: str, part: Sequence[Answer]) -> None:
        content = f"content {len(self.held)}"
        self.held[content] = part
        tree.create(path, content)

    def _disturb(self) -> None:
        """A task of an earlier try, which nobody waits for, writes what it has."""
        if self.abandoned and self.held and self.schedule.strikes("late file", 0.1):
            path = f"{self.schedule.choose(self.abandoned)}/_temporary/part-00000.parquet"
            self.schedule.note(f"  LATE FILE: {path}")
            self.disk.texts[path] = self.schedule.choose(sorted(self.held))

    def content(self) -> list[Answer]:
        published = [text for path, text in self.disk.texts.items() if not path.startswith(HIDDEN)]
        return [answer for text in published for answer in self.held[text]]


@dataclass
class PostgresModel:
    """A table, the stages beside it, and the batches that are marked."""

    schedule: Schedule
    table: dict[str, Answer] = field(default_factory=dict)
    stages: dict[str, list[Answer]] = field(default_factory=dict)
    marked: set[tuple[int, str]] = field(default_factory=set)  # batch, query
    name: str = "postgres"

    def write(self, run: int, batch: int, queries: frozenset[str], parts: Parts) -> None:
        due = frozenset(query for query in queries if (batch, query) not in self.marked)
        rows = [[answer for answer in part if answer.query in due] for part in parts]
        if not due:
            return
        stage = f"stage of run {run}, batch {batch}"
        with self.schedule.durable(f"postgres: create {stage}"):
            self.stages[stage] = []
        for number, part in enumerate(rows):
            with self.schedule.durable(f"postgres: fill {stage}, part {number}"):
                self.stages[stage] += part
        assert len(self.stages[stage]) == sum(map(len, rows))
        with self.schedule.durable(f"postgres: move and mark batch {batch}"):
            for answer in self.stages.pop(stage):
                self.table.setdefault(answer.id, answer)
            self.marked |= {(batch, query) for query in due}

    def content(self) -> list[Answer]:
        return list(self.table.values())


@dataclass
class KafkaModel:
    """A topic."""

    schedule: Schedule
    messages: list[Answer] = field(default_factory=list)
    name: str = "kafka"

    def write(self, run: int, batch: int, queries: frozenset[str], parts: Parts) -> None:
        for number, part in enumerate(parts):
            with self.schedule.durable(f"kafka: send part {number} of batch {batch}"):
                self.messages += part

    def content(self) -> list[Answer]:
        return list({answer.id: answer for answer in self.messages}.values())

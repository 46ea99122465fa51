"""The queries beside a shared dataflow as they run: those that cannot share it, a streaming query each.

Which of them are to run, the record says. Each has a checkpoint of its own and fails by itself. What is left
of one that nobody asks for any more is removed, also after a crash: numbers are never given again, so a
checkpoint of a number that the record does not know belongs to a query that was dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from watersmeet.errors import WatersmeetError
from watersmeet.query import Query
from watersmeet.serve.registry.changes import BoundDataflow
from watersmeet.serve.registry.record import Registration
from watersmeet.spark.metrics.progress import Progress
from watersmeet.spark.session.failures import explain_failure

STARTING_AT_ONCE = 4  # each start makes Spark plan, and start Python workers


class SideJob(Protocol):
    """The streaming query of one query beside the dataflow."""

    def prepare(self) -> None:
        """Fixes the tuples that it begins with, if it has never run."""

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def is_running(self) -> bool: ...

    def is_settled(self) -> bool:
        """Whether its start is over: it has done a batch, or waits for tuples."""

    def poll(self) -> list[Progress]:
        """Its batches since the last call; raises what has made it fail."""

    def newest(self) -> int:
        """The newest batch of its own that it has begun, -1 if there is none."""


class SideEngine(Protocol):
    """What runs queries beside a dataflow."""

    def side_job(self, registration: Registration, query: Query) -> SideJob: ...

    def sweep_beside(self, kept: Set[int]) -> None:
        """Removes the checkpoints of queries of other numbers than these."""


@dataclass(frozen=True)
class SideFailure:
    """What has stopped a query, and in which of its own batches."""

    batch: int
    error: WatersmeetError


@dataclass(frozen=True)
class SideNews:
    """What has happened since it was last asked: batches by the query's name, failures by its number."""

    batches: tuple[tuple[str, Progress], ...] = ()
    failures: dict[int, SideFailure] = field(default_factory=dict)


@dataclass
class BesideQueries:
    """Runs the queries that a record says; `progress` is that of the newest batch of each, by name."""

    engine: SideEngine
    progress: dict[str, Progress] = field(default_factory=dict)
    _names: dict[int, str] = field(default_factory=dict)
    _jobs: dict[int, SideJob] = field(default_factory=dict)  # also those that have ended by themselves
    _waiting: list[int] = field(default_factory=list)  # to be started
    _failures: dict[int, SideFailure] = field(default_factory=dict)  # that nobody has taken yet

    def run(self, current: BoundDataflow) -> None:
        """Runs the queries beside a dataflow, and no others."""
        wanted = current.record.beside
        for number in [*self._jobs]:
            if number not in wanted:
                self._end(number)
        for number in [*self._failures]:
            if number not in wanted:
                del self._failures[number]
        self.engine.sweep_beside({query.number for query in current.record.queries})
        for number, registration in wanted.items():
            if number not in self._jobs and number not in self._failures:
                self._names[number] = registration.name
                self._try(number, partial(self._add, registration, current.queries[number]))

    def advance(self) -> SideNews:
        """Starts those that wait, a few at a time, and follows those that run."""
        batches: list[tuple[str, Progress]] = []
        for number, job in [*self._jobs.items()]:
            if number not in self._waiting:
                self._try(number, job.is_running)
                batches += [(self._names[number], each) for each in self._poll(number, job)]
        while self._waiting and sum(map(self._is_starting, self._jobs)) < STARTING_AT_ONCE:
            number = self._waiting.pop(0)
            self._try(number, self._jobs[number].start)
        failures, self._failures = self._failures, {}
        running = set(self._names.values())
        self.progress |= {name: progress for name, progress in batches if name in running}
        return SideNews(tuple(batches), failures)

    def is_running(self) -> bool:
        """Whether some have more to do."""
        if self._waiting:
            return True
        running = [self._ask_running(number) for number in [*self._jobs]]  # all are asked
        return any(running)

    def stop(self) -> None:
        """Stops all of them; a batch under way is done again when they are run again."""
        for number in [*self._jobs]:
            self._end(number)

    def _add(self, registration: Registration, query: Query) -> None:
        job = self.engine.side_job(registration, query)
        job.prepare()
        self._jobs[registration.number] = job
        self._waiting.append(registration.number)

    def _poll(self, number: int, job: SideJob) -> list[Progress]:
        found: list[Progress] = []
        self._try(number, lambda: found.extend(job.poll()))
        return found

    def _is_starting(self, number: int) -> bool:
        return number not in self._waiting and not self._jobs[number].is_settled()

    def _ask_running(self, number: int) -> bool:
        found: list[bool] = []
        self._try(number, lambda: found.append(self._jobs[number].is_running()))
        return any(found)

    def _try(self, number: int, act: Callable[[], object]) -> None:
        """Does something with a query; what it raises has made that query fail, and no other."""
        if number in self._failures:
            return
        try:
            act()
        except Exception as error:
            job = self._jobs.get(number)
            batch = 0 if job is None else max(0, job.newest())
            self._failures[number] = SideFailure(batch, explain_failure(error))
            self._end(number)

    def _end(self, number: int) -> None:
        job = self._jobs.pop(number, None)
        is_started = number not in self._waiting
        self._waiting = [each for each in self._waiting if each != number]
        self.progress.pop(self._names.pop(number, ""), None)
        if job is not None and is_started:
            with suppress(WatersmeetError):  # it is not to hold up the others
                job.stop()

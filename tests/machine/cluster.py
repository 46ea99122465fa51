"""The cluster under the scheduler: tasks die, are run twice at once, move, and come back as zombies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from tests.machine.attempt import Attempt, Job, Worker
from tests.machine.schedule import DriverCrash, Schedule
from tests.machine.state import Commit, Partition, StateVersions, Version
from watersmeet.testing.cluster import Cluster, MapBatches, run_as_task

DIES, SPECULATES, MOVES, REPEATS = 0.08, 0.12, 0.1, 0.02  # of a task
COMES_BACK = 0.15  # a zombie, at each step
LEFT_BEHIND = 0.4  # a task that was under way when its driver crashed


class FaultyCluster(Cluster):
    """Workers and state as they outlive drivers; a driver is told which versions its batch is to load."""

    def __init__(self, schedule: Schedule, workers: int) -> None:
        super().__init__(workers, schedule.seed)
        self.versions = StateVersions()
        self.committed: Mapping[Partition, Commit] = {}  # by the driver's commit log
        self.reported: dict[Partition, Commit] = {}  # by the tasks of this batch
        self.zombies: list[Attempt] = []
        self._schedule = schedule
        self._crew: list[Worker] = []
        self._hired = 0
        self._stages: list[str] = []
        self.hire(workers)

    def hire(self, workers: int) -> None:
        """Another driver: workers are new processes, or those that are there, with all they hold."""
        if self._crew and self._schedule.chance(0.5):
            self._schedule.note(f"workers are kept: {', '.join(worker.name for worker in self._crew)}")
        else:
            self._crew = []
        while len(self._crew) < workers:
            self._crew.append(Worker(f"w{self._hired}"))
            self._hired += 1
        self._crew = self._crew[:workers]

    def begin(self, job: Job, committed: Mapping[Partition, Commit]) -> None:
        """A driver begins a try of a batch, from the state that these commits left."""
        self.run, self.batch = job.run, job.batch
        self.committed, self.reported = committed, {}
        self._stages = []

    def disturb(self) -> None:
        """Something that may happen at any time."""
        schedule = self._schedule
        if self.zombies and schedule.chance(COMES_BACK):
            self._revive(self.zombies.pop(schedule.random.randrange(len(self.zombies))))
        if schedule.strikes("lost cache", 0.03):
            lost = schedule.random.randrange(len(self._crew))
            self._crew[lost] = Worker(f"w{self._hired}")
            self._hired += 1
            schedule.note(f"  a worker is replaced by {self._crew[lost].name}")

    def _revive(self, zombie: Attempt) -> None:
        """A task that nobody waits for goes on: it writes what it was going to write."""
        try:
            zombie.finish()
        except Exception as error:  # a zombie may find its files gone; nobody reads what it says
            self._schedule.note(f"  zombie dies: {zombie.name}: {error}")
            return
        if self._schedule.chance(0.8):
            zombie.commit()
            self._schedule.count("zombie", f"  ZOMBIE commits: {zombie.name}")

    def run_map(self, function: MapBatches, tasks: Iterable[pa.RecordBatch]) -> list[pa.RecordBatch]:
        found: list[pa.RecordBatch] = []
        for rows in tasks:
            tries = 2 if self._schedule.strikes("repeated map task", REPEATS) else 1
            for _ in range(tries):  # the last one counts
                cut = self._random.randrange(rows.num_rows + 1)
                with run_as_task(self._schedule.choose(self._crew).cache, self.batch, self.run):
                    output = list(function(iter([rows[:cut], rows[cut:]])))
            found += output
        return found

    def _stateful_task(
        self, name: str, processor: StatefulProcessor, label: int, rows: pa.Table
    ) -> list[Any]:
        if name not in self._stages:
            self._stages.append(name)
        # Spark finds the state of a stage by its position in the plan.
        schedule, partition = self._schedule, (self._stages.index(name), label)
        self.disturb()
        if schedule.strikes("moved", MOVES):
            self.move(label)
        if schedule.strikes("dead task", DIES):
            self._die_early(self._attempt(partition, processor, rows))
            if schedule.chance(0.5):
                self.move(label)
        attempts = [self._attempt(partition, processor, rows)]
        if len(self._crew) > 1 and schedule.strikes("speculation", SPECULATES):
            self.move(label)
            attempts.append(self._attempt(partition, processor, rows))
        try:
            return self._race(attempts)
        except DriverCrash:
            self._leave(attempts)
            raise

    def _attempt(self, partition: Partition, processor: StatefulProcessor, rows: pa.Table) -> Attempt:
        worker = self._crew[self._home(partition[1]) % len(self._crew)]
        for zombie in [
            each for each in self.zombies if each.partition == partition and each.worker is worker
        ]:
            self.zombies.remove(zombie)  # it holds the lock of the state: it ends before another begins
            self._revive(zombie)
        cut = self._random.randrange(rows.num_rows + 1)
        frames = [part.to_pandas(use_threads=False) for part in (rows[:cut], rows[cut:]) if part.num_rows]
        return Attempt(
            versions=self.versions,
            worker=worker,
            job=Job(self.run, self.batch),
            partition=partition,
            base=Version(self.batch, self.committed.get(partition)),
            processor=processor,
            rows=frames,
        )

    def _race(self, attempts: list[Attempt]) -> list[Any]:
        """All tries go on side by side; the first to report is the one that counts."""
        for attempt in attempts[1:] and attempts:
            attempt.begin()
        winner = attempts[0]
        winner.finish()
        others = [each for each in attempts if each is not winner]
        for other in others:
            if self._schedule.chance(0.4):  # it commits first, but reports too late
                other.finish()
                other.commit()
                self._schedule.note(f"  the other try commits too: {other.name}")
            elif self._schedule.chance(0.7):
                self.zombies.append(other)
            else:
                other.kill()
        with self._schedule.durable(f"state: {winner.name}"):
            version = winner.commit()
        assert version.commit is not None
        self.reported[winner.partition] = version.commit
        return winner.frames

    def _die_early(self, attempt: Attempt) -> None:
        """A try dies half-way, when all is written but not committed, or before it reports its commit."""
        attempt.begin()
        how = self._schedule.choose(["half-way", "half-way", "uncommitted", "unreported", "lost from sight"])
        self._schedule.note(f"  task dies {how}: {attempt.name}")
        if how == "half-way":
            attempt.kill()
        elif how == "lost from sight":
            self.zombies.append(attempt)
        else:
            attempt.finish()
            if how == "unreported":
                attempt.commit()

    def _leave(self, attempts: list[Attempt]) -> None:
        for attempt in attempts:
            if self._schedule.chance(LEFT_BEHIND) and not attempt.is_over and attempt not in self.zombies:
                self.zombies.append(attempt)

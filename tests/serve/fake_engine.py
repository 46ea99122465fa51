"""An engine that does nothing but count its batches, and note which queries each was done with."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field

from watersmeet.errors import DataError, WatersmeetError
from watersmeet.query import Query
from watersmeet.serve.registry.changes import BoundDataflow
from watersmeet.serve.registry.record import Registration
from watersmeet.spark.metrics.progress import Progress
from watersmeet.spark.multiquery.culprits import Blame


class KilledError(BaseException):
    """The end of a process, at the point where it is raised."""


@dataclass
class FakeEngine:
    """Keeps what Spark's checkpoint would, whatever becomes of the servers that use it."""

    offsets: int = -1
    commits: int = -1
    done: list[tuple[int, frozenset[tuple[str, int]]]] = field(default_factory=list)  # also those done again
    is_busy: bool = True  # whether a stop cuts a batch off that was under way
    failing: set[str] = field(default_factory=set)  # queries whose presence makes a batch fail, untraceably
    failing_keys: set[str] = field(default_factory=set)  # expressions that fail before there are answers
    blamed: dict[str, Blame] = field(default_factory=dict)  # queries whose answers make a batch fail
    beside: dict[str, WatersmeetError] = field(default_factory=dict)  # queries that have failed
    cut_off: dict[str, Blame] = field(default_factory=dict)  # those that first fail at a stop
    rounds: int = 1  # how often a job is polled until a batch ends
    start_rounds: int = 0  # how often it is polled before that, until it has started
    trials: int = 0
    failure: type[WatersmeetError] = DataError  # what a batch fails with before there are answers
    is_finite: bool = False
    is_dead: bool = False  # whether Spark itself has ended
    sides: dict[int, FakeSide] = field(default_factory=dict)  # checkpoints beside the dataflow, by number
    failing_beside: set[str] = field(default_factory=set)  # queries beside whose next batch fails
    ends_after: int | None = None  # batches, after which queries beside end by themselves
    jobs: int = 0  # starts of the dataflow

    def job(self, current: BoundDataflow, before: Progress | None) -> FakeJob:
        assert {query.number for query in current.record.queries} == set(current.queries)
        joined = {query.number for query in current.record.queries if query.is_joined}
        assert {tail.number for tail in current.dataflow.tails} == joined
        return FakeJob(self, current, before)

    def trial(self, current: BoundDataflow) -> WatersmeetError | None:
        self.trials += 1
        return self.fails_early(current)

    def fails_early(self, current: BoundDataflow) -> WatersmeetError | None:
        """What a batch fails with before it has answers."""
        there = {tail.query for tail in current.dataflow.tails}
        early = {key.sql for feed in current.dataflow.feeds for key in feed.keys} & self.failing_keys
        found = sorted(early) or sorted(there & self.failing)
        return self.failure(f"{found[0]} divides by zero") if found else None

    def side_job(self, registration: Registration, query: Query) -> FakeSideJob:
        return FakeSideJob(self, registration)

    def sweep_beside(self, kept: Set[int]) -> None:
        self.sides = {number: side for number, side in self.sides.items() if number in kept}

    def check_alive(self) -> None:
        if self.is_dead:
            raise DataError("Spark's process has ended")

    def check_side_queries(self) -> Mapping[str, WatersmeetError]:
        return self.beside

    def side_queries_run(self) -> bool:
        return False

    def newest(self) -> int:
        return self.offsets

    def committed(self) -> int:
        return self.commits

    def begin(self, current: BoundDataflow) -> None:
        """Begins the next batch, or the one that was cut off."""
        self.offsets = self.commits + 1
        there = frozenset((query.name, query.number) for query in answering(current, self.offsets))
        self.done.append((self.offsets, there))

    def check(self) -> dict[int, frozenset[tuple[str, int]]]:
        """The queries of each batch, the same each time it was done."""
        found: dict[int, frozenset[tuple[str, int]]] = {}
        for batch, queries in self.done:
            assert found.setdefault(batch, queries) == queries, "a batch was done again with other queries"
        return found


@dataclass
class FakeSide:
    """What the checkpoint of a query beside the dataflow would keep."""

    begins_after: int  # the newest batch of the dataflow whose tuples it does not see
    batches: int = 0


@dataclass
class FakeSideJob:
    engine: FakeEngine
    registration: Registration
    runs: bool = False

    @property
    def side(self) -> FakeSide:
        return self.engine.sides[self.registration.number]

    def prepare(self) -> None:
        assert self.registration.since <= self.engine.offsets + 1, "there is no such batch to begin after"
        number = self.registration.number
        self.engine.sides.setdefault(number, FakeSide(self.registration.since - 1))

    def start(self) -> None:
        self.runs = True

    def stop(self) -> None:
        self.runs = False

    def is_running(self) -> bool:
        return self.runs and self.side.batches != self.engine.ends_after

    def is_settled(self) -> bool:
        return True

    def poll(self) -> list[Progress]:
        if not self.is_running():
            return []
        if self.registration.name in self.engine.failing_beside:
            raise DataError(f"{self.registration.name} divides by zero")
        self.side.batches += 1
        return [Progress(batch_id=self.side.batches - 1, timestamp="2026-01-01T00:00:00Z", batch_ms=1)]

    def newest(self) -> int:
        return self.side.batches


@dataclass
class FakeJob:
    engine: FakeEngine
    current: BoundDataflow
    progress: Progress | None
    runs: bool = False
    blamed: dict[int, Blame] = field(default_factory=dict)
    _round: int = 0  # of the batch under way
    _polled: int = 0
    _cut_off: DataError | None = None  # what failed while it was stopped, too late to find out whose it is

    def start(self) -> None:
        self.runs = True
        self.engine.jobs += 1

    def stop(self) -> None:
        if self.runs and self.engine.is_busy and not self._round:
            self.engine.begin(self.current)
            if self.engine.cut_off:
                self.engine.done.pop()
                self._cut_off = DataError("stopped before the culprit was found")
                self.engine.blamed, self.engine.cut_off = self.engine.cut_off, {}
        self.runs = False

    def is_running(self) -> bool:
        return self.runs

    def is_settled(self) -> bool:
        return self._polled > self.engine.start_rounds

    def poll(self) -> list[Progress]:
        """A batch in so many calls, as long as it runs."""
        self._polled += 1
        if self._cut_off is not None:
            raise self._cut_off
        if not self.runs or self._polled <= self.engine.start_rounds:
            return []
        if not self._round:
            self.engine.begin(self.current)
        self._round = (self._round + 1) % self.engine.rounds
        if self._round:
            return []
        self._fail()
        self.engine.commits = self.engine.offsets
        self.progress = Progress(batch_id=self.engine.commits, timestamp="2026-01-01T00:00:00Z", batch_ms=1)
        return [self.progress]

    def _fail(self) -> None:
        engine = self.engine
        failure = engine.fails_early(self.current)
        there = [query for query in answering(self.current, engine.offsets) if query.name in engine.blamed]
        if failure is None and there:
            self.blamed = {query.number: engine.blamed[query.name] for query in there}
            failure = DataError(self.blamed[there[0].number].reason)
        if failure is not None:
            self.runs = False
            engine.done.pop()  # the batch is done again, without those that are to blame
            raise failure


def answering(current: BoundDataflow, batch: int) -> list[Registration]:
    """The queries that are to answer in a batch."""
    joined = {tail.number for tail in current.dataflow.tails if tail.since <= batch < tail.until}
    return [
        query
        for query in current.record.queries
        if query.number in joined
        and not (query.outage is not None and query.outage.since <= batch < query.outage.until)
    ]

"""A shared dataflow under the machine: the real server, its record and requests, while queries come and go.

Requests are sent at any time. A server is killed wherever it or its Spark query makes something durable, it
cuts batches off when it changes the queries, and a batch may fail: for a query that is to blame, which is
then stopped and perhaps resumed, or for none. Then the next server begins its changes with that batch, so
that it is done again with other queries.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.kernel.multiquery.feeding import expected_rows
from tests.machine.run_batch import Settings, next_batch, run_batch
from tests.machine.schedule import Schedule
from tests.machine.world import World
from tests.serve.fake_engine import answering
from tests.serve.registry.dataflows import PLANNER
from watersmeet.errors import DataError, WatersmeetError
from watersmeet.oracle import oracle
from watersmeet.oracle.oracle import MicroBatch, Tuple
from watersmeet.query import Query
from watersmeet.serve.beside import SideJob
from watersmeet.serve.registry.changes import BoundDataflow
from watersmeet.serve.registry.folder import RegistryFolder
from watersmeet.serve.registry.record import (
    Outage,
    Registration,
    RegistryRecord,
    require_record,
    write_record,
)
from watersmeet.serve.registry.requests import Drop, Mailbox, Request, Resume, Submit, send
from watersmeet.serve.server import Server
from watersmeet.spark.metrics.progress import Progress
from watersmeet.spark.multiquery.culprits import Blame
from watersmeet.testing.dataflow import QueriesDataflow
from watersmeet.testing.setup import queries_dataflow

DECLARATIONS = "".join(
    f"CREATE STREAM {name} (x BIGINT, y BIGINT, v BIGINT, ts TIMESTAMP) "
    f"WITH (format = 'parquet', path = '{name}', event_time = 'ts', lateness = '{lateness} us');\n"
    for name, lateness in (("s1", 0), ("s2", 5), ("s3", 1))
)
QUERIES = (
    "SELECT a.v AS l, b.v AS r FROM s1 [RANGE 20 US] AS a, s2 [RANGE 20 US] AS b WHERE a.x = b.x",
    "SELECT a.v + 1 AS l, b.v AS r FROM s1 [RANGE 20 US] AS a, s2 [RANGE 20 US] AS b WHERE a.x = b.x",
    "SELECT a.v AS l, b.v AS r FROM s1 [RANGE 20 US] AS a, s2 [RANGE 20 US] AS b "
    "WHERE a.x = b.x AND a.v <= b.v",
    "SELECT a.v AS l, b.v AS r FROM s1 [RANGE 30 US] AS a, s3 [RANGE 10 US] AS b WHERE a.y = b.y AND a.v > 1",
    "SELECT a.v AS l, c.v AS r FROM s1 [RANGE 20 US] AS a, s2 [RANGE 20 US] AS b, s3 [RANGE 20 US] AS c "
    "WHERE a.x = b.x AND b.y = c.y",
    "SELECT a.v AS l, b.v AS r FROM s2 [TUMBLE 15 US] AS a, s3 [UNBOUNDED] AS b WHERE a.x = b.x",
)
FAILS, CUTS = 0.15, 0.5
TUPLES, SPAN_US = 8, 60


@dataclass(frozen=True)
class ScheduledFolder(RegistryFolder):
    """The folder as the server writes it: every file but its heartbeat is a step of the schedule."""

    schedule: Schedule = field(compare=False)

    def write(self, name: str, text: str) -> None:
        if name == "status.json":
            super().write(name, text)
            return
        with self.schedule.durable(f"server: write {_kind(name)}"):
            super().write(name, text)

    def remove(self, name: str) -> None:
        with self.schedule.durable(f"server: remove {_kind(name)}"):
            super().remove(name)


@dataclass
class SharedCase:
    """What outlives servers: the folder, what clients still want, and all that was ever registered."""

    world: World
    folder: ScheduledFolder
    wishes: int  # requests still to be sent
    names: list[str] = field(default_factory=list)  # ever asked for
    registered: dict[int, Registration] = field(default_factory=dict)
    tried: set[tuple[int, int]] = field(default_factory=set)  # number of a query, batch
    silent: dict[tuple[int, int], Outage] = field(default_factory=dict)  # by number of a query, since
    earlier: list[Registration] = field(default_factory=list)  # of queries that left the joins and came back

    @staticmethod
    def of(schedule: Schedule, path: Path, settings: Settings) -> SharedCase:
        """A dataflow without queries, for which two requests wait."""
        record = RegistryRecord(
            id="0123abcd",
            file=str(path / "streams.sql"),
            declarations=DECLARATIONS,
            levels=2,
            partitions=settings.setup.partitions,
            checkpoint=str(path),
        )
        write_record(RegistryFolder(path), record)
        batches = draw_batches(schedule.random, [stream.name for stream in record.pipeline.streams])
        streams = record.pipeline.streams
        world = World.of(streams, batches, schedule, path, settings.setup.workers)
        case = SharedCase(world, ScheduledFolder(path, schedule), schedule.choose([2, 3, 5]))
        case.submit()
        case.submit()
        return case

    def serve(self, settings: Settings, run: int) -> None:
        """Serves until all files are taken and all requests are answered."""
        engine = MachineEngine(self, settings, run)
        record = require_record(self.folder)
        try:
            server = Server(folder=self.folder, record=record, engine=engine, planner=PLANNER)
            server.on_change = lambda change: self.look()
            server.on_failure = lambda query, outage: self.look()
            server.serve(until=lambda: self.is_done)
        finally:
            self.look()

    def look(self) -> None:
        """Remembers which queries the record has, and for which batches."""
        record = require_record(RegistryFolder(self.folder.path))
        there = {query.number: query for query in record.queries}
        batch = max((reply.batch or 0 for reply in record.handled.values()), default=0)
        for number, before in self.registered.items():
            query = there.get(number)
            if query is None and before.stays:  # dropped, and gone at once: the reply says since when
                self.registered[number] = replace(before, until=batch)
            if query is not None and before.failure is not None and query.outage is None:
                if before.is_joined:  # resumed, and that is over at once
                    self.silent[number, before.failure.since] = replace(before.failure, until=batch)
                else:
                    self.earlier.append(replace(before, until=before.failure.since))
        for number, query in there.items():
            if query.outage is not None:
                self.silent[number, query.outage.since] = query.outage
        self.registered |= there

    @property
    def is_done(self) -> bool:
        world = self.world
        taken = {name for log in world.log.sources.values() for entry in log for name in entry}
        has_files = bool(world.to_come) or taken != set(world.there) or world.log.has_more
        asks = bool(self.wishes) or bool(Mailbox(RegistryFolder(self.folder.path)).pending())
        return not has_files and not asks and world.log.newest == world.log.committed

    def wish(self) -> None:
        """A client may want another query, or one less."""
        if self.wishes and self.world.schedule.chance(0.4):
            self.wishes -= 1
            self.ask()

    def ask(self) -> None:
        """Asks for a query under a name of its own, or for the end of one."""
        schedule = self.world.schedule
        failed = list(require_record(RegistryFolder(self.folder.path)).failed)
        if failed and schedule.chance(0.7):
            self.send(Resume((schedule.choose(failed),)))
        elif schedule.chance(0.5):
            self.send(Drop((schedule.choose(self.names),)))
        else:
            self.submit()

    def submit(self) -> None:
        schedule = self.world.schedule
        self.names.append(f"{schedule.choose('abxy')}{len(self.names)}")  # not always the last in order
        self.send(Submit(((self.names[-1], schedule.choose(QUERIES)),)))

    def send(self, request: Request) -> None:
        self.world.schedule.note(f"a client asks: {request}")
        send(RegistryFolder(self.folder.path), request)

    def expected(self) -> dict[str, tuple[list[oracle.Row], list[oracle.Row]]]:
        """By query as sinks call it, its answers: at least these, at most those.

        The last batch of a query that was dropped because it failed may have been published before.
        """
        found: dict[str, tuple[list[oracle.Row], list[oracle.Row]]] = {}
        for query in (*self.earlier, *self.registered.values()):
            least, most = found.setdefault(f"{query.name}-{query.number}", ([], []))
            least += self._expected(query, frozenset())
            most += self._expected(query, self.tried)
        return found

    def _expected(self, query: Registration, tried: Set[tuple[int, int]]) -> list[oracle.Row]:
        """Its answers but those of batches in which it was silent, given the last tries that may count."""
        bound = require_record(RegistryFolder(self.folder.path)).bind(query.sql, query.name)
        batches, number = self.world.micro_batches(), query.number

        def before(batch: int) -> Counter[oracle.Row]:
            return Counter(expected_rows(bound, batches, query.since, batch))

        def end(batch: int) -> int:
            return batch + ((number, batch) in tried)

        apart = [o.since for (n, _), o in self.silent.items() if n == number and o.is_apart]
        until = min([query.until, *(since for since in apart if since >= query.since)])
        rows = before(end(until))
        for (other, since), outage in self.silent.items():
            if other == number and not outage.is_apart and query.since <= since < until:
                rows -= before(min(outage.until, until)) - before(end(since))
        return list(rows.elements())


@dataclass
class MachineEngine:
    """Runs the dataflow's Spark query as the machine does."""

    case: SharedCase
    settings: Settings
    run: int
    process: int | None = None

    def job(self, current: BoundDataflow, before: Progress | None) -> MachineJob:
        return MachineJob(self, current, before)

    def trial(self, current: BoundDataflow) -> WatersmeetError | None:
        return DataError("no query is to blame")

    def check_side_queries(self) -> Mapping[str, WatersmeetError]:
        return {}

    def side_queries_run(self) -> bool:
        return False

    @property
    def is_finite(self) -> bool:
        return False

    def check_alive(self) -> None:
        """The machine ends a run by itself."""

    def side_job(self, registration: Registration, query: Query) -> SideJob:
        raise AssertionError("none of the queries runs beside the dataflow")

    def sweep_beside(self, kept: Set[int]) -> None:
        """There is nothing to remove."""

    def newest(self) -> int:
        return self.case.world.log.newest

    def committed(self) -> int:
        return self.case.world.log.committed


@dataclass
class MachineJob:
    """One run of the Spark query: a batch for each poll."""

    engine: MachineEngine
    current: BoundDataflow
    progress: Progress | None
    runs: bool = False
    dataflow: QueriesDataflow | None = None
    blamed: dict[int, Blame] = field(default_factory=dict)

    def start(self) -> None:
        self.runs = True
        setup = replace(self.engine.settings.setup, partitions=self.current.record.partitions)
        world = self.engine.case.world
        self.dataflow = queries_dataflow(self.current.dataflow, self.current.joined, world.streams, setup)

    def stop(self) -> None:
        """Ends the query, perhaps in the middle of a batch."""
        schedule = self.engine.case.world.schedule
        if self.runs and schedule.chance(CUTS) and next_batch(self._world, self._settings, waits=False):
            schedule.note("the batch is cut off")
            if schedule.chance(0.7):
                self._run_batch(most_sinks=schedule.choose([0, 1, 2, 3]))
        self.runs = False

    def is_running(self) -> bool:
        return self.runs

    def is_settled(self) -> bool:
        return True

    def poll(self) -> list[Progress]:
        if not self.runs:
            return []
        self.engine.case.wish()
        if next_batch(self._world, self._settings, waits=False):
            if self._world.schedule.strikes("failing batch", FAILS):
                self._run_batch(most_sinks=self._world.schedule.choose([0, 1, 2, 3, 3, 3]))
                self.runs = False
                self._blame()
                self.engine.case.ask()
                raise DataError("a query divides by zero")
            self._run_batch()
        return []

    def _blame(self) -> None:
        """A query may be to blame for a batch that has failed, before the joins or after them."""
        schedule, there = self._world.schedule, answering(self.current, self._world.log.newest)
        if there and schedule.chance(0.6):
            query = schedule.choose(there)
            self.blamed[query.number] = Blame("it divides by zero", is_apart=schedule.chance(0.4))
            schedule.count("stopped query", f"query {query.name} is to blame: {self.blamed[query.number]}")

    @property
    def _world(self) -> World:
        return self.engine.case.world

    @property
    def _settings(self) -> Settings:
        return self.engine.settings

    def _run_batch(self, most_sinks: int | None = None) -> None:
        assert self.dataflow is not None
        batch = self._world.log.newest
        there = answering(self.current, batch)
        self.engine.case.tried |= {(query.number, batch) for query in there}
        named = {query.name: f"{query.name}-{query.number}" for query in there}
        run_batch(self._world, self.dataflow, self._settings, self.engine.run, named, most_sinks)


def draw_batches(rng: random.Random, streams: Sequence[str]) -> list[MicroBatch]:
    """A few tuples of each stream, about in order."""
    found: list[MicroBatch] = []
    for start in range(0, SPAN_US, SPAN_US // 4):
        batch: Mapping[str, list[Tuple]] = {
            stream: [
                Tuple(start + rng.randrange(20), {name: rng.choice([0, 0, 1, 2, None]) for name in "xyv"})
                for _ in range(rng.randrange(TUPLES // 2))
            ]
            for stream in streams
        }
        found.append(batch)
    return found


def _kind(name: str) -> str:
    """A file's name without what differs from run to run."""
    return name.partition("/")[0] if "/" in name else name

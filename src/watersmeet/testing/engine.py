"""The engine in process: micro-batches one by one, and failures between and within them, on demand."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Self

from watersmeet.errors import ConfigurationError
from watersmeet.kernel import MARK
from watersmeet.oracle.oracle import Clock, MicroBatch, Row
from watersmeet.plan.multiquery import Registered, plan_dataflow
from watersmeet.plan.physical import PhysicalPlan, plan_physical
from watersmeet.plan.take_over import KeptState, Progress, TakeOver, take_over
from watersmeet.query import BEGINNING, MAX_INPUTS, Query, Stream
from watersmeet.spark.stages.state_log import HEAD
from watersmeet.spark.stages.state_map import LOG
from watersmeet.testing.cluster import Cluster
from watersmeet.testing.dataflow import Output, QueriesDataflow, QueryDataflow
from watersmeet.testing.script import Batch, Written, as_oracle, read_batch, read_instant
from watersmeet.testing.setup import Setup, direct_streams, queries_dataflow, query_dataflow
from watersmeet.testing.sources import Arrived, write_files


@dataclass(frozen=True)
class Step:
    """What came of one micro-batch: answers by query, and what its tasks counted."""

    by_query: Mapping[str, list[Row]]
    metrics: Mapping[str, int]

    @property
    def answers(self) -> list[Row]:
        """The answers of all queries."""
        return [row for rows in self.by_query.values() for row in rows]


class InProcessEngine:
    """A query, or several by name in one shared dataflow, run over scripted micro-batches without a JVM.

    Use it as a context manager: it keeps files in a temporary folder while it is open.
    """

    def __init__(self, queries: Query | Mapping[str, Query], setup: Setup | None = None) -> None:
        self.setup = setup or Setup()
        self.streams = _streams([queries] if isinstance(queries, Query) else list(queries.values()))
        self.cluster = Cluster(self.setup.workers, self.setup.seed)
        self.arrived: list[MicroBatch] = []  # as the oracle takes it
        self.folder = Path(tempfile.mkdtemp(prefix="watersmeet-testing-"))  # files, and tables of hot values
        self.times: list[int | None] = []  # of the batches
        self.marks: list[Mapping[str, int]] = []  # that came with the batches
        self.starts: list[int] = []  # of the runs after the first
        self._clock_us: int | None = None
        self._repeats = 0
        self._has_ended = False
        self._queries = queries
        self._taken_over: tuple[PhysicalPlan, KeptState] | None = None
        self._dataflow = self._plan()

    @property
    def reads_answers(self) -> bool:
        """Whether some stream of it is the answers of another query."""
        return any(stream.answers is not None for stream in self.streams)

    def step(self, batch: Batch | Mapping[str, Sequence[Written]], now: int | str | None = None) -> Step:
        """Runs a micro-batch; `now` is its own time, which else stays where it was: unknown at first."""
        if self._has_ended:
            raise ConfigurationError("the input has ended: after end() no more batches can come")
        given = now if now is not None else batch.now if isinstance(batch, Batch) else None
        if given is not None:
            self._clock_us = read_instant(given)
        rows = read_batch(batch, self.streams)
        self.arrived.append(as_oracle(self.streams, rows))
        self.times.append(self._clock_us)
        self.marks.append(batch.marks if isinstance(batch, Batch) else {})
        streams = {stream.name: stream for stream in self.streams}
        for name, mark in self.marks[-1].items():
            rows.setdefault(name, []).append(
                {**dict.fromkeys(each.name for each in streams[name].columns), MARK: mark}
            )
        arrived = Arrived(streams, rows, self._clock_us, self.setup.map_tasks)
        if self.setup.direct_files:
            arrived = replace(arrived, files=self._write(arrived))
        step = self._run(arrived, is_end=False)
        # What is kept beyond a batch must not refer to its files: they may be gone.
        shutil.rmtree(self.folder / "files", ignore_errors=True)
        return step

    def end(self) -> Step:
        """Ends the input: answers that waited for the watermark come out."""
        self._has_ended = True
        streams = {stream.name: stream for stream in self.streams}
        return self._run(Arrived(streams, {}, self._clock_us), is_end=True)

    def restart(
        self, setup: Setup | None = None, *, workers_stay: bool = False, now: int | str | None = None
    ) -> None:
        """Stops the query and resumes it, with another `setup` if given; workers read their state back.

        Those that stay hold what they held, as when a session stops a query and starts it again. `now` is
        when it is resumed: the time since the last batch was not spent running.
        """
        self.cluster.run += 1
        if not workers_stay:
            self.cluster.lose_caches()
        if now is not None:
            self._clock_us = read_instant(now)
        self.setup = setup or self.setup
        if self._clock_us is not None:
            self.starts.append(self._clock_us)
        if setup is not None or self._clock_us is not None:
            self._dataflow = self._plan()

    def change(self, query: Query, *, workers_stay: bool = False) -> TakeOver:
        """Stops the query, and resumes with a changed one on its state; says what that takes over."""
        if self._taken_over is not None:
            old, kept = self._taken_over
        else:
            old = self._physical(self._queries)
            kept = KeptState.of(old)
        fresh = replace(self._physical(query), routing=old.routing)
        found = take_over(kept, fresh, old.predecessor)
        self._taken_over = found.plan, found.state(self.progress)
        self._queries = query
        self.streams = _streams([query])
        self.restart(workers_stay=workers_stay)
        self._dataflow = self._plan()
        return found

    @property
    def progress(self) -> Progress:
        """How far the query has come, as its join has noted it."""
        heads = [
            store.getMapState(LOG, None, None).getValue((HEAD,))
            for (stage, _), store in self.cluster.stores.items()
            if stage == "join"
        ]
        return Progress.of(json.loads(head[0])["snapshot"] for head in heads if head is not None)

    def lose_caches(self) -> None:
        """All workers forget what they hold."""
        self.cluster.lose_caches()

    def move(self, bucket: int | None = None) -> None:
        """Another worker takes a bucket (by its label), or each of them, from the next batch on."""
        self.cluster.move(bucket)

    def fail_next_task(self, count: int = 1) -> None:
        """The next stateful tasks die half-way or at their end, and are run again on another worker."""
        self.cluster.failures += count

    def repeat_next_batch(self) -> None:
        """The next micro-batch fails after all of its tasks are done; the query is resumed and repeats it."""
        self._repeats += 1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Removes the engine's files."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _run(self, arrived: Arrived, *, is_end: bool) -> Step:
        while self._repeats:
            self._repeats -= 1
            self._dataflow.run(self.cluster, arrived, is_end=is_end)
            self.cluster.roll_back()
            self.cluster.run += 1  # with the workers as they are: their caches are ahead of the state
        output: Output = self._dataflow.run(self.cluster, arrived, is_end=is_end)
        self.cluster.commit()
        return Step(output.answers, output.metrics)

    def _write(self, arrived: Arrived) -> dict[str, list[str]]:
        folder = self.folder / "files" / f"{self.cluster.batch}"
        folder.mkdir(parents=True)
        direct = direct_streams(self.streams)
        return {
            name: write_files(folder, arrived.streams[name], rows, self.setup.map_tasks)
            for name, rows in arrived.rows.items()
            if name in direct and rows
        }

    def _plan(self) -> QueryDataflow | QueriesDataflow:
        queries, setup = self._queries, self.setup
        if isinstance(queries, Query):
            plan = self._physical(queries) if self._taken_over is None else self._taken_over[0]
            return query_dataflow(plan, setup, self.folder / "routing", self._starts)
        registered = [Registered(name, number, query) for number, (name, query) in enumerate(queries.items())]
        dataflow = plan_dataflow(registered, self.streams, MAX_INPUTS - 1, setup.statistics)
        dataflow = replace(dataflow, levels=dataflow.depth)
        numbered = dict(enumerate(queries.values()))
        return queries_dataflow(dataflow, numbered, self.streams, setup, self._starts)

    def _physical(self, query: Query | Mapping[str, Query]) -> PhysicalPlan:
        if not isinstance(query, Query):
            raise ConfigurationError("queries in a shared dataflow come and go: they do not take over state")
        setup = self.setup
        return plan_physical(query, setup.partitions, setup.statistics, setup.routing)

    @property
    def _starts(self) -> tuple[int, ...]:
        return (BEGINNING, *self.starts)

    @property
    def clock(self) -> Clock:
        """The times of the batches and runs so far, as the oracle takes them."""
        return Clock(tuple(self.times), self._starts, tuple(self.marks))


def _streams(queries: Sequence[Query]) -> tuple[Stream, ...]:
    """The streams that queries read, each once."""
    return tuple({stream.name: stream for query in queries for stream in query.streams}.values())

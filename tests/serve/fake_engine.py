"""An engine that does nothing but count its batches, and note which queries each was done with."""

from __future__ import annotations

from dataclasses import dataclass, field

from watersmeet.errors import DataError
from watersmeet.query.shared_dataflow import SharedDataflow
from watersmeet.serve.registry.changes import BoundDataflow
from watersmeet.spark.metrics.progress import Progress


class KilledError(BaseException):
    """The end of a process, at the point where it is raised."""


@dataclass
class FakeEngine:
    """Keeps what Spark's checkpoint would, whatever becomes of the servers that use it."""

    offsets: int = -1
    commits: int = -1
    done: list[tuple[int, frozenset[tuple[str, int]]]] = field(default_factory=list)  # also those done again
    is_busy: bool = True  # whether a stop cuts a batch off that was under way
    failing: str = ""  # a query whose presence makes a batch fail

    def job(self, current: BoundDataflow, before: Progress | None) -> FakeJob:
        assert {query.number for query in current.record.queries} == set(current.queries)
        assert {tail.number for tail in current.dataflow.tails} == set(current.queries)
        return FakeJob(self, current.dataflow, before)

    def check_side_queries(self) -> None:
        pass

    def newest(self) -> int:
        return self.offsets

    def committed(self) -> int:
        return self.commits

    def begin(self, dataflow: SharedDataflow) -> None:
        """Begins the next batch, or the one that was cut off."""
        self.offsets = self.commits + 1
        there = (e for e in dataflow.tails if e.since <= self.offsets < e.until)
        self.done.append((self.offsets, frozenset((e.query, e.number) for e in there)))

    def check(self) -> dict[int, frozenset[tuple[str, int]]]:
        """The queries of each batch, the same each time it was done."""
        found: dict[int, frozenset[tuple[str, int]]] = {}
        for batch, queries in self.done:
            assert found.setdefault(batch, queries) == queries, "a batch was done again with other queries"
        return found


@dataclass
class FakeJob:
    engine: FakeEngine
    dataflow: SharedDataflow
    progress: Progress | None
    runs: bool = False

    def start(self) -> None:
        self.runs = True

    def stop(self) -> None:
        if self.runs and self.engine.is_busy:
            self.engine.begin(self.dataflow)
        self.runs = False

    def is_running(self) -> bool:
        return self.runs

    def poll(self) -> list[Progress]:
        """A batch a call, as long as it runs."""
        if not self.runs:
            return []
        self.engine.begin(self.dataflow)
        if self.engine.failing in [tail.query for tail in self.dataflow.at(self.engine.offsets).tails]:
            raise DataError(f"{self.engine.failing} divides by zero")
        self.engine.commits = self.engine.offsets
        self.progress = Progress(batch_id=self.engine.commits, timestamp="2026-01-01T00:00:00Z", batch_ms=1)
        return [self.progress]

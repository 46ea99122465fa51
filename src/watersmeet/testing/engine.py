"""The engine in process: micro-batches one by one, and failures between and within them, on demand."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Self

from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import DataType

from watersmeet.errors import ConfigurationError
from watersmeet.kernel import StateLimit
from watersmeet.oracle.oracle import MicroBatch, Row
from watersmeet.plan.multiquery import Registered, plan_dataflow
from watersmeet.plan.physical import plan_physical
from watersmeet.plan.statistics.statistics import Statistics
from watersmeet.query import MAX_INPUTS, Query, Stream
from watersmeet.query.arrow_types import arrow_type
from watersmeet.spark.compile.plan_tasks import plan_tasks
from watersmeet.spark.compile.tasks import TaskOptions
from watersmeet.spark.exchange.hot_keys import DEFAULT_MIN_ROWS, HotKeySettings
from watersmeet.spark.multiquery.answers import AnswerDecoder
from watersmeet.spark.multiquery.compile import dataflow_fingerprint
from watersmeet.spark.multiquery.levels import dataflow_inputs, plan_levels
from watersmeet.spark.multiquery.ship import ship_inline
from watersmeet.spark.tuning import DEFAULT, Tuning
from watersmeet.testing.cluster import Cluster
from watersmeet.testing.dataflow import Output, QueriesDataflow, QueryDataflow
from watersmeet.testing.script import Batch, Written, as_oracle, read_batch, read_instant
from watersmeet.testing.sources import Arrived, may_be_files, write_files


@dataclass(frozen=True, kw_only=True)
class Setup:
    """How a query is run in process."""

    partitions: int = 3  # shuffle partitions: buckets at the most
    workers: int = 2
    routing: str = "shares"  # or pipeline, rewrite
    direct_files: bool = False  # tuples come as Parquet files, which the engine reads itself where it can
    hot_values: bool = False  # whether frequent values are spread over buckets
    hot_min_rows: int = DEFAULT_MIN_ROWS  # tuples to be seen before any value is taken for hot
    may_heat: bool = True  # False lets hot values cool, and no more heat
    state_limit: StateLimit | None = None
    statistics: Statistics | None = None
    map_tasks: int = 2  # that read each stream
    seed: int = 0  # of the order of rows in the shuffle, and of how tasks fail
    tuning: Tuning = DEFAULT  # the sizes by which the engine works


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
        self._clock_us = 0
        self._repeats = 0
        self._has_ended = False
        self._queries = queries
        self._dataflow = self._plan()

    def step(self, batch: Batch | Mapping[str, Sequence[Written]], now: int | str | None = None) -> Step:
        """Runs a micro-batch; `now` is its own time, which else stays where it was."""
        if self._has_ended:
            raise ConfigurationError("the input has ended: after end() no more batches can come")
        given = now if now is not None else batch.now if isinstance(batch, Batch) else None
        if given is not None:
            self._clock_us = read_instant(given)
        rows = read_batch(batch, self.streams)
        self.arrived.append(as_oracle(self.streams, rows))
        streams = {stream.name: stream for stream in self.streams}
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

    def restart(self, setup: Setup | None = None) -> None:
        """Stops the query and resumes it, with another `setup` if given; workers read their state back."""
        self.cluster.restart()
        if setup is not None:
            self.setup = setup
            self._dataflow = self._plan()

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
        direct = self._direct()
        return {
            name: write_files(folder, arrived.streams[name], rows, self.setup.map_tasks)
            for name, rows in arrived.rows.items()
            if name in direct and rows
        }

    def _direct(self) -> dict[str, str | None]:
        return {stream.name: None for stream in self.streams if may_be_files(stream)}

    def _plan(self) -> QueryDataflow | QueriesDataflow:
        queries = self._queries
        return self._plan_query(queries) if isinstance(queries, Query) else self._plan_queries(queries)

    def _plan_query(self, query: Query) -> QueryDataflow:
        setup = self.setup
        plan = plan_physical(query, setup.partitions, setup.statistics, setup.routing)
        hot = HotKeySettings(str(self.folder / "routing"), setup.may_heat, setup.hot_min_rows)
        options = TaskOptions(
            types=_types(self.streams),
            direct=self._direct() if setup.direct_files else {},
            limit=setup.state_limit,
            hot=hot if setup.hot_values else None,
            parallelism=setup.workers,
            tuning=setup.tuning,
        )
        return QueryDataflow(plan_tasks(plan, options))

    def _plan_queries(self, queries: Mapping[str, Query]) -> QueriesDataflow:
        setup = self.setup
        registered = [Registered(name, number, query) for number, (name, query) in enumerate(queries.items())]
        dataflow = plan_dataflow(registered, self.streams, MAX_INPUTS - 1, setup.statistics)
        dataflow = replace(dataflow, levels=max(join.level for join in dataflow.joins))
        ship = ship_inline(dataflow)
        tasks = plan_levels(
            dataflow,
            ship,
            dataflow_inputs(dataflow, self.streams),
            partitions=setup.partitions,
            fingerprint=dataflow_fingerprint(dataflow, self.streams, setup.partitions),
            direct=self._direct() if setup.direct_files else {},
            tuning=setup.tuning,
        )
        by_number = {each.number: each.query for each in registered}
        return QueriesDataflow(tasks, AnswerDecoder(ship, by_number, _types(self.streams)))


def _streams(queries: Sequence[Query]) -> tuple[Stream, ...]:
    """The streams that queries read, each once."""
    return tuple({stream.name: stream for query in queries for stream in query.streams}.values())


def _types(streams: Sequence[Stream]) -> dict[str, dict[str, DataType]]:
    """The types of the streams' columns as Spark has them."""
    return {
        stream.name: {column.name: from_arrow_type(arrow_type(column.type)) for column in stream.columns}
        for stream in streams
    }

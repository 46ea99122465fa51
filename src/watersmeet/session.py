"""The session: declare streams, write a query, get a streaming DataFrame; or run a whole pipeline file.

import watersmeet as wm

ws = wm.Session()
ws.stream("s1", df1, event_time="ts", lateness="5 seconds")
answers = ws.sql("SELECT ... FROM s1 [RANGE 10 MINUTES] AS a, ...")  # .writeStream as ever
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from watersmeet.errors import ConfigurationError, DataError
from watersmeet.kernel import StateLimit
from watersmeet.plan.explain import explain_plan
from watersmeet.plan.multiquery.plan_dataflow import Registered, plan_dataflow
from watersmeet.plan.physical import PhysicalPlan, plan_physical
from watersmeet.plan.statistics.file import read_statistics
from watersmeet.plan.statistics.statistics import Statistics
from watersmeet.query import Column, Connector, Pipeline, Query, Stream, parse_duration
from watersmeet.query.query import MAX_INPUTS
from watersmeet.spark.compile.compile import Compiler
from watersmeet.spark.jobs.checkpoint import Checkpoint
from watersmeet.spark.jobs.dead_letters import DeadLetters, plan_dead_letters
from watersmeet.spark.jobs.job import Job, RunOptions
from watersmeet.spark.jobs.state_limit import parse_limit, session_limit
from watersmeet.spark.metrics.progress import Progress
from watersmeet.spark.multiquery.answers import SharedAnswers, column_types
from watersmeet.spark.multiquery.compile import SharedCompiler, dataflow_fingerprint, dataflow_inputs
from watersmeet.spark.multiquery.frame import dataflow_frame
from watersmeet.spark.multiquery.ship import ship_dataflow
from watersmeet.spark.session.environment import PARTITIONS, check_session, is_local, new_session
from watersmeet.spark.session.packages import add_packages, download_refusal
from watersmeet.spark.session.ship import ship_package
from watersmeet.spark.sources.batch_limits import BATCH_SHARE, limit_batches
from watersmeet.spark.sources.inferred_columns import InferredColumns
from watersmeet.spark.sources.parquet.files import file_names
from watersmeet.spark.sources.streams import read_stream, stamp_arrivals
from watersmeet.spark.storage.paths import is_remote
from watersmeet.sql import bind_query, parse_pipeline

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

POLL_S = 0.2
MESSAGES = 20_000  # the end of a log, where the reason of a failure is

OnProgress = Callable[[Job, Progress], None]


class Session:
    """Streams by name over one Spark session; without one, it makes its own with the settings it needs."""

    def __init__(
        self,
        spark: SparkSession | None = None,
        *,
        master: str = "local[*]",
        conf: Mapping[str, str] | None = None,
        log: Path | None = None,
        formats: Iterable[str] = (),
    ) -> None:
        """`formats` names those whose packages a new session is to bring along, such as kafka, postgres."""
        if spark is not None and (conf or formats):
            raise ConfigurationError("settings go with the session that is made here; set them on yours")
        settings = add_packages(conf or {}, [Connector(name) for name in formats])
        self.spark = spark if spark is not None else _new_session(master, settings, log)
        if spark is not None:
            check_session(spark)
        if not is_local(self.spark.sparkContext.master or ""):
            ship_package(self.spark)
        self.dead_letters: list[DeadLetters] = []  # running beside the jobs of the last `start`
        self.inferred: dict[str, tuple[Column, ...]] = {}  # of streams, found in their sources by `start`
        self._streams: dict[str, Stream] = {}
        self._sources: dict[str, DataFrame] = {}

    def stream(
        self,
        name: str,
        frame: DataFrame,
        *,
        event_time: str | None = None,
        lateness: str = "0",
        idle_after: str | None = None,
        site: str | None = None,
    ) -> Stream:
        """Declares a streaming DataFrame as a stream; without event time tuples are stamped on arrival."""
        if name.lower() in self._streams:
            raise ConfigurationError(f"there is a stream {name} already: choose another name")
        if not frame.isStreaming:
            raise ConfigurationError(f"{name} is a static DataFrame: make it with spark.readStream")
        columns = tuple(Column(f.name, f.dataType.simpleString()) for f in frame.schema.fields)
        stream = Stream(
            name,
            columns,
            _event_time(name, columns, event_time),
            lateness_us=_duration(name, "lateness", lateness),
            idle_after_us=None if idle_after is None else _duration(name, "idle_after", idle_after),
            site=site,
        )
        self._streams[name.lower()] = stream
        self._sources[name] = frame if event_time else stamp_arrivals(frame)
        return stream

    def sql(
        self,
        text: str,
        statistics: Statistics | None = None,
        *,
        checkpoint: Path | str | None = None,
        state_limit: str | None = None,
        shed: str | None = None,
        routing: str | None = None,
    ) -> DataFrame:
        """The answers of one SELECT as a streaming DataFrame.

        `checkpoint` is the folder that `writeStream` will be given: with it, hot values can be spread.
        `state_limit`, such as '2GB', bounds the memory of its state; `shed` says what goes first then.
        `routing` is shares, pipeline, rewrite or native [default: shares or pipeline, what costs less].
        """
        limit = parse_limit(state_limit, shed, ("state_limit", "shed")) or session_limit(self.spark)
        plan = self._plan(bind_query(text, self._streams.values()), statistics, routing, limit)
        place = None if checkpoint is None else absolute_checkpoint(checkpoint)
        return Compiler(self.spark, plan, self._sources, limit=limit, checkpoint=place).answers()

    def queries(
        self,
        queries: Mapping[str, str] | Sequence[str],
        statistics: Statistics | None = None,
        *,
        levels: int | None = None,
    ) -> DataFrame:
        """The answers of many SELECTs as one streaming DataFrame: query, answer_time, answer (JSON).

        All share one dataflow: a tuple is sent once for each attribute in use, and what queries have in
        common is kept and computed once. `queries` are by name, or named q1, q2, ... in order. `levels` is
        how many joins may follow each other [default: as many as these queries need].
        """
        named = queries if isinstance(queries, Mapping) else {f"q{n}": q for n, q in enumerate(queries, 1)}
        streams = tuple(self._streams.values())
        registered = [
            Registered(name, number, bind_query(text, streams))
            for number, (name, text) in enumerate(named.items())
        ]
        if not registered:
            raise ConfigurationError("a ring needs at least one query")
        used = {item.stream.name for each in registered for item in each.query.inputs}
        read = [stream for stream in streams if stream.name in used]
        dataflow = plan_dataflow(registered, read, levels or MAX_INPUTS - 1, statistics)
        if levels is None:
            dataflow = replace(dataflow, levels=max(join.level for join in dataflow.joins))
        ship = ship_dataflow(self.spark, dataflow)
        partitions = int(self.spark.conf.get(PARTITIONS) or 1)
        inputs = dataflow_inputs(dataflow, read, self._sources, {})
        fingerprint = dataflow_fingerprint(dataflow, read, partitions)
        blobs = SharedCompiler(dataflow, ship, inputs, partitions, fingerprint).answers()
        by_number = {each.number: each.query for each in registered}
        return dataflow_frame(blobs, SharedAnswers(ship, by_number, column_types(read, self._sources)))

    def explain(self, text: str, statistics: Statistics | None = None, *, routing: str | None = None) -> str:
        """How a SELECT would run: its join graph, its routing, its stages, what is kept and for how long."""
        return explain_plan(self._plan(bind_query(text, self._streams.values()), statistics, routing))

    def read(self, file: Path | str, checkpoint: str | None = None) -> Pipeline:
        """A pipeline file, bound; streams declared without columns take those of their source.

        With a checkpoint these are inferred once, and kept there.
        """
        path = Path(file)
        columns = InferredColumns(self.spark, path.parent, checkpoint)
        pipeline = parse_pipeline(read_text(path), file=str(file), infer=columns)
        columns.keep()
        self.inferred = dict(columns.fresh)
        return pipeline

    def start(
        self,
        file: Path | str,
        *,
        checkpoint: Path | str | None = None,
        options: RunOptions | None = None,
        statistics: Statistics | None = None,
    ) -> list[Job]:
        """Starts every query of a pipeline file, each resuming from its own part of the checkpoint.

        What fills its sinks of dead letters, if it names any, is started as well: `dead_letters`.
        """
        path = Path(file)
        root = absolute_checkpoint(checkpoint) if checkpoint is not None else str(default_checkpoint(path))
        pipeline = self.read(path, root)
        if not pipeline.queries:
            raise ConfigurationError(f"{file} declares streams but has no query: add a SELECT or INSERT INTO")
        known = statistics or statistics_beside(path)
        how = options or RunOptions()
        if how.limit is None:
            how = replace(how, limit=session_limit(self.spark))

        def read_sources(smaller: int = 1) -> tuple[dict[str, DataFrame], dict[str, DataFrame]]:
            return self.read_sources(pipeline, path.parent, how.limit, smaller)

        sources, files = read_sources()
        letters = plan_dead_letters(self.spark, pipeline, root, path.parent, how)
        jobs = []
        for number, query in enumerate(pipeline.queries, start=1):
            name = f"{number}-{query.sink or 'console'}"
            place = Checkpoint(self.spark, f"{root}/{name}")
            routing = how.routing or place.routing()
            plan = place.plan(self._plan(query, known, routing, how.limit))
            sink = pipeline.sink(query.sink) if query.sink else None
            again = read_sources if how.limit is not None else None
            job = Job(
                self.spark, name, plan, sources, sink, place, path.parent, how, files, read_sources=again
            )
            jobs.append(job)
        # Letters first, to stand where the jobs begin or before: what is malformed for these is so for them.
        everything: list[Job | DeadLetters] = [*letters, *jobs]
        try:
            for each in everything:
                each.start()
        except BaseException:  # those already started must not run on where nobody can stop them
            for each in everything:
                each.stop()
            raise
        self.dead_letters = letters
        return jobs

    def read_sources(
        self, pipeline: Pipeline, base: Path, limit: StateLimit | None = None, smaller: int = 1
    ) -> tuple[dict[str, DataFrame], dict[str, DataFrame]]:
        """The streams, and names of files for those read directly; under a limit, in batches that fit it."""
        streams = pipeline.streams
        if limit is not None:
            nbytes = limit.nbytes // (BATCH_SHARE * len(streams))
            streams = tuple(limit_batches(stream, nbytes, smaller) for stream in streams)
        sources = {stream.name: read_stream(self.spark, stream, base) for stream in streams}
        named = {stream.name: file_names(self.spark, stream, base) for stream in streams}
        return sources, {name: frame for name, frame in named.items() if frame is not None}

    def run(
        self,
        file: Path | str,
        *,
        checkpoint: Path | str | None = None,
        options: RunOptions | None = None,
        statistics: Statistics | None = None,
        on_progress: OnProgress | None = None,
    ) -> list[Job]:
        """Runs a pipeline file until its queries end, one fails, or the caller interrupts."""
        jobs = self.start(file, checkpoint=checkpoint, options=options, statistics=statistics)
        try:
            follow([*self.dead_letters, *jobs], on_progress)
        finally:
            self.stop(jobs)
        return jobs

    def stop(self, jobs: Iterable[Job]) -> None:
        """Stops jobs, and what runs beside them."""
        for job in jobs:
            job.stop()
        for letters in self.dead_letters:
            letters.stop()

    def _plan(
        self,
        query: Query,
        statistics: Statistics | None,
        routing: str | None,
        limit: StateLimit | None = None,
    ) -> PhysicalPlan:
        if routing is None and limit is not None:
            routing = "shares"  # whose state is what a limit is for
        return plan_physical(query, int(self.spark.conf.get(PARTITIONS) or 1), statistics, routing)


def follow(
    jobs: Sequence[Job | DeadLetters],
    on_progress: OnProgress | None = None,
    until: Callable[[], bool] | None = None,
) -> None:
    """Waits until all jobs have ended, or `until` says so, telling of every batch."""
    running = True
    while running and not (until and until()):
        states = [job.is_running() for job in jobs]
        running = any(states)
        for job in jobs:
            for progress in job.poll():
                if on_progress and isinstance(job, Job):
                    on_progress(job, progress)
        if running:
            time.sleep(POLL_S)


def _new_session(master: str, settings: Mapping[str, str], log: Path | None) -> SparkSession:
    try:
        return new_session(master, conf=settings, log=log)
    except RuntimeError as error:
        said = log.read_text(errors="replace") if log is not None and log.exists() else ""
        if refusal := download_refusal(settings, f"{error}\n{said[-MESSAGES:]}"):
            raise refusal from None
        raise


def default_checkpoint(file: Path) -> Path:
    """Where a pipeline keeps its state when nothing else is said: beside its file."""
    return file.parent.absolute() / ".watersmeet" / file.stem


def absolute_checkpoint(checkpoint: Path | str) -> str:
    """A checkpoint's folder, the same wherever the process goes; a URL stays as it is."""
    text = str(checkpoint)
    return text if is_remote(text) or text.startswith("file:") else str(Path(text).absolute())


def statistics_beside(file: Path) -> Statistics | None:
    """The statistics `analyze` has left beside a pipeline file, if any."""
    path = file.with_suffix(".stats.json")
    return read_statistics(path) if path.exists() else None


def read_text(path: Path) -> str:
    """The text of a pipeline file; refuses one that cannot be read."""
    try:
        return path.read_text()
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise DataError(f"{path} is not a text file in UTF-8") from None


def _event_time(name: str, columns: tuple[Column, ...], event_time: str | None) -> str | None:
    if event_time is None:
        return None
    column = next((c for c in columns if c.name.lower() == event_time.lower()), None)
    if column is None:
        raise ConfigurationError(
            f"stream {name} has no column {event_time}; it has {', '.join(c.name for c in columns)}"
        )
    if column.type not in ("timestamp", "timestamp_ntz"):
        raise ConfigurationError(
            f"the event time of {name} must be a timestamp; {column.name} is {column.type}"
        )
    return column.name


def _duration(name: str, option: str, text: str) -> int:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise ConfigurationError(f"{option} of stream {name}: {error}") from None

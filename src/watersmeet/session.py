"""The session: declare streams, write a query, get a streaming DataFrame; or run a whole pipeline file.

    text -> statements -> query -> plan -> streaming DataFrame -> job

import watersmeet as wm

ws = wm.Session()
ws.stream("s1", df1, event_time="ts", lateness="5 seconds")
answers = ws.sql("SELECT ... FROM s1 [RANGE 10 MINUTES] AS a, ...")  # .writeStream as ever
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from watersmeet.errors import ConfigurationError
from watersmeet.kernel import StateLimit
from watersmeet.plan.explain import explain_plan
from watersmeet.plan.multiquery import Registered, plan_dataflow
from watersmeet.plan.physical import PhysicalPlan, plan_physical
from watersmeet.plan.statistics.statistics import Statistics
from watersmeet.query import NO_LIMIT, Column, Connector, Pipeline, Query, Stream, Table, parse_duration
from watersmeet.query.declared.event_time import EventTimeError
from watersmeet.query.query import MAX_INPUTS
from watersmeet.spark.compile.compile import Compiler
from watersmeet.spark.inspect.read_state import read_progress
from watersmeet.spark.jobs.chains import Chains
from watersmeet.spark.jobs.checkpoint import Checkpoint
from watersmeet.spark.jobs.dead_letters import plan_dead_letters
from watersmeet.spark.jobs.job import Job, RunOptions
from watersmeet.spark.jobs.pipeline_file import (
    absolute_checkpoint,
    default_checkpoint,
    name_queries,
    query_folder,
    read_source,
    statistics_beside,
)
from watersmeet.spark.jobs.pipeline_run import OnProgress, OnWarning, PipelineRun, naming, plan_run
from watersmeet.spark.jobs.resume.change_over import ChangeOver
from watersmeet.spark.jobs.run_lock import RunLock, hold_checkpoint
from watersmeet.spark.jobs.state_limit import parse_limit, session_limit
from watersmeet.spark.multiquery.answer_stream import stream_answers
from watersmeet.spark.multiquery.frame import answer_frame
from watersmeet.spark.session.environment import (
    PARTITIONS,
    check_session,
    is_local,
    keep_renames_safe,
    new_session,
)
from watersmeet.spark.session.packages import add_packages, download_refusal
from watersmeet.spark.session.ship import ship_package
from watersmeet.spark.sources.clean_source import refuse_shared_cleaning
from watersmeet.spark.sources.event_time import add_event_time
from watersmeet.spark.sources.inferred_columns import InferredColumns
from watersmeet.spark.sources.read_sources import Sources, read_rest, read_sources
from watersmeet.spark.sources.source_paths import refuse_own_answers, source_paths
from watersmeet.sql import Source, bind_query, bind_stream, parse_pipeline
from watersmeet.sql.query_names import number_queries

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LOG_TAIL = 20_000  # the characters at the end of a log in which a failure gives its reason


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
        """`formats` names formats whose packages a new session needs, such as kafka or postgres."""
        if spark is not None and (conf or formats):
            raise ConfigurationError("conf and formats are for a session made here: set them on your own")
        settings = add_packages(conf or {}, [Connector(name) for name in formats])
        self.spark = spark if spark is not None else _new_session(master, settings, log)
        if spark is not None:
            check_session(spark)
        if not is_local(self.spark.sparkContext.master or ""):
            ship_package(self.spark)
        self._streams: dict[str, Stream] = {}
        self._sources: dict[str, DataFrame] = {}

    def stream(
        self,
        name: str,
        frame: DataFrame,
        *,
        event_time: str | None = None,
        event_time_unit: str | None = None,
        event_time_format: str | None = None,
        lateness: str = "0",
        idle_after: str | None = None,
        max_ahead: str = "1 day",
        site: str | None = None,
    ) -> Stream:
        """Declares a streaming DataFrame as a stream; without event time tuples are stamped on arrival.

        A unit or a format says how a number or a text is an event time, as in a pipeline file.
        Tuples more than `max_ahead` ahead of the time of their batch are left out and counted, or none are.
        """
        if name.lower() in self._streams:
            raise ConfigurationError(f"there is a stream {name} already: choose another name")
        if not frame.isStreaming:
            raise ConfigurationError(f"{name} is a static DataFrame: make it with spark.readStream")
        columns = tuple(Column(f.name, f.dataType.simpleString()) for f in frame.schema.fields)
        stream = Stream(
            name,
            columns,
            lateness_us=_duration(name, "lateness", lateness),
            idle_after_us=None if idle_after is None else _duration(name, "idle_after", idle_after),
            max_ahead_us=None if max_ahead.lower() == NO_LIMIT else _duration(name, "max_ahead", max_ahead),
            site=site,
        )
        stream = _with_event_time(stream, event_time, event_time_unit, event_time_format)
        self._streams[name.lower()] = stream
        self._sources[name] = add_event_time(frame, stream)
        return stream

    def view(self, name: str, text: str) -> Stream:
        """Declares a view: a SELECT over one stream, or a UNION ALL of such, to be read like a stream."""
        if name.lower() in self._streams:
            raise ConfigurationError(f"there is a stream {name} already: choose another name")
        view = bind_stream(name, text, self._streams.values())
        self._streams[name.lower()] = view
        return view

    def table(self, name: str, frame: DataFrame) -> Stream:
        """Declares a static DataFrame as a table, to be joined with streams; Spark reads it as it defines."""
        if name.lower() in self._streams:
            raise ConfigurationError(f"there is a stream {name} already: choose another name")
        if frame.isStreaming:
            raise ConfigurationError(f"{name} is a streaming DataFrame: declare it with ws.stream")
        columns = tuple(Column(f.name, f.dataType.simpleString()) for f in frame.schema.fields)
        table = self._streams[name.lower()] = Stream(name, columns, table=Table())
        self._sources[name] = frame
        return table

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

        `checkpoint` is the folder you will give to `writeStream`: with it, hot values can be spread.
        `state_limit`, such as '2GB', bounds the memory of its state; `shed` says which tuples go first.
        `routing` is shares, pipeline, rewrite or native [default: shares or pipeline, whichever costs less].
        """
        limit = parse_limit(state_limit, shed, ("state_limit", "shed")) or session_limit(self.spark)
        plan = self._plan(bind_query(text, self._streams.values()), statistics, routing, limit)
        folder = None if checkpoint is None else absolute_checkpoint(checkpoint)
        if folder is not None:
            keep_renames_safe(self.spark, folder)
        return Compiler(
            spark=self.spark, plan=plan, sources=self._sources, limit=limit, checkpoint=folder
        ).answers()

    def queries(
        self,
        queries: Mapping[str, str] | Sequence[str],
        statistics: Statistics | None = None,
        *,
        levels: int | None = None,
        state_limit: str | None = None,
        shed: str | None = None,
    ) -> DataFrame:
        """The answers of many SELECTs as one streaming DataFrame: query, answer_time, answer (JSON).

        All share one dataflow: a tuple is sent once for each attribute in use, and what queries have in
        common is kept and computed once. `queries` are by name, or named q1, q2, ... in order. `levels` is
        how many joins may follow each other [default: as many as these queries need]. `state_limit`, such as
        '2GB', bounds the memory of the state of all of them together; `shed` says which rows go first.
        """
        limit = parse_limit(state_limit, shed, ("state_limit", "shed")) or session_limit(self.spark)
        named = queries if isinstance(queries, Mapping) else _numbered(queries)
        if not named:
            raise ConfigurationError("give at least one query")
        registered = [
            Registered(name, number, bind_query(text, self._streams.values()).as_written())
            for number, (name, text) in enumerate(named.items())
        ]
        used = {item.stream.name for each in registered for item in each.query.inputs}
        streams = [stream for stream in self._streams.values() if stream.name in used]
        dataflow = plan_dataflow(registered, streams, levels or MAX_INPUTS - 1, statistics)
        if levels is None:
            dataflow = replace(dataflow, levels=dataflow.depth)
        answers = stream_answers(
            self.spark,
            dataflow,
            queries={each.number: each.query for each in registered},
            streams=streams,
            sources=Sources(self._sources, {}),
            partitions=self._partitions,
            limit=limit,
        )
        return answer_frame(answers)

    def explain(self, text: str, statistics: Statistics | None = None, *, routing: str | None = None) -> str:
        """How a SELECT would run: its join graph, its routing, its stages, what is kept and for how long."""
        return explain_plan(self._plan(bind_query(text, self._streams.values()), statistics, routing))

    def read(self, file: Path | str) -> Pipeline:
        """A pipeline file, bound; streams declared without columns take those of their source."""
        return self._read(read_source(Path(file)), checkpoint=None)[0]

    def start(
        self,
        file: Path | str,
        *,
        checkpoint: Path | str | None = None,
        options: RunOptions | None = None,
        statistics: Statistics | None = None,
        on_warning: OnWarning | None = None,
    ) -> PipelineRun:
        """Starts every query of a pipeline file, each resuming from its own part of the checkpoint.

        The returned run owns all that was started, the queries for dead letters included. What should be
        known of a query before it runs is reported first.
        """
        path = Path(file)
        root = absolute_checkpoint(checkpoint) if checkpoint is not None else str(default_checkpoint(path))
        how = self.with_limit(options or RunOptions())
        source = read_source(path)
        lock = hold_checkpoint(self.spark, root)
        try:
            run = self._prepare(source, root, how, statistics or statistics_beside(path), lock)
            if on_warning is not None:
                run.warn(on_warning)
            run.start()
        except BaseException:
            lock.release()
            raise
        return run

    def _prepare(
        self, source: Source, root: str, how: RunOptions, statistics: Statistics | None, lock: RunLock
    ) -> PipelineRun:
        """All queries of a pipeline file, planned but not started."""
        base = Path(source.file).parent
        pipeline, inferred = self._read(source, root)
        queries = name_queries(pipeline, source)
        refuse_shared_cleaning({name: query.streams for name, query in queries.items()}, base)
        letters = plan_dead_letters(self.spark, pipeline, root, base, how)
        jobs = self._jobs(
            queries,
            pipeline,
            base=base,
            root=root,
            options=how,
            statistics=statistics,
        )
        return plan_run(jobs, letters, inferred, lock)

    def run(
        self,
        file: Path | str,
        *,
        checkpoint: Path | str | None = None,
        options: RunOptions | None = None,
        statistics: Statistics | None = None,
        on_progress: OnProgress | None = None,
        on_warning: OnWarning | None = None,
    ) -> PipelineRun:
        """Runs a pipeline file until all its queries have ended, or the caller interrupts.

        If some fail, the others go on to their end; then what made them fail is raised.
        """
        run = self.start(
            file, checkpoint=checkpoint, options=options, statistics=statistics, on_warning=on_warning
        )
        try:
            run.follow(on_progress, on_warning=on_warning)
        finally:
            run.stop()
        return run

    def _read(
        self, source: Source, checkpoint: str | None
    ) -> tuple[Pipeline, Mapping[str, tuple[Column, ...]]]:
        """A pipeline file, bound, and the columns that were inferred, which the checkpoint keeps."""
        columns = InferredColumns(self.spark, Path(source.file).parent, checkpoint)
        pipeline = parse_pipeline(source.text, file=source.file, infer=columns)
        columns.keep()
        return pipeline, dict(columns.fresh)

    def _jobs(
        self,
        queries: Mapping[str, Query],
        pipeline: Pipeline,
        *,
        base: Path,
        root: str,
        options: RunOptions,
        statistics: Statistics | None,
    ) -> Iterable[Job]:
        """A job for each query, planned but not started."""
        tables, chains = pipeline.tables, Chains(self.spark, root, queries)
        read = partial(read_sources, self.spark, pipeline.streams, base, options.limit, tables=tables)
        sources = read()
        for name, query in queries.items():
            checkpoint = Checkpoint(self.spark, query_folder(root, name))
            sink = pipeline.sink(query.sink) if query.sink else chains.sink(name)
            with naming(name, of=len(queries)):
                refuse_own_answers(query.streams, sink, base)
                routing = options.routing or checkpoint.routing()
                planned = self._plan(checkpoint.query(query), statistics, routing, options.limit)
                progress = partial(read_progress, self.spark, checkpoint.spark_folder)
                change = ChangeOver(self.spark, sink, options.evolve, options.accept_gap, progress)
                plan = checkpoint.plan(planned, source_paths(query.streams, base), change)
                chains.check(name, plan)
                own = partial(chains.into, name=name)
                into = chains.log_of(name)
                has_ended = checkpoint.has_ended()
                if has_ended and not options.flush:
                    raise checkpoint.refuse_ended()
            yield Job(
                spark=self.spark,
                name=name,
                plan=plan,
                has_ended=has_ended,
                changes=tuple(change.said),
                sources=own(sources),
                sink=sink,
                into=into,
                awaits=chains.reads(name) if options.available_now else (),
                checkpoint=checkpoint,
                base=base,
                options=options,
                read_smaller=lambda smaller, own=own: own(read(smaller=smaller)),  # type: ignore[misc]
                read_rest=lambda own=own: own(  # type: ignore[misc]
                    read_rest(self.spark, pipeline.streams, base, tables)
                ),
            )

    def _plan(
        self,
        query: Query,
        statistics: Statistics | None,
        routing: str | None,
        limit: StateLimit | None = None,
    ) -> PhysicalPlan:
        chosen = routing or (None if limit is None else "shares")  # what `watersmeet size` is about
        return plan_physical(query, self._partitions, statistics, chosen)

    def with_limit(self, options: RunOptions) -> RunOptions:
        """The options with the session's own limit of state, unless they set one."""
        return replace(options, limit=options.limit or session_limit(self.spark))

    @property
    def _partitions(self) -> int:
        return int(self.spark.conf.get(PARTITIONS) or 1)


def _new_session(master: str, settings: Mapping[str, str], log: Path | None) -> SparkSession:
    try:
        return new_session(master, conf=settings, log=log)
    except RuntimeError as error:
        written = log.read_text(errors="replace") if log is not None and log.exists() else ""
        if refusal := download_refusal(settings, f"{error}\n{written[-LOG_TAIL:]}"):
            raise refusal from None
        raise


def _numbered(queries: Sequence[str]) -> dict[str, str]:
    return dict(zip(number_queries(len(queries)), queries, strict=True))


def _with_event_time(stream: Stream, written: str | None, unit: str | None, format_: str | None) -> Stream:
    try:
        return stream.with_event_time(written, unit, format_)
    except EventTimeError as problem:
        raise ConfigurationError(f"stream {stream.name}: {problem.problem}. {problem.advice}") from None
    except LookupError:
        names = ", ".join(column.name for column in stream.columns)
        raise ConfigurationError(f"stream {stream.name} has no column {written}; it has {names}") from None


def _duration(name: str, option: str, text: str) -> int:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise ConfigurationError(f"{option} of stream {name}: {error}") from None

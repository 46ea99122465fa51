"""`watersmeet serve`: many queries in one shared dataflow, which come and go while it runs."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from watersmeet.cli.options import DEFAULT_MASTER, Conf, Master
from watersmeet.cli.pipeline_files import connectors_of
from watersmeet.cli.run_request import Request, shown_settings
from watersmeet.cli.spark_session import explained, parse_settings, spark_session, tables_aside
from watersmeet.cli.terminal.messages import tell, tell_event, tell_failure, tell_inferred, waiting
from watersmeet.cli.terminal.progress_display import Display, open_display
from watersmeet.cli.terminal.spark_log import open_log, trim_log
from watersmeet.cli.terminal.stop_signals import catch_stop
from watersmeet.errors import ConfigurationError, WatersmeetError
from watersmeet.plan.statistics.statistics import Statistics
from watersmeet.query import Connector
from watersmeet.serve.create_dataflow import CreationOptions, create_dataflow, find_dataflow
from watersmeet.serve.registry.changes import ChangePlanner
from watersmeet.serve.registry.folder import RegistryFolder
from watersmeet.serve.registry.record import Outage, Registration, RegistryRecord
from watersmeet.serve.registry.tail_files import TailWriter
from watersmeet.serve.server import Change, Server
from watersmeet.serve.spark_engine import AnswerCheck, SparkEngine
from watersmeet.session import Session
from watersmeet.spark.jobs.batch_log import newest_batch
from watersmeet.spark.jobs.job import RunOptions
from watersmeet.spark.jobs.pipeline_file import statistics_beside
from watersmeet.spark.jobs.run_lock import held_checkpoint
from watersmeet.spark.metrics.progress import Progress
from watersmeet.spark.multiquery.check import SparkCheck
from watersmeet.spark.session.environment import PARTITIONS
from watersmeet.spark.session.packages import add_packages
from watersmeet.spark.sources.inferred_columns import InferredColumns
from watersmeet.spark.storage.folder import Folder

NAMED = 5  # queries of a change that are named one by one


def serve_command(
    folder: Annotated[Path, typer.Argument(help="The folder of the shared dataflow.", metavar="DIR")],
    streams: Annotated[
        Path | None,
        typer.Option(help="The first time: the pipeline file of its streams and sinks.", metavar="FILE.sql"),
    ] = None,
    levels: Annotated[
        int | None, typer.Option(help="The first time: how many joins may follow each other [default: 3].")
    ] = None,
    checkpoint: Annotated[
        str | None,
        typer.Option(help="The first time: where to keep state [default: in DIR].", metavar="PLACE"),
    ] = None,
    trigger: Annotated[
        str | None, typer.Option(help="Start a batch this often, such as 1s.", metavar="DURATION")
    ] = None,
    available_now: Annotated[
        bool, typer.Option("--available-now", help="Take what the streams hold now, then end; resumable.")
    ] = False,
    state_limit: Annotated[
        str | None,
        typer.Option(help="Memory for the state of the shared dataflow, such as 2GB.", metavar="SIZE"),
    ] = None,
    shed: Annotated[
        str | None,
        typer.Option(
            help="Which rows go when state is at its limit [default: random].",
            metavar="random|oldest|least|none",
        ),
    ] = None,
    master: Master = DEFAULT_MASTER,
    conf: Conf = None,
    as_json: Annotated[bool, typer.Option("--json", help="Tell progress as JSON, one event a line.")] = False,
    log: Annotated[
        Path | None,
        typer.Option(help="Where Spark's own messages go [default: in DIR].", metavar="LOG"),
    ] = None,
) -> None:
    """Run many queries as one; submit and drop change them. Ctrl-C stops it, serve DIR resumes it."""
    creation = CreationOptions(streams, levels, checkpoint)
    request = ServeRequest(
        RegistryFolder(folder),
        creation,
        trigger,
        master,
        tuple(conf or ()),
        as_json,
        log,
        available_now,
        state_limit,
        shed,
    )
    raise typer.Exit(serve_dataflow(request))


@dataclass(frozen=True)
class ServeRequest:
    """What the command line asked for."""

    folder: RegistryFolder
    creation: CreationOptions
    trigger: str | None = None
    master: str = DEFAULT_MASTER
    conf: tuple[str, ...] = ()
    as_json: bool = False
    log: Path | None = None
    available_now: bool = False
    state_limit: str | None = None
    shed: str | None = None

    @property
    def as_run(self) -> Request:
        """What `watersmeet run` would have been asked for, as far as they have things in common."""
        place = self.folder.path / "server"
        return Request(
            file=place,
            available_now=self.available_now,
            trigger=self.trigger,
            checkpoint=str(place),
            log=self.log,
            state_limit=self.state_limit,
            shed=self.shed,
        )

    def command(self) -> str:
        """The command that resumes it."""
        words = ["watersmeet", "serve", str(self.folder.path)]
        words += ["--trigger", self.trigger] if self.trigger is not None else []
        words += ["--available-now"] if self.available_now else []
        words += ["--state-limit", self.state_limit] if self.state_limit is not None else []
        words += ["--shed", self.shed] if self.shed is not None else []
        words += ["--master", self.master] if self.master != DEFAULT_MASTER else []
        words += [word for setting in shown_settings(self.conf) for word in ("--conf", setting)]
        words += ["--log", str(self.log)] if self.log is not None else []
        return shlex.join([*words, *(["--json"] if self.as_json else [])])


def serve_dataflow(request: ServeRequest) -> int:
    """Serves until it is asked to stop or the dataflow fails; returns the exit code."""
    options = request.as_run.options()
    settings = parse_settings(request.conf)
    record = find_dataflow(request.folder, request.creation)
    with request.folder.serving():
        record = find_dataflow(request.folder, request.creation)  # another server may just have created it
        settings = add_packages(settings, _connectors(record, request.creation))
        log = open_log(request.as_run)
        try:
            with ExitStack() as stack:
                with tables_aside(request.as_json), waiting("starting Spark"):
                    session = stack.enter_context(spark_session(request.master, settings, log))
                return ServeRun(request, session, session.with_limit(options), log).follow(record)
        except KeyboardInterrupt:
            tell(f"left at once; to resume:\n  {request.command()}")
            return 130


def _connectors(record: RegistryRecord | None, creation: CreationOptions) -> tuple[Connector, ...]:
    if record is None:
        assert creation.streams is not None
        return connectors_of(creation.streams)
    declared = record.pipeline
    sources = (stream.source for stream in (*declared.streams, *declared.tables))
    return (*(each for each in sources if each is not None), *(sink.connector for sink in declared.sinks))


@dataclass
class ServeRun:
    """A shared dataflow while it is served."""

    request: ServeRequest
    session: Session
    options: RunOptions
    log: Path

    def follow(self, record: RegistryRecord | None) -> int:
        """Serves until it is asked to stop or the dataflow fails; returns the exit code."""
        with catch_stop() as stop:
            try:
                check = AnswerCheck(SparkCheck(self.session.spark))
                found = record or self._create(check)
                planner = ChangePlanner(check, self._statistics(Path(found.file)))
                tails = TailWriter(self.request.folder)
                with held_checkpoint(self.session.spark, found.checkpoint) as lock:
                    engine = SparkEngine(
                        self.session, found, tails, self.options, lock, statistics=planner.statistics
                    )
                    with self._display() as display, engine.dead_letters():
                        server = self._server(found, engine, planner, display)
                        server.serve(until=lambda: bool(stop))
            except Exception as error:
                return tell_failure(self.request.as_json, explained(error), self.log)
            if not stop and self.options.available_now and (server.failed or server.side_failures):
                failed = _failed(server.failed, server.side_failures)
                return tell_failure(self.request.as_json, failed, self.log)
            if not stop and self.options.available_now:
                self._tell_event("end")
                tell(f"everything that had arrived was read; to go on:\n  {self.request.command()}")
                return 0
            if not stop:
                ended = ConfigurationError("the Spark query has ended by itself")
                return tell_failure(self.request.as_json, ended, self.log)
            self._tell_stop()
            return stop.exit_code

    def _server(
        self, record: RegistryRecord, engine: SparkEngine, planner: ChangePlanner, display: Display
    ) -> Server:
        def show(progress: Progress) -> None:
            display.show(progress)
            trim_log(self.log)

        queries = sorted(record.staying)
        self._tell_event("start", dataflow=record.id, queries=queries, checkpoint=record.checkpoint)
        if not queries:
            tell(f"no query yet; to add one: watersmeet submit {self.request.folder.path} NAME FILE.sql")
        self._tell_beside(
            {n: query.beside for n, query in record.staying.items() if query.beside is not None}
        )
        for name, outage in record.failed.items():
            tell(f"query {name} has failed in batch {outage.since} and is left out: {outage.reason}")
        return Server(
            folder=self.request.folder,
            record=record,
            engine=engine,
            planner=planner,
            on_progress=show,
            on_progress_beside=lambda name, progress: display.show(progress, name),
            on_change=self._tell_change,
            on_refusal=self._tell_refusal,
            on_failure=self._tell_query_failure,
            on_side_failure=self._tell_side_failure,
        )

    def _create(self, check: AnswerCheck) -> RegistryRecord:
        spark = self.session.spark
        creation = self.request.creation
        planner = ChangePlanner(check, self._statistics(creation.streams))
        assert creation.streams is not None
        infer = InferredColumns(spark, creation.streams.parent)
        record = create_dataflow(
            self.request.folder,
            creation,
            partitions=int(spark.conf.get(PARTITIONS) or 1),
            infer=infer,
            planner=planner,
            newest=lambda checkpoint: newest_batch(Folder(spark, checkpoint)),
        )
        tell_inferred(self.request.as_json, infer.fresh)
        return record

    def _statistics(self, file: Path | None) -> Statistics | None:
        return None if file is None else statistics_beside(file)

    @contextmanager
    def _display(self) -> Iterator[Display]:
        # Lines, and beside the answers that are printed: queries that print may come at any time.
        console = Console(stderr=not self.request.as_json)
        with open_display(console, as_json=self.request.as_json, as_lines=True) as display:
            yield display

    def _tell_change(self, change: Change) -> None:
        named = {"added": change.added, "dropped": change.dropped, "resumed": change.resumed}
        facts = {kind: list(names) for kind, names in named.items()}
        self._tell_event("change", **facts, batch=change.batch, beside=dict(change.beside))
        signs = {"+": change.added, "-": change.dropped, "again": change.resumed}
        parts = [f"{sign} {_named(names)}" for sign, names in signs.items() if names]
        tell(f"from batch {change.batch} on: {', '.join(parts)}")
        self._tell_beside(change.beside)

    def _tell_beside(self, reasons: Mapping[str, str]) -> None:
        for name in [*reasons][:NAMED]:
            tell(f"query {name} runs beside the shared dataflow: {reasons[name]}")
        if len(reasons) > NAMED:
            tell(f"{len(reasons) - NAMED} more run beside it; watersmeet list says why")

    def _tell_refusal(self, refusal: str) -> None:
        self._tell_event("refused", message=refusal)
        tell(f"refused: {refusal}")

    def _tell_query_failure(self, query: Registration, outage: Outage) -> None:
        name, own = query.name, "" if query.beside is None else "its own "
        self._tell_event("query failed", query=name, batch=outage.since, message=outage.reason)
        tell(
            f"query {name} has failed and gives no answers from {own}batch {outage.since} on: "
            f"{outage.reason}\nThe others go on. To let it go on: watersmeet resume "
            f"{self.request.folder.path} {name}, or submit it with --replace"
        )

    def _tell_side_failure(self, name: str, failure: WatersmeetError) -> None:
        self._tell_event("query failed", query=name, message=str(failure))
        tell(f"query {name} has failed: {failure}\nThe others go on. It goes on when serve is started again")

    def _tell_stop(self) -> None:
        self._tell_event("stopped", resume=self.request.command())
        tell(
            "stopped; a batch that was running is repeated on resume, and nothing is lost or doubled. "
            f"To resume:\n  {self.request.command()}"
        )

    def _tell_event(self, event: str, **facts: Any) -> None:
        tell_event(self.request.as_json, event, **facts)


def _failed(failed: Mapping[str, Outage], beside: Mapping[str, WatersmeetError]) -> WatersmeetError:
    """The failures of all queries that have failed, those for dead letters included, as one."""
    lines = [
        f"query {name}, from batch {outage.since} on: {outage.reason}" for name, outage in failed.items()
    ]
    lines += [f"query {name}: {failure}" for name, failure in beside.items()]
    return WatersmeetError("\n  ".join([f"{len(lines)} of the queries have failed:", *lines]))


def _named(names: tuple[str, ...]) -> str:
    return " ".join(names) if len(names) <= NAMED else f"{len(names)} queries"

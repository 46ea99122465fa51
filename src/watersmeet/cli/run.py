"""`watersmeet run`: a pipeline file, followed until it ends or is stopped."""

from __future__ import annotations

from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from watersmeet.cli.options import DEFAULT_MASTER, Conf, Master, PipelineFile, PlanName, StatisticsFile
from watersmeet.cli.pipeline_files import connectors_of, read_declared, statistics_for
from watersmeet.cli.run_request import Request
from watersmeet.cli.spark_session import explained, parse_settings, spark_session, tables_aside
from watersmeet.cli.terminal.messages import (
    tell,
    tell_error,
    tell_event,
    tell_failure,
    tell_inferred,
    waiting,
)
from watersmeet.cli.terminal.progress_display import count, open_display
from watersmeet.cli.terminal.spark_log import open_log, trim_log
from watersmeet.cli.terminal.stop_signals import StopRequest, catch_stop
from watersmeet.errors import WatersmeetError
from watersmeet.plan.statistics.statistics import Statistics
from watersmeet.session import Session
from watersmeet.sites.run_site import SiteRequest, check_site_options, master_of, start_site
from watersmeet.spark.jobs.pipeline_run import AnyJob, PipelineRun
from watersmeet.spark.metrics.progress import Progress
from watersmeet.spark.session.packages import add_packages

SOME_FAILED = 3  # the exit code where some queries have failed and others have not


def run_command(
    file: PipelineFile,
    master: Master = DEFAULT_MASTER,
    available_now: Annotated[
        bool, typer.Option("--available-now", help="Process what the sources hold now, then end; resumable.")
    ] = False,
    flush: Annotated[
        bool,
        typer.Option("--flush", help="With --available-now: the input ends here; emit what still waits."),
    ] = False,
    trigger: Annotated[
        str | None, typer.Option(help="Start a batch this often, such as 1s.", metavar="DURATION")
    ] = None,
    checkpoint: Annotated[
        str | None,
        typer.Option(help="Where to keep state [default: .watersmeet beside the file].", metavar="DIR"),
    ] = None,
    conf: Conf = None,
    stats: StatisticsFile = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print progress as JSON, one event a line.")
    ] = False,
    log: Annotated[
        Path | None,
        typer.Option(help="Where Spark's own messages go [default: beside the checkpoint].", metavar="LOG"),
    ] = None,
    state_limit: Annotated[
        str | None,
        typer.Option(help="Memory for the state of each query, such as 2GB.", metavar="SIZE"),
    ] = None,
    shed: Annotated[
        str | None,
        typer.Option(
            help="Which tuples go when state is at its limit [default: random].",
            metavar="random|oldest|least|none",
        ),
    ] = None,
    hot_keys: Annotated[
        str | None,
        typer.Option(help="Whether to spread frequent values over buckets [default: on].", metavar="on|off"),
    ] = None,
    routing: Annotated[
        str | None,
        typer.Option(
            help="How tuples meet [default: whichever costs less].",
            metavar="auto|shares|pipeline|rewrite|native",
        ),
    ] = None,
    evolve: Annotated[
        bool,
        typer.Option(
            "--evolve", help="Let a query whose windows or filters have changed go on with the kept state."
        ),
    ] = False,
    accept_gap: Annotated[
        bool,
        typer.Option("--accept-gap", help="With --evolve: although some of its answers will be missing."),
    ] = False,
    site: Annotated[
        str | None,
        typer.Option(help="Run only this site's part of a plan across sites.", metavar="SITE"),
    ] = None,
    plan: PlanName = None,
) -> None:
    """Run a pipeline file and follow it; stop it with Ctrl-C, resume it with the same command."""
    request = Request(
        file=file,
        master=master,
        available_now=available_now,
        flush=flush,
        trigger=trigger,
        checkpoint=checkpoint,
        conf=tuple(conf or ()),
        stats=stats,
        as_json=as_json,
        log=log,
        state_limit=state_limit,
        shed=shed,
        hot_keys=hot_keys,
        routing=routing,
        evolve=evolve,
        accept_gap=accept_gap,
        site=site,
        plan=plan,
    )
    raise typer.Exit(run_pipeline(request))


def run_pipeline(request: Request) -> int:
    """Runs what was asked for; the exit code. Mistakes are found before Spark starts where they can be."""
    options = request.options()
    if request.site is not None:
        check_site_options(options)
        request = replace(request, master=master_of(request.file, request.site, request.master))
    settings = {**parse_settings(request.conf), **request.settings()}
    statistics = statistics_for(request.file, request.stats)
    read_declared(request.file)
    settings = add_packages(settings, connectors_of(request.file))
    log = open_log(request)
    try:
        with ExitStack() as stack:
            with tables_aside(request.as_json), waiting("starting Spark"):
                session = stack.enter_context(spark_session(request.master, settings, log))
            return Run(request, session, statistics, log).follow()
    except KeyboardInterrupt:
        tell(f"stopped without waiting; to resume:\n  {request.command()}")
        return 130


@dataclass
class Run:
    """A pipeline while it runs."""

    request: Request
    session: Session
    statistics: Statistics | None
    log: Path

    def follow(self) -> int:
        """Follows until all queries have ended or a stop is asked for; the exit code."""
        with catch_stop() as stop:
            run = self._start()
            try:
                self._show(run, stop)
                if not stop:
                    return self._report_end(run)
                self._report_stop()
                run.stop()
                if run.failures:
                    tell_error(run.failed())
            except Exception as error:
                failure = explained(error)
                with suppress(Exception):  # the JVM may be gone
                    run.stop()  # or the next run would take this one for killed
                return self._report_failure(run, failure)
            return stop.exit_code

    def _start(self) -> PipelineRun:
        try:
            run = self._started()
        except Exception as error:
            raise explained(error) from None
        tell_inferred(self.request.as_json, run.inferred)
        for name in run.ended:
            self._tell_event("passed_over", query=name)
            tell(f"{name} is passed over: an earlier --flush has ended its input, and it has all its answers")
        for name, said in run.changes.items():
            self._tell_event("changed", query=name, message="\n".join(said))
            for text in said:
                tell(f"{name}: {text}")
        return run

    def _started(self) -> PipelineRun:
        request = self.request
        if request.site is None:
            return self.session.start(
                request.file,
                checkpoint=request.checkpoint_root,
                options=request.options(),
                statistics=self.statistics,
                on_warning=self._report_warning,
            )
        part = SiteRequest(
            file=request.file,
            site=request.site,
            checkpoint=request.checkpoint_root,
            plan=request.plan,
            statistics=self.statistics,
        )
        return start_site(self.session, part, request.options())

    def _show(self, run: PipelineRun, stop: StopRequest) -> None:
        as_json, jobs = self.request.as_json, run.jobs
        prints = any(job.sink is None or job.sink.connector.format.lower() == "console" for job in jobs)
        # Printed answers would break up a screen that redraws itself.
        console = Console(stderr=prints and not as_json)
        self._tell_event("start", queries=[job.name for job in jobs], checkpoint=self.request.checkpoint_root)
        with open_display(console, title=str(self.request.file), as_json=as_json, as_lines=prints) as display:

            def show(job: AnyJob, progress: Progress) -> None:
                display.show(progress, job.name if as_json or len(jobs) > 1 else "")
                trim_log(self.log)

            run.follow(
                show,
                until=lambda: bool(stop),
                on_failure=self._report_query_failure,
                on_warning=self._report_warning,
            )

    def _report_warning(self, query: str, warning: str) -> None:
        self._tell_event("warning", query=query, message=warning)
        tell(f"warning: {query}: {warning}")

    def _report_query_failure(self, query: str, error: WatersmeetError, is_tried_again: bool) -> None:
        """Says at once that a query has failed; a failure of all is reported at the end, which is now."""
        self._tell_event("query_failed", query=query, message=str(error), again=is_tried_again)
        what = "has failed and is tried again" if is_tried_again else "has failed"
        tell(f"query {query} {what}: {error}")

    def _report_failure(self, run: PipelineRun, error: WatersmeetError) -> int:
        """Reports what has failed; another exit code where some queries have not."""
        self._report_totals(run)
        code = tell_failure(self.request.as_json, error, self.log)
        return SOME_FAILED if 0 < len(run.failures) < len(run.names) else code

    def _report_end(self, run: PipelineRun) -> int:
        self._tell_event("end")
        self._report_totals(run)
        if not run.progress:
            tell("there was nothing new to take")
        return 0

    def _report_totals(self, run: PipelineRun) -> None:
        for name, progress in sorted(run.progress.items()):
            bad = progress.totals.malformed
            malformed = f", {count(bad)} malformed messages left out" if bad else ""
            early = progress.totals.ahead
            ahead = f", {count(early)} too far ahead" if early else ""
            limited = (
                f", {count(progress.totals.shed)} tuples shed, {progress.totals.completeness:.1%} complete"
            )
            tell(
                f"{name}: {progress.totals.batches} batches, {count(progress.totals.rows)} rows, "
                f"{count(progress.totals.late)} late{ahead}, {count(progress.totals.answers)} answers"
                f"{malformed}{limited if progress.state_limit else ''}"
            )

    def _report_stop(self) -> None:
        self._tell_event("stopped", resume=self.request.command())
        tell(
            "stopping; a batch under way is done again on resume, and nothing is lost or repeated. "
            f"To resume:\n  {self.request.command()}"
        )

    def _tell_event(self, event: str, **facts: Any) -> None:
        tell_event(self.request.as_json, event, **facts)

"""`watersmeet sites`: all sites of a pipeline file as processes on this machine, and the bill at the end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from watersmeet.cli.options import Conf, PipelineFile, PlanName, StatisticsFile
from watersmeet.cli.pipeline_files import read_queries, statistics_for
from watersmeet.cli.run_request import ALL_SITES, Request
from watersmeet.cli.terminal.messages import tell, tell_error, tell_event
from watersmeet.cli.terminal.progress_display import count
from watersmeet.cli.terminal.spark_log import temporary_log
from watersmeet.cli.terminal.stop_signals import StopRequest, catch_stop
from watersmeet.errors import ConfigurationError
from watersmeet.plan.sites.advice import SiteOption
from watersmeet.plan.sites.placement import place
from watersmeet.plan.sites.site_program import SiteProgram, site_programs
from watersmeet.sites.bill import Bill, draw_up
from watersmeet.sites.choose_plan import choose_plan, plan_of
from watersmeet.sites.run_site import ALL_CORES, check_site_options, link_folder
from watersmeet.spark.jobs.pipeline_file import absolute_checkpoint, read_source
from watersmeet.spark.storage.disk import make_private
from watersmeet.spark.storage.paths import local_path
from watersmeet.sql import parse_statements

POLL_S = 0.2
PATIENCE_S = 90.0  # for sites that were asked to stop


def sites_command(
    file: PipelineFile,
    available_now: Annotated[
        bool, typer.Option("--available-now", help="With --flush: process what the sources hold, then end.")
    ] = False,
    flush: Annotated[
        bool, typer.Option("--flush", help="With --available-now: the input of all sites ends here.")
    ] = False,
    trigger: Annotated[
        str | None, typer.Option(help="Start a batch this often, such as 1s.", metavar="DURATION")
    ] = None,
    checkpoint: Annotated[
        str | None,
        typer.Option(help="Where to keep state and links [default: .watersmeet beside it].", metavar="DIR"),
    ] = None,
    conf: Conf = None,
    stats: StatisticsFile = None,
    plan: PlanName = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print progress as JSON, one event a line.")
    ] = False,
) -> None:
    """Run all sites of a pipeline file here, each with a Spark of its own; say what crossed each link."""
    request = Request(
        file=file,
        available_now=available_now,
        flush=flush,
        trigger=trigger,
        checkpoint=checkpoint,
        conf=tuple(conf or ()),
        stats=stats,
        plan=plan,
        as_json=as_json,
        site=ALL_SITES,
    )
    raise typer.Exit(run_sites(request))


def run_sites(request: Request) -> int:
    """Runs all sites until they have ended, one has failed, or a stop is asked for; the exit code."""
    check_site_options(request.options())
    bills = _Bills(request)
    fleet = Fleet(request, bills.sites)
    with catch_stop() as stop:
        code = fleet.follow(stop)
    for bill in bills.draw_up():
        tell_event(request.as_json, "bill", **bill.to_json())
        tell(f"\n{bill.pretty()}")
    if stop:
        tell(f"\nstopped; to resume:\n  {request.command()}")
    return stop.exit_code or code


class _Bills:
    """The plans of a file's queries, and what has crossed their links."""

    def __init__(self, request: Request) -> None:
        source = read_source(request.file)
        self._statements = parse_statements(source.text, source.file)
        self._request = request
        statistics = statistics_for(request.file, request.stats)
        command = f"watersmeet analyze {request.file}"
        self._options: dict[str, SiteOption] = {}
        self._programs: dict[str, dict[str, SiteProgram]] = {}
        for name, query in read_queries(request.file, ALL_CORES).items():
            option = choose_plan(query, statistics, request.plan, command=command)
            self._options[name] = option
            self._programs[name] = site_programs(query, place(query, plan_of(option)))
            tell(f"{name}: {option.name}")

    @property
    def sites(self) -> tuple[str, ...]:
        """The sites of all queries."""
        return tuple(dict.fromkeys(site for programs in self._programs.values() for site in programs))

    def draw_up(self) -> list[Bill]:
        root, base = absolute_checkpoint(self._request.checkpoint_root), self._request.file.parent
        bills = []
        for name, programs in self._programs.items():
            ways = [(program.site, target) for program in programs.values() for target in program.targets]
            folders = {way: link_folder(self._statements.links, root, name, way, base) for way in ways}
            bills.append(draw_up(name, self._options[name], programs.values(), folders))
        return bills


def _log_folder(request: Request) -> Path:
    """Where the logs of Spark go: the checkpoint, if it is on a disk of this machine."""
    root = local_path(absolute_checkpoint(request.checkpoint_root))
    if root is None:
        return temporary_log().parent
    try:
        make_private(root)
    except OSError as error:
        raise ConfigurationError(f"the checkpoint {root} cannot be made: {error.strerror}") from None
    return root


@dataclass
class Member:
    """One site's process, and what it has said last."""

    site: str
    process: subprocess.Popen[str]
    log: Path
    batches: int = 0
    rows: int = 0
    late: int = 0
    answers: int = 0
    failures: list[str] = field(default_factory=list)

    def note(self, event: Mapping[str, Any]) -> None:
        """Takes an event that the process has printed."""
        if "batch_id" in event:
            self.batches, self.rows = event["total_batches"], event["total_rows"]
            self.late, self.answers = event["total_late"], event["total_answers"]
        elif event.get("event") == "failed":
            self.failures.append(str(event["message"]))

    def pretty(self) -> str:
        return (
            f"{self.site}: {count(self.batches)} batches, {count(self.rows)} rows, {count(self.late)} late, "
            f"{count(self.answers)} answers"
        )


class Fleet:
    """The processes of all sites: started together, followed, stopped together."""

    def __init__(self, request: Request, sites: tuple[str, ...]) -> None:
        self._request = request
        self._folder = _log_folder(request)
        self._members = [self._start(site) for site in sites]
        self._readers = [
            threading.Thread(target=self._read, args=(member,), daemon=True) for member in self._members
        ]
        for reader in self._readers:
            reader.start()

    def follow(self, stop: StopRequest) -> int:
        """Waits for the end of all; where one fails, or a stop is asked for, all are stopped."""
        while True:
            has_ended = all(member.process.poll() is not None for member in self._members)
            failed = [member for member in self._members if member.process.poll() not in (None, 0)]
            if stop or failed or has_ended:
                break
            time.sleep(POLL_S)
        self._stop_all()
        for reader in self._readers:
            reader.join(POLL_S * 10)
        for member in self._members:
            tell(member.pretty())
        if stop:
            return 0
        for member in failed:  # the others were stopped because of them
            said = "; ".join(member.failures) or f"it ended with exit code {member.process.returncode}"
            tell_error(f"site {member.site}: {said}\nSpark's own messages are in {member.log}")
        codes = [member.process.returncode for member in failed]
        return max((code if code > 0 else 1 for code in codes), default=0)

    def _start(self, site: str) -> Member:
        log = self._folder / f"{site}.log"
        asked = replace(self._request, site=site, as_json=True, log=log)
        command = [sys.executable, "-m", *asked.words(asked.conf)]
        # A session of its own: Ctrl-C reaches this process, which tells the sites once, in its own time.
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
            env={**os.environ},
        )
        return Member(site, process, log)

    def _read(self, member: Member) -> None:
        assert member.process.stdout is not None
        for line in member.process.stdout:
            try:
                event = json.loads(line)
            except ValueError:
                print(line, end="", flush=True)  # answers that have no sink
                continue
            member.note(event)
            tell_event(self._request.as_json, "site", site=member.site, said=event)
            if "batch_id" in event and not self._request.as_json:
                tell(member.pretty())

    def _stop_all(self) -> None:
        for member in self._members:
            if member.process.poll() is None:
                member.process.send_signal(signal.SIGINT)
        deadline = time.monotonic() + PATIENCE_S
        for member in self._members:
            try:
                member.process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                member.process.kill()  # nothing is lost: it resumes from its checkpoint
                member.process.wait()

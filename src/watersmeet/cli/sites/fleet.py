"""The processes of all sites: started together, followed on one screen, stopped together."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.live import Live

from watersmeet.cli.run_request import Request
from watersmeet.cli.sites.plans import Plans, RunningPlan
from watersmeet.cli.sites.replanner import AUTO, OFF, Replanner
from watersmeet.cli.sites.show_sites import RUNNING, SiteReport, link_lines, render_sites
from watersmeet.cli.terminal.messages import tell, tell_error, tell_event
from watersmeet.cli.terminal.spark_log import temporary_log
from watersmeet.cli.terminal.stop_signals import StopRequest
from watersmeet.errors import ConfigurationError
from watersmeet.sites.replan import Proposal
from watersmeet.spark.jobs.pipeline_file import absolute_checkpoint
from watersmeet.spark.storage.disk import make_private
from watersmeet.spark.storage.paths import local_path

POLL_S = 0.2
PATIENCE_S = 90.0  # for sites that were asked to stop

Changes = list[tuple[RunningPlan, Proposal]]


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
    """One site's process, and what it has said."""

    process: subprocess.Popen[str]
    log: Path
    report: SiteReport
    failures: list[str] = field(default_factory=list)

    @property
    def site(self) -> str:
        return self.report.site

    def note(self, event: Mapping[str, Any]) -> bool:
        """Takes an event that the process has printed; whether there is something new to show."""
        if event.get("event") == "failed":
            self.failures.append(str(event["message"]))
        if event.get("event") == "query_failed":
            self.report.state = f"tries again: {event['message']}" if event["again"] else "failed"
            return True
        if event.get("event") == "end":
            self.report.state = "has ended"
            return True
        is_progress = self.report.note(event)
        if is_progress:
            self.report.state = RUNNING
        return is_progress


class Fleet:
    """The processes of all sites."""

    def __init__(self, request: Request, plans: Plans, replanner: Replanner) -> None:
        self._request = request
        self._predicted = plans.predicted
        self._replanner = replanner
        self._changes: Changes = []
        self._folder = _log_folder(request)
        self._members = [self._start(site) for site in plans.sites]
        self._readers = [
            threading.Thread(target=self._read, args=(member,), daemon=True) for member in self._members
        ]
        for reader in self._readers:
            reader.start()

    @property
    def reports(self) -> list[SiteReport]:
        return [member.report for member in self._members]

    def follow(self, stop: StopRequest) -> tuple[int, Changes]:
        """Waits for the end of all; where one fails, or a stop is asked for, all are stopped.

        So they are where plans are to change: then with the changes, else with the exit code.
        """
        with self._screen() as show:
            failed = self._wait(stop, show)
            self._stop_all()
            for reader in self._readers:
                reader.join(POLL_S * 10)
            show()
        for member in self._members:
            tell(member.report.pretty())
        if stop or self._changes:
            return 0, self._changes
        for member in failed:  # the others were stopped because of them
            said = "; ".join(member.failures) or f"it ended with exit code {member.process.returncode}"
            tell_error(f"site {member.site}: {said}\nSpark's own messages are in {member.log}")
        codes = [member.process.returncode for member in failed]
        return max((code if code > 0 else 1 for code in codes), default=0), []

    def _wait(self, stop: StopRequest, show: Callable[[], None]) -> list[Member]:
        """Waits until all have ended, one has failed, or a stop is asked for; those that have failed."""
        while True:
            has_ended = all(member.process.poll() is not None for member in self._members)
            failed = [member for member in self._members if member.process.poll() not in (None, 0)]
            if stop or failed or has_ended:
                return failed
            changes = self._replanner.due()
            if changes and self._request.replan == AUTO:
                self._changes = changes
                return []
            show()
            time.sleep(POLL_S)

    @contextmanager
    def _screen(self) -> Iterator[Callable[[], None]]:
        """What draws the screen anew; nothing where there is none, as each batch is a line there."""
        console = Console(stderr=True)
        if not self._has_screen:
            yield lambda: None
            return
        with Live(console=console, auto_refresh=False) as live:
            title = str(self._request.file)
            yield lambda: live.update(render_sites(self.reports, title, self._predicted), refresh=True)

    @property
    def _has_screen(self) -> bool:
        return Console(stderr=True).is_terminal and not self._request.as_json

    def _start(self, site: str) -> Member:
        log = self._folder / f"{site}.log"
        asked = replace(self._request, site=site, as_json=True, log=log, replan=OFF)
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
        return Member(process, log, SiteReport(site))

    def _read(self, member: Member) -> None:
        assert member.process.stdout is not None
        for line in member.process.stdout:
            try:
                event = json.loads(line)
            except ValueError:
                print(line, end="", flush=True)  # answers that have no sink
                continue
            is_new = member.note(event)
            self._replanner.note(event)
            tell_event(self._request.as_json, "site", site=member.site, said=event)
            if is_new and not self._request.as_json and not self._has_screen:
                tell(member.report.pretty())
                for link in link_lines(self.reports):
                    if link.waiting and link.source == member.site:
                        tell(f"  {link.source} -> {link.target}: {link.waiting}")

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

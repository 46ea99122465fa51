"""The loop that serves a shared dataflow: it runs, and changes when requests wait.

A change is planned while the dataflow runs. Then the Spark query is stopped, the new set of queries is
written down with the first micro-batch it holds for, and the Spark query resumes from its checkpoint. That
batch is the one after the newest in Spark's log: a batch that is repeated after a crash is repeated with the
queries it had.

    batch 7 is running, a request waits -> batch 7 ends, stop -> dataflow.json: since 8 -> start: batch 8

Killed at any point, a server leaves either the old set and the request, or the new set and the reply to it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol

from watersmeet.errors import WatersmeetError
from watersmeet.serve.registry.changes import BoundDataflow, ChangePlanner, PlannedChange
from watersmeet.serve.registry.folder import RegistryFolder
from watersmeet.serve.registry.record import RegistryRecord, write_record
from watersmeet.serve.registry.requests import Mailbox, Reply, Request
from watersmeet.serve.registry.status import Status, read_status
from watersmeet.serve.registry.tail_files import TailWriter
from watersmeet.spark.metrics.progress import Progress

POLL_S = 0.2
PATIENCE_S = 5.0  # for a running batch to end; otherwise it is repeated, which only takes longer
HEARTBEAT_S = 1.0
SWEEP_S = 10.0


class RunningJob(Protocol):
    """The Spark query of a shared dataflow."""

    progress: Progress | None

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def is_running(self) -> bool: ...

    def poll(self) -> list[Progress]: ...


class Engine(Protocol):
    """What runs a shared dataflow."""

    def job(self, current: BoundDataflow, before: Progress | None) -> RunningJob:
        """The job that runs a dataflow with its present queries; totals continue from `before`."""

    def check_side_queries(self) -> None:
        """Raises the failure of anything that runs beside the dataflow."""

    def newest(self) -> int:
        """The newest micro-batch in Spark's log, -1 if there is none; the next one has the next number."""

    def committed(self) -> int:
        """The newest micro-batch that will not be repeated, -1 if there is none."""


@dataclass(frozen=True)
class Change:
    """A change that was made: the names of queries added and dropped, and the batch it begins with."""

    added: tuple[str, ...]
    dropped: tuple[str, ...]
    batch: int


@dataclass(kw_only=True)
class Server:
    """Serves the dataflow of a folder; to be used by the process that holds its lock."""

    folder: RegistryFolder
    record: RegistryRecord
    engine: Engine
    planner: ChangePlanner
    on_progress: Callable[[Progress], None] = lambda progress: None
    on_change: Callable[[Change], None] = lambda change: None
    on_refusal: Callable[[str], None] = lambda refusal: None
    _current: BoundDataflow = field(init=False)
    _job: RunningJob | None = None
    _progress: Progress | None = None
    _reported_at: float = float("-inf")
    _swept_at: float = float("-inf")

    def serve(self, until: Callable[[], bool]) -> None:
        """Runs the dataflow until `until` holds; raises what makes it fail."""
        before = read_status(self.folder)
        try:
            self._current = self.planner.bind(self.record.without_ended(self.engine.committed()))
            # A query that made the dataflow fail could never be dropped if the failing batch kept it.
            self._change(fresh_start=before is not None and before.failure is not None)
            self._start()
            while not until() and self._advance():
                time.sleep(POLL_S)
        except WatersmeetError as error:
            self._report(failure=str(error))
            raise
        finally:
            if self._job is not None:
                self._job.stop()
        self._report()

    def _start(self) -> None:
        self._job = self.engine.job(self._current, self._progress)
        self._job.start()
        self._report()

    def _advance(self) -> bool:
        """One round; False when the Spark query has ended by itself."""
        assert self._job is not None
        self.engine.check_side_queries()
        running = self._job.is_running()
        self._show(self._job)
        if not running:
            return False
        self._change()
        now = time.monotonic()
        if now - self._reported_at > HEARTBEAT_S:
            self._report()
        if now - self._swept_at > SWEEP_S:
            self._swept_at = now
            self._mailbox.sweep()
            TailWriter(self.folder).sweep()
        return True

    def _show(self, job: RunningJob) -> None:
        for progress in job.poll():
            self._progress = progress
            self.on_progress(progress)

    @property
    def _mailbox(self) -> Mailbox:
        return Mailbox(self.folder)

    def _change(self, *, fresh_start: bool = False) -> None:
        """Handles the requests that wait."""
        requests = self._open_requests()
        if not requests:
            return
        change = self.planner.plan(self._current, requests)
        for request_id, refusal in change.refused.items():
            self._mailbox.reply(request_id, Reply(refusal=refusal))
            self.on_refusal(refusal)
        if not change.accepted:
            return
        job = self._job
        if job is not None:
            self._await_batch_end(job)
            job.stop()
            self._show(job)
        batch = (self.engine.committed() if fresh_start else self.engine.newest()) + 1
        self._apply(change, batch)
        if job is not None:
            self._start()

    def _open_requests(self) -> dict[str, Request]:
        """The requests to decide on; those handled before a crash just get their reply again."""
        requests: dict[str, Request] = {}
        for request_id in self._mailbox.pending():
            if (reply := self._current.record.handled.get(request_id)) is not None:
                self._mailbox.reply(request_id, reply)
                continue
            try:
                request = self._mailbox.open(request_id)
            except WatersmeetError as error:
                self._mailbox.reply(request_id, Reply(refusal=str(error)))
                continue
            if request is not None:
                requests[request_id] = request
        return requests

    def _apply(self, change: PlannedChange, batch: int) -> None:
        """Writes a change down, together with the replies to its requests."""
        before = self._current
        reply = Reply(batch=batch)
        settled = change.result.settled(batch)
        record = replace(
            settled.record.without_ended(self.engine.committed()),
            handled=dict.fromkeys(change.accepted, reply),
        )
        left = {query.number for query in record.queries}
        dataflow = settled.dataflow.only(tail for tail in settled.dataflow.tails if tail.number in left)
        bound = {number: query for number, query in settled.queries.items() if number in left}
        write_record(self.folder, replace(record, dataflow=dataflow))
        self._current = BoundDataflow(replace(record, dataflow=dataflow), bound, dataflow)
        for request_id in change.accepted:
            self._mailbox.reply(request_id, reply)
        was, now = before.record.staying, record.staying
        self.on_change(
            Change(
                tuple(n for n, q in now.items() if n not in was or was[n].number != q.number),
                tuple(n for n, q in was.items() if n not in now or now[n].number != q.number),
                batch,
            )
        )

    def _await_batch_end(self, job: RunningJob) -> None:
        """Waits until no batch runs, or another one does, or patience ends."""
        began = self.engine.committed()
        deadline = time.monotonic() + PATIENCE_S
        while job.is_running() and time.monotonic() < deadline:
            committed = self.engine.committed()
            if committed > began or committed == self.engine.newest():
                return
            time.sleep(0.05)

    def _report(self, *, failure: str | None = None) -> None:
        self._reported_at = time.monotonic()
        progress = None if self._progress is None else self._progress.as_json()
        Status(progress=progress, failure=failure).write(self.folder)

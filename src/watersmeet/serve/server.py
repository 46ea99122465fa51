"""The loop that serves a ring: it runs, and where requests wait, it changes.

A change is planned while the ring runs. Then the Spark query is stopped, the new set is written down with the
first micro-batch it holds for, and the Spark query goes on from its checkpoint. That batch is the one after
the newest that Spark has noted down: a batch that is done again is done with the queries it had.

    batch 7 is under way, a request waits -> batch 7 ends, stop -> ring.json: since 8 -> start: batch 8

Killed at any point, a server leaves either the old set and the request, or the new set and the reply to it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol

from watersmeet.errors import WatersmeetError
from watersmeet.serve.registry.changes import Judge, Judgement, Standing
from watersmeet.serve.registry.folder import RegistryFolder
from watersmeet.serve.registry.record import RegistryRecord, write_record
from watersmeet.serve.registry.requests import Mailbox, Reply, Request
from watersmeet.serve.registry.status import Status, read_status
from watersmeet.serve.registry.tails import Tails
from watersmeet.spark.metrics.progress import Progress

POLL_S = 0.2
PATIENCE_S = 5.0  # for a batch under way to end; it is done again otherwise, which only takes longer
HEARTBEAT_S = 1.0
SWEEP_S = 10.0


class RunningJob(Protocol):
    """The Spark query of a ring."""

    progress: Progress | None

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def is_running(self) -> bool: ...

    def poll(self) -> list[Progress]: ...


class Engine(Protocol):
    """What runs a ring."""

    @property
    def process(self) -> int | None:
        """That of Spark, if it has one of its own."""

    def job(self, standing: Standing, before: Progress | None) -> RunningJob:
        """The query that runs a ring as it stands; totals go on from those before."""

    def look_after(self) -> None:
        """Raises what has made anything fail that runs beside the ring."""

    def newest(self) -> int:
        """The newest micro-batch that is noted down, -1 if none is; the next one has the next number."""

    def committed(self) -> int:
        """The newest micro-batch that will not be done again, -1 if there is none."""


@dataclass(frozen=True)
class Change:
    """A change that was made: the names of queries that came and went, and the batch it begins with."""

    added: tuple[str, ...]
    dropped: tuple[str, ...]
    batch: int


@dataclass
class Server:
    """Serves the ring of a folder; to be used by the process that holds its lock."""

    folder: RegistryFolder
    record: RegistryRecord
    engine: Engine
    judge: Judge
    on_progress: Callable[[Progress], None] = lambda progress: None
    on_change: Callable[[Change], None] = lambda change: None
    on_refusal: Callable[[str], None] = lambda refusal: None
    _standing: Standing = field(init=False)
    _job: RunningJob | None = None
    _progress: Progress | None = None
    _told_at: float = float("-inf")
    _swept_at: float = float("-inf")

    def serve(self, until: Callable[[], bool]) -> None:
        """Runs the ring until `until` says so; raises what makes it fail."""
        before = read_status(self.folder)
        try:
            self._standing = self.judge.stand(self.record.without_over(self.engine.committed()))
            # A query that made the ring fail could never be dropped if the batch that fails kept it.
            self._change(fresh_start=before is not None and before.failure is not None)
            self._start()
            while not until() and self._go_on():
                time.sleep(POLL_S)
        except WatersmeetError as error:
            self._tell(failure=str(error))
            raise
        finally:
            if self._job is not None:
                self._job.stop()
        self._tell(ended=True)

    def _start(self) -> None:
        self._job = self.engine.job(self._standing, self._progress)
        self._job.start()
        self._tell()

    def _go_on(self) -> bool:
        """One round; False when the Spark query has ended by itself."""
        assert self._job is not None
        self.engine.look_after()
        running = self._job.is_running()
        self._show(self._job)
        if not running:
            return False
        self._change()
        now = time.monotonic()
        if now - self._told_at > HEARTBEAT_S:
            self._tell()
        if now - self._swept_at > SWEEP_S:
            self._swept_at = now
            self._mailbox.sweep()
            Tails(self.folder).sweep()
        return True

    def _show(self, job: RunningJob) -> None:
        for progress in job.poll():
            self._progress = progress
            self.on_progress(progress)

    @property
    def _mailbox(self) -> Mailbox:
        return Mailbox(self.folder)

    def _change(self, *, fresh_start: bool = False) -> None:
        """Takes the requests that wait."""
        requests = self._open_requests()
        if not requests:
            return
        judgement = self.judge.judge(self._standing, requests)
        for request_id, refusal in judgement.refused.items():
            self._mailbox.reply(request_id, Reply(refusal=refusal))
            self.on_refusal(refusal)
        if not judgement.taken:
            return
        job = self._job
        if job is not None:
            self._await_batch_end(job)
            job.stop()
            self._show(job)
        batch = (self.engine.committed() if fresh_start else self.engine.newest()) + 1
        self._make(judgement, batch)
        if job is not None:
            self._start()

    def _open_requests(self) -> dict[str, Request]:
        """The requests to decide on; those that were handled before a crash only get their reply again."""
        requests: dict[str, Request] = {}
        for request_id in self._mailbox.pending():
            if (reply := self._standing.record.handled.get(request_id)) is not None:
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

    def _make(self, judgement: Judgement, batch: int) -> None:
        """Writes a change down, in one piece with the replies to it."""
        before = self._standing
        reply = Reply(batch=batch).to_json()
        settled = judgement.standing.settled(batch)
        record = replace(
            settled.record.without_over(self.engine.committed()),
            handled=dict.fromkeys(judgement.taken, reply),
        )
        left = {query.number for query in record.queries}
        dataflow = settled.dataflow.only(tail for tail in settled.dataflow.tails if tail.number in left)
        bound = {number: query for number, query in settled.bound.items() if number in left}
        write_record(self.folder, replace(record, dataflow=dataflow))
        self._standing = Standing(replace(record, dataflow=dataflow), bound, dataflow)
        for request_id in judgement.taken:
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
        """Waits until no batch is under way, or another one is, or patience ends."""
        began = self.engine.committed()
        deadline = time.monotonic() + PATIENCE_S
        while job.is_running() and time.monotonic() < deadline:
            committed = self.engine.committed()
            if committed > began or committed == self.engine.newest():
                return
            time.sleep(0.05)

    def _tell(self, *, failure: str | None = None, ended: bool = False) -> None:
        self._told_at = time.monotonic()
        progress = None if self._progress is None else self._progress.as_json()
        jvm = None if ended else self.engine.process
        Status(jvm=jvm, progress=progress, failure=failure).write(self.folder)

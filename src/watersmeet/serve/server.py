"""The loop that serves a shared dataflow: it runs, and changes when requests wait.

A change is planned while the dataflow runs. Then the Spark query is stopped, the new set of queries is
written down with the first micro-batch it holds for, and the Spark query resumes from its checkpoint. That
batch is the one after the newest in Spark's log: a batch that is repeated after a crash is repeated with the
queries it had. A change waits for the batch that runs or starts when its first request is found, however long
that takes, and takes all requests that come meanwhile. So one batch at least ends between two changes.

    batch 7 is running, a request waits -> batch 7 ends, stop -> dataflow.json: since 8 -> start: batch 8

A query that makes a batch fail is stopped, from that batch on, and the batch is done again without it
(`quarantine.py`).

Queries that cannot share the dataflow run beside it, a streaming query each (`beside.py`). A change of these
alone does not stop the dataflow, and one of the dataflow does not stop them.

Killed at any point, a server leaves either the old set and the request, or the new set and the reply to it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Protocol

from watersmeet.errors import WatersmeetError
from watersmeet.serve.beside import BesideQueries, SideEngine, SideFailure
from watersmeet.serve.quarantine import find_by_trial, first_batch, outage_of, stop_queries
from watersmeet.serve.registry.changes import BoundDataflow, ChangePlanner, PlannedChange
from watersmeet.serve.registry.folder import RegistryFolder
from watersmeet.serve.registry.record import Outage, Registration, RegistryRecord, write_record
from watersmeet.serve.registry.requests import Mailbox, Reply, Request
from watersmeet.serve.registry.status import Status, read_status
from watersmeet.serve.registry.tail_files import TailWriter
from watersmeet.spark.metrics.progress import Progress
from watersmeet.spark.multiquery.culprits import Blame
from watersmeet.spark.session.failures import explain_failure

POLL_S = 0.2
WAIT_POLL_S = 0.05  # while a request waits for a batch to end
QUIET_S = 3.0  # without a batch since its start, after which there seems to be nothing to make one of
HEARTBEAT_S = 1.0
SWEEP_S = 10.0


class RunningJob(Protocol):
    """The Spark query of a shared dataflow."""

    progress: Progress | None

    @property
    def blamed(self) -> Mapping[int, Blame]:
        """The queries that have made it fail, by number; none if no single one has."""

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def is_running(self) -> bool: ...

    def is_settled(self) -> bool:
        """Whether its start is over: it has done a batch, or waits for tuples."""

    def poll(self) -> list[Progress]: ...


class Engine(SideEngine, Protocol):
    """What runs a shared dataflow, and the queries beside it."""

    def job(self, current: BoundDataflow, before: Progress | None) -> RunningJob:
        """The job that runs a dataflow with its present queries; totals continue from `before`."""

    def trial(self, current: BoundDataflow) -> WatersmeetError | None:
        """What the batch under way fails with, given these queries, before any sink gets anything of it."""

    def check_side_queries(self) -> Mapping[str, WatersmeetError]:
        """What has made queries for dead letters fail, by name; raises if nothing may go on."""

    def side_queries_run(self) -> bool:
        """Whether queries for dead letters have more to do before they end by themselves."""

    @property
    def is_finite(self) -> bool:
        """Whether everything ends by itself when it has read what there is."""

    def check_alive(self) -> None:
        """Raises if Spark itself has ended, so that no query is to blame for a failure."""

    def newest(self) -> int:
        """The newest micro-batch in Spark's log, -1 if there is none; the next one has the next number."""

    def committed(self) -> int:
        """The newest micro-batch that will not be repeated, -1 if there is none."""


@dataclass(frozen=True)
class Change:
    """A change that was made: the queries added, dropped and resumed, by name, and its first batch.

    Of those added, some run `beside` the dataflow, each for a reason.
    """

    added: tuple[str, ...]
    dropped: tuple[str, ...]
    batch: int
    resumed: tuple[str, ...] = ()
    beside: Mapping[str, str] = field(default_factory=dict)


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
    on_failure: Callable[[Registration, Outage], None] = lambda query, outage: None
    on_side_failure: Callable[[str, WatersmeetError], None] = lambda name, failure: None
    on_progress_beside: Callable[[str, Progress], None] = lambda name, progress: None
    _beside: BesideQueries = field(init=False)
    _current: BoundDataflow = field(init=False)
    _job: RunningJob | None = None
    _planned: PlannedChange | None = None
    _planned_from: BoundDataflow | None = None
    _seen_at: int | None = None  # the newest batch that had ended when the requests of a change were found
    _started_after: int = -1  # the newest batch that had ended when the job was started
    _quiet_since: float | None = None  # when the job was first seen to have nothing to do
    _side_failures: Mapping[str, WatersmeetError] = field(default_factory=dict)
    _progress: Progress | None = None
    _reported_at: float = float("-inf")
    _swept_at: float = float("-inf")

    def serve(self, until: Callable[[], bool]) -> None:
        """Runs the dataflow until `until` holds; raises what makes it fail."""
        before = read_status(self.folder)
        self._beside = BesideQueries(self.engine)
        try:
            self._current = self.planner.bind(self.record.without_ended(self.engine.committed()))
            # A query that made the dataflow fail could never be dropped if the failing batch kept it.
            self._change(fresh_start=before is not None and before.failure is not None)
            self._beside.run(self._current)
            self._start()
            while not until() and self._advance():
                time.sleep(POLL_S if self._seen_at is None else WAIT_POLL_S)
        except Exception as error:
            with suppress(WatersmeetError):  # where even this cannot be written
                self._report(failure=str(explain_failure(error)))
            raise
        finally:
            try:
                if self._job is not None:
                    self._job.stop()
            finally:
                self._beside.stop()
        self._report()

    @property
    def failed(self) -> dict[str, Outage]:
        """What has stopped each query that has failed, by name."""
        return self._current.record.failed

    @property
    def side_failures(self) -> Mapping[str, WatersmeetError]:
        """What has made queries for dead letters fail, by name."""
        return self._side_failures

    def _start(self) -> None:
        """Starts the dataflow, without queries that keep it from starting."""
        while True:
            self._job = self.engine.job(self._current, self._progress)
            self._started_after, self._quiet_since = self.engine.committed(), None
            try:
                self._job.start()
                break
            except WatersmeetError as error:
                self._quarantine(self._job, error)
        self._report()

    def _advance(self) -> bool:
        """One round; False when everything has ended by itself."""
        job = self._job
        assert job is not None
        self._check_side_queries()
        self._follow_beside()
        try:
            running = job.is_running()
            self._show(job)
        except WatersmeetError as error:
            self._go_on_without(job, error)
            return True
        if time.monotonic() - self._reported_at > HEARTBEAT_S:
            self._report()
        if not running:
            others = [self.engine.side_queries_run(), self.engine.is_finite and self._beside.is_running()]
            self._check_side_queries()
            self._follow_beside()
            return any(others)
        self._change()
        now = time.monotonic()
        if now - self._swept_at > SWEEP_S:
            self._swept_at = now
            self._mailbox.sweep()
            TailWriter(self.folder).sweep()
        return True

    def _check_side_queries(self) -> None:
        failures = self.engine.check_side_queries()
        for name, failure in failures.items():
            if name not in self._side_failures:
                self.on_side_failure(name, failure)
        self._side_failures = failures

    def _follow_beside(self) -> None:
        """Follows the queries beside the dataflow; those that have failed are stopped, and no other."""
        news = self._beside.advance()
        for name, progress in news.batches:
            self.on_progress_beside(name, progress)
        if news.failures:
            self.engine.check_alive()
            self._quarantine_beside(news.failures)

    def _quarantine_beside(self, failures: Mapping[int, SideFailure]) -> None:
        record = self._current.record
        queries = tuple(
            replace(query, outage=outage_of(failure.error, failure.batch))
            if (failure := failures.get(query.number)) is not None
            else query
            for query in record.queries
        )
        self._current = replace(self._current, record=replace(record, queries=queries))
        write_record(self.folder, self._current.record)
        for query in queries:
            if query.number in failures and query.failure is not None:
                self.on_failure(query, query.failure)

    def _go_on_without(self, job: RunningJob, error: WatersmeetError) -> None:
        """Does the failed batch again without the queries that are to blame; raises where none is."""
        job.stop()
        self._quarantine(job, error)
        self._start()

    def _quarantine(self, job: RunningJob, error: WatersmeetError) -> None:
        """Stops the queries that are to blame for a failure, and writes that down; raises where none is."""
        blamed = dict(job.blamed) or find_by_trial(self._current, self.planner, self.engine)
        committed = self.engine.committed()
        left = self._current.record.without_ended(committed)
        self._current = stop_queries(self._current, self.planner, left, blamed, committed + 1, error)
        write_record(self.folder, self._current.record)
        for query in self._current.record.queries:
            if query.number in blamed and query.failure is not None:
                self.on_failure(query, query.failure)

    def _show(self, job: RunningJob) -> None:
        for progress in job.poll():
            self._progress = progress
            self.on_progress(progress)

    @property
    def _mailbox(self) -> Mailbox:
        return Mailbox(self.folder)

    def _change(self, *, fresh_start: bool = False) -> None:
        """Handles the requests that wait, when the batch has ended that ran when they were found."""
        requests = self._open_requests()
        if not requests:
            self._seen_at = None
            return
        change = self._plan(requests)
        job = self._job
        if not change.accepted:
            return
        if job is not None and change.result.record.shared == self._current.record.shared:
            self._apply(change, self.engine.newest() + 1, self._started_after)
            return
        if job is not None and not self._has_ended_a_batch(job):
            return
        if job is not None:
            job.stop()
            try:
                self._show(job)
            except WatersmeetError as error:  # before it could be stopped; the requests are handled next time
                self._seen_at = None
                if job.blamed:
                    self._go_on_without(job, error)
                else:
                    self._start()  # nobody looks for culprits in what is being stopped: the batch fails again
                return
        batch = (self.engine.committed() if fresh_start else self.engine.newest()) + 1
        batch = max(batch, first_batch(self._current.record, change.result.record))
        self._apply(change, batch, self.engine.committed())
        if job is not None:
            self._start()

    def _plan(self, requests: Mapping[str, Request]) -> PlannedChange:
        """The change that requests lead to, planned once; those that are refused get their reply."""
        known = self._planned
        if known is not None and self._planned_from is self._current and known.accepted == tuple(requests):
            return known
        change = self.planner.plan(self._current, requests)
        for request_id, refusal in change.refused.items():
            self._mailbox.reply(request_id, Reply(refusal=refusal))
            self.on_refusal(refusal)
        self._planned, self._planned_from = change, self._current
        return change

    def _has_ended_a_batch(self, job: RunningJob) -> bool:
        """Whether a batch has ended since requests were found, or there is nothing to make one of."""
        committed = self.engine.committed()
        if self._seen_at is None:
            self._seen_at = committed
        if committed > self._seen_at:
            return True
        if committed < self.engine.newest():
            return False
        return committed > self._started_after or self._is_quiet(job)

    def _is_quiet(self, job: RunningJob) -> bool:
        """Whether a job that has done no batch yet has had nothing to do for a while."""
        if not job.is_settled():
            self._quiet_since = None
            return False
        now = time.monotonic()
        if self._quiet_since is None:
            self._quiet_since = now
        return now - self._quiet_since >= QUIET_S

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

    def _apply(self, change: PlannedChange, batch: int, committed: int) -> None:
        """Writes a change down, together with the replies to its requests.

        What has ended by the batch that is `committed` is forgotten. A dataflow that goes on running has the
        queries that it was started with.
        """
        before = self._current
        reply = Reply(batch=batch)
        settled = change.result.settled(batch)
        record = replace(
            settled.record.without_ended(committed),
            handled=dict.fromkeys(change.accepted, reply),
        )
        self._current = self._left(settled, record)
        self._planned = self._planned_from = self._seen_at = None
        write_record(self.folder, self._current.record)
        for request_id in change.accepted:
            self._mailbox.reply(request_id, reply)
        was, now = before.record.staying, record.staying
        added = {n: q for n, q in now.items() if n not in was or was[n].number != q.number}
        self.on_change(
            Change(
                tuple(added),
                tuple(n for n, q in was.items() if n not in now or now[n].number != q.number),
                batch,
                tuple(n for n, q in was.items() if q.failure and n in now and not now[n].failure),
                {n: q.beside for n, q in added.items() if q.beside is not None},
            )
        )
        self._beside.run(self._current)

    def _left(self, settled: BoundDataflow, record: RegistryRecord) -> BoundDataflow:
        """The dataflow with the queries that a record has left."""
        left = {query.number for query in record.queries}
        gone = settled.queries.keys() - left
        if self.planner.computes_keys(settled, gone & settled.joined.keys()):
            return self.planner.replan(settled, record)  # streams are not even projected for them any more
        dataflow = settled.dataflow.only(tail for tail in settled.dataflow.tails if tail.number in left)
        bound = {number: query for number, query in settled.queries.items() if number in left}
        return BoundDataflow(replace(record, dataflow=dataflow), bound, dataflow)

    def _report(self, *, failure: str | None = None) -> None:
        self._reported_at = time.monotonic()
        progress = None if self._progress is None else self._progress.as_json()
        letters = {name: str(error) for name, error in self._side_failures.items()}
        own = {name: each.as_json() for name, each in self._beside.progress.items()}
        Status(progress=progress, failure=failure, side_failures=letters, beside=own).write(self.folder)

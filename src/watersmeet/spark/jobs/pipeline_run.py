"""The queries of one pipeline file while they run, with the queries that collect their dead letters.

Queries run and fail each by itself: where one fails, the others go on. What is wrong before anything runs,
such as a sink that cannot be written to, is refused for the whole file.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from watersmeet.errors import ConfigurationError, SqlError, WatersmeetError
from watersmeet.query import Column
from watersmeet.spark.jobs.dead_letters import DeadLetters
from watersmeet.spark.jobs.job import Job
from watersmeet.spark.jobs.run_lock import RunLock
from watersmeet.spark.jobs.sites.site_job import SiteJob
from watersmeet.spark.metrics.progress import Progress
from watersmeet.spark.session.failures import explain_failure

AnyJob = Job | SiteJob  # a query, or one site's part of it
OnProgress = Callable[[AnyJob, Progress], None]
Answer = TypeVar("Answer")
OnWarning = Callable[[str, str], None]  # of which query, and what
OnFailure = Callable[[str, WatersmeetError, bool], None]  # of which query, and whether it is tried again

NO_BATCHES: list[Progress] = []
STARTING_AT_ONCE = 4  # each start makes Spark plan, and start Python workers
SETTLE_S = 60.0  # a query that takes longer for its first batch keeps no other from starting


@dataclass(frozen=True, kw_only=True)
class PipelineRun:
    """What `Session.start` returns: everything one start has started, to follow and to stop.

    `inferred` are the columns found in the sources of streams that declare none. `ended` names the queries
    whose input an earlier run has ended: they are passed over. `failures` are those of failed queries.
    """

    jobs: tuple[AnyJob, ...]
    dead_letters: tuple[DeadLetters, ...] = ()
    inferred: Mapping[str, tuple[Column, ...]] = field(default_factory=dict)
    ended: tuple[str, ...] = ()
    lock: RunLock | None = None
    poll_s: float = 0.2
    settle_s: float = SETTLE_S
    failures: dict[str, WatersmeetError] = field(default_factory=dict)
    _reported: dict[str, int] = field(default_factory=dict)  # of each query, how many setbacks and failures
    _waiting: list[AnyJob] = field(default_factory=list)  # for all answers of others, which they read
    _stopped: threading.Event = field(default_factory=threading.Event)

    def start(self) -> None:
        """Starts every query, a few at a time; where one is refused, all are stopped again.

        One that takes what there is now, and reads the answers of others, waits until they have ended: it is
        started while the run is followed. The queries for dead letters come first. Their offsets are then no
        later than those of the jobs, so a message that is malformed for a job reaches the dead letters too.
        """
        if self.lock is not None:
            self.lock.when_lost(self._stop_all)
        starting: list[DeadLetters | AnyJob] = []
        try:
            self._waiting.extend(job for job in self.jobs if self._awaited(job))
            for each in self._started:
                self._settle(starting)
                self._start(each)
                starting += [each] if each.name not in self.failures else []
            if self.failures and len(self.failures) == len(self._everything):
                raise self.failed()
        except BaseException:
            self.stop()
            raise

    def warn(self, on_warning: OnWarning) -> None:
        """Reports what should be known of queries before they run."""
        for job in self.jobs:
            for warning in job.warnings:
                on_warning(job.name, warning)

    def follow(
        self,
        on_progress: OnProgress | None = None,
        *,
        until: Callable[[], bool] | None = None,
        on_failure: OnFailure | None = None,
        on_warning: OnWarning | None = None,
    ) -> None:
        """Waits until all queries have ended or `until` is true, reporting every batch and what it shows.

        If some have failed when all have ended, what made them fail is raised, in plain words.
        """
        running = True
        while running and not (until and until()):
            running = self.is_running()
            for letters in self.dead_letters:
                self._ask(letters, letters.poll, None)
            for job in self.jobs:
                for progress in self._ask(job, job.poll, NO_BATCHES):
                    if on_progress:
                        on_progress(job, progress)
            if on_warning is not None:
                self._pass_on(on_warning, has_ended=not running)
            if on_failure is not None:
                self._report(on_failure)
            if self.lock is not None:
                self.lock.check()
            if running:
                time.sleep(self.poll_s)
        if not running and self.failures:
            raise self.failed()
        for job in self.jobs:
            self._ask(job, job.let_go, None)

    def _pass_on(self, on_warning: OnWarning, *, has_ended: bool) -> None:
        """Reports what batches have brought to light."""
        for job in self.jobs:
            said = job.take_warnings()
            said += job.conclude() if has_ended and job.name not in self.failures else []
            for text in said:
                on_warning(job.name, text)

    def is_running(self) -> bool:
        """Whether some query has more to do; a flush starts its second part here."""
        runs = {each.name: self._ask(each, each.is_running, False) for each in self._started}  # all are asked
        ended = {name for name, still in runs.items() if not still}
        waiting = () if self._stopped.is_set() else tuple(self._waiting)
        running = [*runs.values(), *(self._start_in_turn(job, ended) for job in waiting)]
        if not any(running) and self.lock is not None:
            self.lock.release()
        return any(running)

    @property
    def changes(self) -> dict[str, tuple[str, ...]]:
        """Of queries that have changed since their last run, what there is to say of that."""
        jobs = (job for job in self.jobs if isinstance(job, Job))
        return {job.name: job.changes for job in jobs if job.changes}

    @property
    def progress(self) -> dict[str, Progress]:
        """The newest progress of each query that has had a batch, by its name."""
        return {job.name: job.progress for job in self.jobs if job.progress is not None}

    @property
    def names(self) -> tuple[str, ...]:
        """All queries that were started, those for dead letters included."""
        return tuple(each.name for each in self._everything)

    def failed(self) -> WatersmeetError:
        """The failures of all queries that have failed, as one."""
        named = [name_failure(n, error, of=len(self._everything)) for n, error in self.failures.items()]
        if len(named) == 1:
            return named[0]
        lines = "\n".join(f"  {error}" for error in named)
        return WatersmeetError(f"{len(named)} of {len(self._everything)} queries have failed:\n{lines}")

    def stop(self) -> None:
        """Stops the queries and those for their dead letters; a batch under way is done again on resume."""
        self._stop_all()
        if self.lock is not None:
            self.lock.release()

    def _stop_all(self) -> None:
        self._stopped.set()
        problems: list[WatersmeetError] = []
        for each in (*self.jobs, *self.dead_letters):
            try:
                each.stop()
            except WatersmeetError as error:  # the others are to be stopped all the same
                problems.append(error)
        if problems:
            raise problems[0]

    def _start(self, query: DeadLetters | AnyJob) -> None:
        """Starts a query. A mistake in the file or the request is raised; any other failure is its own."""
        try:
            query.start()
        except Exception as error:
            explained = explain_failure(error)
            if isinstance(explained, ConfigurationError):
                raise name_failure(query.name, explained, of=len(self._everything)) from None
            self.failures[query.name] = explained

    def _start_in_turn(self, job: AnyJob, ended: Set[str]) -> bool:
        """Starts a query once all those have ended that it waits for; whether it waits on, or runs now."""
        awaited = self._awaited(job)
        if not {each.name for each in awaited} <= ended:
            return True
        self._waiting.remove(job)
        if failed := [e.name for e in awaited if e.name in self.failures or e.failure is not None]:
            self.failures[job.name] = WatersmeetError(
                f"it reads the answers of {', '.join(failed)}, which has failed. Resume both"
            )
            return False
        try:
            self._start(job)
        except WatersmeetError as error:  # a mistake in the file
            self.failures[job.name] = error
        return job.name not in self.failures

    def _awaited(self, job: AnyJob) -> list[AnyJob]:
        """The queries of this run that a query waits for; an earlier run may have ended others."""
        return [each for each in self.jobs if each.name in job.awaits]

    def _settle(self, starting: list[DeadLetters | AnyJob]) -> None:
        """Waits until there is room for one more query that starts."""
        deadline = time.monotonic() + self.settle_s
        while len(starting) >= STARTING_AT_ONCE and time.monotonic() < deadline:
            starting[:] = [each for each in starting if not each.is_settled()]
            if len(starting) >= STARTING_AT_ONCE:
                time.sleep(self.poll_s)

    def _ask(self, query: DeadLetters | AnyJob, ask: Callable[[], Answer], otherwise: Answer) -> Answer:
        """What a query says of itself; what it raises is its failure, after which it is not asked again."""
        if query.name in self.failures:
            return otherwise
        try:
            return ask()
        except Exception as error:
            self.failures[query.name] = explain_failure(error)
            return otherwise

    def _report(self, on_failure: OnFailure) -> None:
        """Reports setbacks and failures, each once."""
        for each in self._everything:
            events = [(error, True) for error in each.setbacks]
            events += [(self.failures[each.name], False)] if each.name in self.failures else []
            for error, is_tried_again in events[self._reported.get(each.name, 0) :]:
                on_failure(each.name, error, is_tried_again)
            self._reported[each.name] = len(events)

    @property
    def _started(self) -> list[DeadLetters | AnyJob]:
        """All but those that wait for others."""
        waiting = {job.name for job in self._waiting}
        return [each for each in self._everything if each.name not in waiting]

    @property
    def _everything(self) -> tuple[DeadLetters | AnyJob, ...]:
        return (*self.dead_letters, *self.jobs)


def plan_run(
    jobs: Iterable[Job],
    dead_letters: Iterable[DeadLetters],
    inferred: Mapping[str, tuple[Column, ...]],
    lock: RunLock | None,
) -> PipelineRun:
    """A run of those jobs whose input has not been ended by an earlier run."""
    planned = tuple(jobs)
    return PipelineRun(
        jobs=tuple(job for job in planned if not job.has_ended),
        dead_letters=tuple(dead_letters),
        inferred=inferred,
        ended=tuple(job.name for job in planned if job.has_ended),
        lock=lock,
    )


def name_failure(name: str, error: WatersmeetError, *, of: int) -> WatersmeetError:
    """The failure with the name of the query, where there are several."""
    if of == 1:
        return error
    kind = WatersmeetError if isinstance(error, SqlError) else type(error)
    return kind(f"query {name}: {error}")


@contextmanager
def naming(name: str, *, of: int) -> Iterator[None]:
    """While open, errors get the name of the query they are about, where there are several."""
    try:
        yield
    except WatersmeetError as error:
        raise name_failure(name, error, of=of) from None

"""The queries of one pipeline file while they run, with the queries that collect their dead letters."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from watersmeet.query import Column
from watersmeet.spark.jobs.dead_letters import DeadLetters
from watersmeet.spark.jobs.job import Job
from watersmeet.spark.metrics.progress import Progress

OnProgress = Callable[[Job, Progress], None]


@dataclass(frozen=True)
class PipelineRun:
    """What `Session.start` returns: everything one start has started, to follow and to stop.

    `inferred` are the columns found in the sources of streams that declare none.
    """

    jobs: tuple[Job, ...]
    dead_letters: tuple[DeadLetters, ...] = ()
    inferred: Mapping[str, tuple[Column, ...]] = field(default_factory=dict)
    poll_s: float = 0.2

    def start(self) -> None:
        """Starts every query, or none: where one refuses, those before it are stopped.

        The queries for dead letters come first. Their offsets are then no later than those of the jobs, so
        a message that is malformed for a job reaches the dead letters too.
        """
        try:
            for each in self._everything:
                each.start()
        except BaseException:
            self.stop()
            raise

    def follow(
        self, on_progress: OnProgress | None = None, *, until: Callable[[], bool] | None = None
    ) -> None:
        """Waits until all queries have ended or `until` is true, reporting every batch.

        Raises the failure of the first query that fails, in plain words.
        """
        running = True
        while running and not (until and until()):
            running = self.is_running()
            for letters in self.dead_letters:
                letters.poll()
            for job in self.jobs:
                for progress in job.poll():
                    if on_progress:
                        on_progress(job, progress)
            if running:
                time.sleep(self.poll_s)

    def is_running(self) -> bool:
        """Whether some query has more to do; a flush starts its second part here."""
        running = [each.is_running() for each in self._everything]  # all are asked, whatever the first says
        return any(running)

    @property
    def progress(self) -> dict[str, Progress]:
        """The newest progress of each query that has had a batch, by its name."""
        return {job.name: job.progress for job in self.jobs if job.progress is not None}

    def stop(self) -> None:
        """Stops the queries and those for their dead letters; a batch under way is done again on resume."""
        for job in self.jobs:
            job.stop()
        for letters in self.dead_letters:
            letters.stop()

    @property
    def _everything(self) -> tuple[DeadLetters | Job, ...]:
        return (*self.dead_letters, *self.jobs)

"""A driver of one query: it starts on whatever the ones before it have left, and runs until it is done.

The order of its steps is Spark's (`spark_log.py`) and that of `spark/jobs/job.py`: the record of the plan
before the first batch, the control stream that ends the input, the mark that the input has ended.
"""

from __future__ import annotations

from tests.machine.run_batch import Settings, next_batch, run_batch
from tests.machine.schedule import Schedule
from tests.machine.world import CHECKPOINT, World
from watersmeet.plan.physical import plan_physical
from watersmeet.query import Query
from watersmeet.spark.jobs.checkpoint import CONTROL, Checkpoint
from watersmeet.spark.jobs.resume.change_over import ChangeOver
from watersmeet.testing.dataflow import QueryDataflow
from watersmeet.testing.setup import query_dataflow

STOPS = 0.08  # a driver, between two batches


class StoppedError(Exception):
    """The driver is told to stop: it ends between two batches, and another is started."""


class QueryDriver:
    """Runs one query from its checkpoint."""

    def __init__(
        self,
        world: World,
        query: Query,
        settings: Settings,
        run: int,
        *,
        flush: bool,
        change: ChangeOver | None = None,
        most_batches: int | None = None,
    ) -> None:
        """It is stopped after `most_batches`; with a `change` its query may be another than before."""
        self._world, self._query, self._settings = world, query, settings
        self._run, self._flush = run, flush
        self._change, self._batches_left = change, most_batches
        folder = world.folder / CHECKPOINT
        folder.mkdir(exist_ok=True)
        self._checkpoint = Checkpoint(None, str(folder))  # type: ignore[arg-type]
        self._ending = False

    @property
    def _schedule(self) -> Schedule:
        return self._world.schedule

    def run(self) -> None:
        """Runs to the end of the input; crashes on the way, if the schedule says so."""
        setup = self._settings.setup
        fresh = plan_physical(self._query, setup.partitions, setup.statistics, setup.routing)
        if self._checkpoint.has_ended():
            return
        with self._schedule.durable("the record of the plan"):
            plan = self._checkpoint.plan(fresh, change=self._change)
        dataflow = query_dataflow(plan, setup, self._world.folder / CHECKPOINT / "routing")
        if self._checkpoint.is_ending():
            self._end_input()
        self._run_batches(dataflow)
        if self._flush and not self._ending:
            self._end_input()
            self._run_batches(dataflow)
        if self._ending:
            with self._schedule.durable("the record says that the input has ended"):
                self._checkpoint.mark_ended()

    def _end_input(self) -> None:
        self._ending = True
        with self._schedule.durable("a row of the control stream"):
            self._checkpoint.end_input()

    def _run_batches(self, dataflow: QueryDataflow) -> None:
        """One batch after the other, until no file is left."""
        while next_batch(self._world, self._settings, self._control_files):
            self._run_batch(dataflow)
            if self._batches_left is not None:
                self._batches_left -= 1
            if self._batches_left == 0 or (not self._ending and self._schedule.strikes("stop", STOPS)):
                raise StoppedError

    def _run_batch(self, dataflow: QueryDataflow) -> None:
        run_batch(self._world, dataflow, self._settings, self._run, {"": ""})

    def _control_files(self) -> list[str]:
        return sorted(path.name for path in (self._world.folder / CHECKPOINT / CONTROL).glob("end-*"))

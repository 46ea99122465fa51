"""Sweeps as Spark jobs: one simulation a task.

`functools.partial(run_sweep, spark)` is a runner for the lab's figures. Tasks, the function and its results
are pickled; the function must be importable where Spark's workers run.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Sequence
from typing import TypeVar

from pyspark.sql import SparkSession

POLL_S = 0.5

Task = TypeVar("Task")
Result = TypeVar("Result")
Progress = Callable[[int, int], object]  # tasks done, tasks in all


def run_sweep(
    spark: SparkSession,
    tasks: Sequence[Task],
    function: Callable[[Task], Result],
    progress: Progress | None = None,
) -> list[Result]:
    """The function's result for every task, in order, each computed by a Spark task of its own."""
    if not tasks:
        return []
    context = spark.sparkContext
    group = f"sweep-{uuid.uuid4()}"
    finished = threading.Event()
    watcher = None
    if progress is not None:
        arguments = (spark, group, len(tasks), progress, finished)
        watcher = threading.Thread(target=_report, args=arguments, daemon=True)
        watcher.start()
    context.setJobGroup(group, f"{len(tasks)} simulations")
    try:
        return context.parallelize(list(tasks), len(tasks)).map(function).collect()
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]
        finished.set()
        if watcher is not None:
            watcher.join()


def _report(
    spark: SparkSession, group: str, total: int, progress: Progress, finished: threading.Event
) -> None:
    """Reports how many tasks of a job group are done, until the job is."""
    tracker = spark.sparkContext.statusTracker()
    reported = -1
    while not finished.wait(POLL_S):
        done = 0
        for job in tracker.getJobIdsForGroup(group):
            info = tracker.getJobInfo(job)
            for stage in info.stageIds if info else ():
                stage_info = tracker.getStageInfo(stage)
                done += stage_info.numCompletedTasks if stage_info else 0
        if done != reported:
            reported = done
            progress(done, total)
    progress(total, total)

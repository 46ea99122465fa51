"""Runners: where a figure's simulations run. A Spark job is one more (watersmeet.spark.jobs.sweep).

A runner takes tasks and a function and returns the results in order. Tasks and results can be pickled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import Protocol, TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")
Key = TypeVar("Key")
Progress = Callable[[int, int], object]  # called with how many simulations are done, and how many there are


class Runner(Protocol):
    """Applies a function to every task, somehow."""

    def __call__(self, tasks: Sequence[Task], function: Callable[[Task], Result]) -> list[Result]: ...


def run_rows(
    runner: Runner, rows: Mapping[Key, Sequence[Task]], function: Callable[[Task], Result]
) -> dict[Key, list[Result]]:
    """Every task of every row in one go; the results by row."""
    results = iter(runner([task for row in rows.values() for task in row], function))
    return {key: [next(results) for _ in row] for key, row in rows.items()}


def run_here(
    tasks: Sequence[Task], function: Callable[[Task], Result], progress: Progress | None = None
) -> list[Result]:
    """One task after another, in this process."""
    results = []
    for task in tasks:
        results.append(function(task))
        if progress:
            progress(len(results), len(tasks))
    return results


def run_in_processes(workers: int, progress: Progress | None = None) -> Runner:
    """Several tasks at a time, each in a process of this machine."""

    def runner(tasks: Sequence[Task], function: Callable[[Task], Result]) -> list[Result]:
        with ProcessPoolExecutor(workers) as pool:
            running = [pool.submit(function, task) for task in tasks]
            for done, _ in enumerate(as_completed(running), start=1):
                if progress:
                    progress(done, len(tasks))
            return [task.result() for task in running]

    return runner

"""Runners: the same results wherever simulations run, and how far they are."""

from __future__ import annotations

from functools import partial

from watersmeet.lab.figures.runners import run_here, run_in_processes, run_rows


def square(number: int) -> int:
    return number * number


def test_runners_agree() -> None:
    assert run_here([3, 1, 2], square) == run_in_processes(2)([3, 1, 2], square) == [9, 1, 4]


def test_runners_report_how_far_they_are() -> None:
    reported: list[tuple[int, int]] = []
    progress = partial(_note, reported)
    run_here([3, 1, 2], square, progress=progress)
    assert reported == [(1, 3), (2, 3), (3, 3)]
    reported.clear()
    run_in_processes(2, progress=progress)([3, 1, 2], square)
    assert reported == [(1, 3), (2, 3), (3, 3)]


def _note(reported: list[tuple[int, int]], done: int, total: int) -> None:
    reported.append((done, total))


def test_results_come_back_by_row() -> None:
    assert run_rows(run_here, {"a": [1, 2], "b": [], "c": [3]}, square) == {"a": [1, 4], "b": [], "c": [9]}

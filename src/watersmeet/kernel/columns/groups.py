"""Rows grouped by a number that each has: by slice, by cell of time, by chunk."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

Selection = npt.NDArray[Any] | slice  # indices of rows, a mask of them, or a stretch


def groups_of(numbers: npt.NDArray[np.int64]) -> Iterator[Selection]:
    """The rows of each number, in order; stretches where the numbers are in order, so nothing is copied.

    >>> list(groups_of(np.array([3, 3, 5]))), [group.tolist() for group in groups_of(np.array([5, 3, 5]))]
    ([slice(0, 2, None), slice(2, 3, None)], [[1], [0, 2]])
    """
    if not len(numbers):
        return
    if not (numbers[1:] < numbers[:-1]).any():
        yield from (slice(begin, end) for begin, end in pairwise(_bounds(numbers)))
        return
    low, high = int(numbers.min()), int(numbers.max())
    is_short = high - low < 1 << 15  # NumPy sorts short numbers by radix
    order = np.argsort((numbers - low).astype(np.int16) if is_short else numbers, kind="stable")
    yield from (order[begin:end] for begin, end in pairwise(_bounds(numbers[order])))


def _bounds(numbers: npt.NDArray[np.int64]) -> list[int]:
    """Where equal numbers in order begin, and the end of the last."""
    return [0, *(np.flatnonzero(numbers[1:] != numbers[:-1]) + 1).tolist(), len(numbers)]

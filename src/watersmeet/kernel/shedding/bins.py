"""Two amounts by bins of a line, what came and what went: read at any point, and made coarser."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from watersmeet.kernel.columns.hash_index import Longs

Floats = npt.NDArray[np.float64]
Amount = TypeVar("Amount", int, float)


def totals_at(
    bins: Mapping[int, list[Amount]], width: int, *points: Longs | Floats
) -> tuple[tuple[Floats, ...], tuple[Floats, ...]]:
    """What came before each of these points, and what went; within a bin it is spread evenly."""
    numbers = sorted(bins)
    starts = np.array(numbers, np.float64) * width
    edges = np.column_stack((starts, starts + width)).ravel()
    read = []
    for part in (0, 1):
        amounts = np.array([bins[number][part] for number in numbers])
        total = np.cumsum(amounts)
        steps = np.column_stack((total - amounts, total)).ravel()
        read.append(tuple(np.asarray(np.interp(at, edges, steps)) for at in points))
    came, went = read
    return came, went


def coarsened(bins: Mapping[int, list[Amount]], zero: Amount) -> dict[int, list[Amount]]:
    """Bins twice as wide."""
    wider: dict[int, list[Amount]] = {}
    for number, (came, went) in bins.items():
        both = wider.setdefault(number // 2, [zero, zero])
        both[0] += came
        both[1] += went
    return wider

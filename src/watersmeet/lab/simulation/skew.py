"""Skewed values: Zipf distributions, and whether all attributes have the same frequent values."""

from __future__ import annotations

import random
from itertools import accumulate
from typing import Literal

import numpy as np
import numpy.typing as npt

ValueOrder = Literal["per attribute", "shared"]  # each attribute has frequent values of its own, or all share


class Zipf:
    """Ranks 0, 1, ... drawn with probabilities in proportion to (rank + 1)^-theta."""

    __slots__ = ("_cumulative", "_ranks")

    def __init__(self, count: int, theta: float) -> None:
        self._ranks = range(count)
        self._cumulative = list(accumulate((rank + 1) ** -theta for rank in range(count)))

    def draw(self, rng: random.Random) -> int:
        return rng.choices(self._ranks, cum_weights=self._cumulative)[0]


def zipf_shares(count: int, theta: float) -> npt.NDArray[np.float64]:
    """The probability of each rank, the most frequent first."""
    weights = np.arange(1, count + 1, dtype=np.float64) ** -theta
    shares: npt.NDArray[np.float64] = weights / weights.sum()
    return shares

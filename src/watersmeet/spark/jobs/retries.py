"""Which failures of a query are tried again, how often, and when.

A failure that passes by itself, such as a Python worker that a busy machine was too slow to start, is tried
again a few times, each time after a longer pause. The pauses differ from query to query, so that queries
which failed together do not start together. A batch that ends makes up for earlier failures; a failure that
comes back without one is not passing, and is raised like any other.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from watersmeet.errors import TransientError, WatersmeetError

RETRIES = 3
FIRST_PAUSE_S = 2.0  # then twice as long, and twice as long again


@dataclass
class Retries:
    """How often a query may still be tried again."""

    draw: Callable[[], float] = random.random  # in [0, 1)
    _left: int = RETRIES

    def pause_s(self, error: WatersmeetError) -> float | None:
        """How long to wait before the next try; None if there is to be none."""
        if not isinstance(error, TransientError) or not self._left:
            return None
        pause = FIRST_PAUSE_S * 2.0 ** (RETRIES - self._left)
        self._left -= 1
        return pause * (1 + self.draw())

    def reset(self) -> None:
        """A batch has ended since the last failure."""
        self._left = RETRIES

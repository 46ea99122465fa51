"""How much memory a bucket may take for its state, and what gives way when that is not enough."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Shed(StrEnum):
    """Which tuples go first when state outgrows its limit."""

    RANDOM = "random"  # any of them, with equal probability
    OLDEST = "oldest"  # those with the shortest remaining lifetime
    LEAST = "least"  # those from which the fewest answers are expected
    NONE = "none"  # none at all: passing the limit is only reported


@dataclass(frozen=True)
class StateLimit:
    """A number of bytes for payload, indexes and held answers, and who gives way."""

    nbytes: int
    shed: Shed = Shed.RANDOM

    def share(self, buckets: int) -> StateLimit:
        """The part of one of so many buckets."""
        return StateLimit(max(1, self.nbytes // max(1, buckets)), self.shed)

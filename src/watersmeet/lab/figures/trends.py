"""How a line of numbers goes: what most claims about a figure come down to."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise


def rises(values: Sequence[float]) -> bool:
    """Whether each value is above the one before."""
    return all(before < after for before, after in pairwise(values))


def falls(values: Sequence[float]) -> bool:
    """Whether each value is below the one before."""
    return all(before > after for before, after in pairwise(values))

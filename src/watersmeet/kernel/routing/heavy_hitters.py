"""The frequent values of a column, in a summary of bounded size that can be merged and can fade.

Misra and Gries, "Finding repeated elements" (1982), merged as Agarwal et al., "Mergeable summaries" (PODS
2012) show: counters of equal values are added, then the (k+1)-th largest is taken off all of them and those
left with nothing are dropped. Guarantee: a count is never too large, too small by at most total / (k + 1).
Where we differ: a large chunk is counted from a sample of its rows, which adds a sampling error, and
counts are numbers that may be scaled, so that old tuples can fade.

    k = 2: {a: 5, b: 2} + {b: 1, c: 2} = {a: 5, b: 3, c: 2} -> {a: 3, b: 1}, of 10 tuples
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from watersmeet.kernel.columns.hashing import Hashes

SAMPLE_ROWS = 1 << 14  # a value of one tuple in a hundred is then known to a tenth


@dataclass(frozen=True)
class Summary:
    """Counts of some values, by hash, of a number of tuples in all."""

    total: float = 0.0
    counts: Mapping[int, float] = field(default_factory=dict)

    def scaled(self, factor: float) -> Summary:
        return Summary(self.total * factor, {value: n * factor for value, n in self.counts.items()})

    def to_json(self) -> dict[str, Any]:
        return {"total": self.total, "counts": sorted(self.counts.items())}

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Summary:
        return cls(fields["total"], {int(value): count for value, count in fields["counts"]})


def summarise(hashes: Hashes, size: int) -> Summary:
    """The summary of a chunk's keys; the same for the same keys in the same order."""
    sample = hashes
    if len(hashes) > SAMPLE_ROWS:
        sample = hashes[np.random.default_rng(len(hashes)).integers(0, len(hashes), SAMPLE_ROWS)]
    values, counts = np.unique(sample, return_counts=True)
    values, weights = _reduce(values, counts.astype(np.float64), size)
    scale = len(hashes) / max(1, len(sample))
    return Summary(float(len(hashes)), dict(zip(values.tolist(), (scale * weights).tolist(), strict=True)))


def merge(parts: Iterable[Summary], size: int) -> Summary:
    """One summary of several; give them in an order of their own, as sums of fractions depend on it."""
    total, sums = 0.0, dict[int, float]()
    for part in parts:
        total += part.total
        for value, count in part.counts.items():
            sums[value] = sums.get(value, 0.0) + count
    values, counts = np.array(list(sums), np.uint64), np.array(list(sums.values()), np.float64)
    values, counts = _reduce(values, counts, size)
    return Summary(total, dict(zip(values.tolist(), counts.tolist(), strict=True)))


def _reduce(
    values: Hashes, counts: npt.NDArray[np.float64], size: int
) -> tuple[Hashes, npt.NDArray[np.float64]]:
    if len(values) <= size:
        return values, counts
    off = np.partition(counts, len(counts) - size - 1)[len(counts) - size - 1]
    kept = counts > off
    return values[kept], counts[kept] - off

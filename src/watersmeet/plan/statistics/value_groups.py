"""The values of a join attribute, as all its streams see them: PMJoin's FStreams, or groups of them.

Each stream describes its column by heavy hitters, histogram and distinct count (`attribute_statistics`).
`align` lays these over one another, so that the rate of any joined set of streams can be summed value by
value. A *group* is a number of values that are alike in every stream: a stream's share of the group is
spread evenly over its values. A *cell* is what a router can tell apart: one value, one range of values, or
all the values nobody listed. Groups of one cell always go together.

Inside a cell the streams may know different numbers of values. The smaller set is taken to lie inside the
larger one, so the cell falls into nested groups; for two columns of which only the distinct counts are
known, the selectivity is then exactly 1 / max(distinct).

    >>> two = align([(AttributeStatistics(distinct=4), 8.0), (AttributeStatistics(distinct=10), 5.0)])
    >>> two.counts.tolist(), two.shares.tolist(), two.cell_of.tolist()
    ([4.0, 6.0], [[1.0, 0.0], [0.4, 0.6]], [0, 0])
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from watersmeet.plan.statistics.attribute import AttributeStatistics, Value

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Cell:
    """One value, one range [low, high) of values, or (with neither) the values nobody listed."""

    value: Value | None = None
    low: float | None = None
    high: float | None = None

    def pretty(self) -> str:
        if self.value is not None:
            return str(self.value)
        return f"[{self.low:g}, {self.high:g})" if self.low is not None else "other values"


@dataclass(frozen=True, eq=False)
class ValueGroups:
    """Groups of like values: how many values each holds, and each stream's share of tuples in it."""

    cells: tuple[Cell, ...]
    cell_of: IntArray  # group -> cell
    counts: FloatArray  # values per group
    shares: FloatArray  # stream x group; a stream's shares add up to 1 unless this is a part of the values

    def selectivity(self, streams: Sequence[int]) -> float:
        """The share of combinations, one tuple of each stream, that agree: sum over values of prod p_i(v)."""
        per_value = np.prod(self.shares[list(streams)] / self.counts, axis=0)
        return float(np.dot(per_value, self.counts))

    def cell_sums(self, rows: FloatArray) -> FloatArray:
        """Rows over groups, added up to rows over cells."""
        return np.array([np.bincount(self.cell_of, row, len(self.cells)) for row in rows], dtype=np.float64)

    def cell_counts(self) -> FloatArray:
        return np.bincount(self.cell_of, self.counts, len(self.cells)).astype(np.float64)

    def part(self, cells: IntArray, weights: FloatArray) -> ValueGroups:
        """The values of some cells; a weight below 1 takes that part of a cell's values."""
        weight_of = np.zeros(len(self.cells))
        weight_of[cells] = weights
        weight = weight_of[self.cell_of]
        kept = np.flatnonzero(weight)
        return ValueGroups(
            self.cells,
            self.cell_of[kept],
            self.counts[kept] * weight[kept],
            self.shares[:, kept] * weight[kept],
        )


def align(attributes: Sequence[tuple[AttributeStatistics, float]]) -> ValueGroups:
    """Lay the columns of several streams, each with its stream's rate, over one another."""
    hot = _hot_values(attributes)
    edges = sorted({edge for known, _ in attributes for b in known.histogram for edge in (b.low, b.high)})
    spreads = [_Spread(known, rate, hot, edges) for known, rate in attributes]
    _spread_unlisted(spreads)
    cells = [Cell(value=value) for value in hot]
    cells += [Cell(low=low, high=high) for low, high in itertools.pairwise(edges)]
    cells.append(Cell())
    cell_of: list[int] = list(range(len(hot)))
    counts: list[float] = [1.0] * len(hot)
    columns: list[FloatArray] = [np.array([[spread.hot[v] for v in range(len(hot))] for spread in spreads])]
    for index in range(len(edges[1:]) + 1):
        rates = np.array([spread.rates[index] for spread in spreads], dtype=np.float64)
        distinct = np.array([spread.distinct[index] for spread in spreads], dtype=np.float64)
        sizes, block = _nested_groups(rates, distinct)
        cell_of += [len(hot) + index] * len(sizes)
        counts += sizes
        columns.append(block)
    used = sorted(set(cell_of))
    totals = np.array([[spread.total] for spread in spreads])
    return ValueGroups(
        tuple(cells[cell] for cell in used),
        np.searchsorted(np.array(used, dtype=np.int64), np.array(cell_of, dtype=np.int64)).astype(np.int64),
        np.array(counts),
        np.hstack(columns) / totals,
    )


def _hot_values(attributes: Sequence[tuple[AttributeStatistics, float]]) -> list[Value]:
    """Every stream's heavy hitters, each once, numbers before text, in order."""
    values = {(isinstance(value, str), value) for known, _ in attributes for value, _ in known.heavy_hitters}
    numbers = sorted(value for is_text, value in values if not is_text)
    texts = sorted(str(value) for is_text, value in values if is_text)
    return [*numbers, *texts]


class _Spread:
    """One stream's tuples over the hot values, the ranges between histogram edges, and the unlisted rest."""

    def __init__(
        self, known: AttributeStatistics, rate_per_s: float, hot: Sequence[Value], edges: Sequence[float]
    ) -> None:
        own = {(isinstance(value, str), value): rate for value, rate in known.heavy_hitters}
        self.hot: list[float] = [own.get((isinstance(value, str), value), 0.0) for value in hot]
        self.has_histogram = bool(known.histogram)
        self.rates = [0.0] * max(len(edges), 1)  # the last entry is the unlisted rest
        self.distinct = [0.0] * max(len(edges), 1)
        foreign = [n for n, value in enumerate(hot) if (isinstance(value, str), value) not in own]
        for bin_ in known.histogram:
            inside = [n for n in foreign if _lies_in(hot[n], bin_.low, bin_.high)]
            foreign = [n for n in foreign if not _lies_in(hot[n], bin_.low, bin_.high)]
            rate, distinct = self._give(inside, bin_.rate_per_s, bin_.distinct)
            for index, (low, high) in enumerate(itertools.pairwise(edges)):
                if bin_.low <= low and high <= bin_.high:
                    width = (high - low) / (bin_.high - bin_.low)
                    self.rates[index] += rate * width
                    self.distinct[index] += distinct * width
        self.rates[-1], self.distinct[-1] = self._give(foreign, *known.rest(rate_per_s))
        self.total = sum(self.hot) + sum(self.rates)

    def _give(self, values: list[int], rate: float, distinct: float) -> tuple[float, float]:
        """Give other streams' hot values their even part of a range; return what is left of it."""
        if not values or rate == 0.0:
            return rate, distinct
        each = rate / max(distinct, len(values))
        for n in values:
            self.hot[n] = each
        left = distinct - len(values)
        return (each * left, left) if left > 1e-9 else (0.0, 0.0)


def _lies_in(value: Value, low: float, high: float) -> bool:
    return not isinstance(value, str) and low <= value < high


def _spread_unlisted(spreads: Sequence[_Spread]) -> None:
    """Spread a stream without histogram over the ranges others know, by how many values these hold."""
    mapped = [spread for spread in spreads if spread.has_histogram]
    if not mapped:
        return
    values = [max(spread.distinct[index] for spread in mapped) for index in range(len(mapped[0].distinct))]
    total = sum(values)
    for spread in spreads:
        if not spread.has_histogram and total > 0:
            rate, distinct = spread.rates[-1], spread.distinct[-1]
            spread.rates = [rate * count / total for count in values]
            spread.distinct = [distinct * count / total for count in values]


def _nested_groups(rates: FloatArray, distinct: FloatArray) -> tuple[list[float], FloatArray]:
    """A cell's groups, from the values every stream knows to those only the widest one does."""
    steps = sorted({float(count) for count, rate in zip(distinct, rates, strict=True) if rate > 0})
    sizes = [step - before for step, before in zip(steps, [0.0, *steps], strict=False)]
    per_value = np.divide(rates, distinct, out=np.zeros_like(rates), where=(rates > 0) & (distinct > 0))
    block = [
        np.where(distinct >= step, per_value * size, 0.0) for step, size in zip(steps, sizes, strict=True)
    ]
    return sizes, np.array(block).T.reshape(len(rates), len(sizes))

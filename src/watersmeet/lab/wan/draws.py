"""Tuples drawn at random so that they have the rates and the values that a rate model describes.

Of each input as many tuples come as its rate says, at uniformly random times, and each draws its value of
every attribute class by the input's shares: a listed value as it is, a value of a histogram's bin as a
number in that bin, an unlisted one as a text of its own. Equal shares of equal values meet as the model
expects them to; classes are independent, as in the model.

A run that needs no answers may leave out tuples that its plan sends nowhere (`Pruning`), which is what
makes rates that differ a thousandfold affordable.

Example: an input of 2 tuples/s with the values x and y in equal shares, drawn for 10 s: 20 tuples, of which
about half have x.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from watersmeet.lab.simulation import SECOND_US
from watersmeet.lab.wan.arrivals import Arrival, Joined
from watersmeet.plan.statistics.attribute import Value
from watersmeet.plan.statistics.join_attribute import JoinAttribute
from watersmeet.plan.statistics.rate_model import RateModel, Source
from watersmeet.plan.statistics.value_groups import Cell, FloatArray, IntArray
from watersmeet.query import NEVER, Input, Query

Matters = Callable[[int, Joined], bool]


@dataclass(frozen=True)
class Pruning:
    """Which tuples to draw at all: `matters` is asked with a value of the class that `decides_by` names."""

    decides_by: Callable[[int], int | None]
    matters: Matters


class _Values:
    """One attribute's values by number: those of a group follow one another."""

    def __init__(self, attribute: JoinAttribute) -> None:
        groups = attribute.groups
        self.attribute = attribute
        self.sizes: FloatArray = np.maximum(np.ceil(groups.counts - 1e-9), 1.0)
        self.starts: FloatArray = np.concatenate([[0.0], np.cumsum(self.sizes)[:-1]])
        self._cells: list[Cell] = [groups.cells[cell] for cell in groups.cell_of.tolist()]
        totals: list[float] = groups.cell_counts().tolist()
        first: dict[int, float] = {}
        self._before: list[float] = []  # values of the same cell in groups before
        for cell, size in zip(groups.cell_of.tolist(), self.sizes.tolist(), strict=True):
            self._before.append(first.get(cell, 0.0))
            first[cell] = first.get(cell, 0.0) + size
        self._totals: list[float] = [max(totals[cell], first[cell]) for cell in groups.cell_of.tolist()]
        self._known: dict[int, Value] = {}

    def value(self, number: int) -> Value:
        known = self._known.get(number)
        if known is None:
            group = int(np.searchsorted(self.starts, number, side="right")) - 1
            known = self._value(group, number - float(self.starts[group]), number)
            self._known[number] = known
        return known

    def _value(self, group: int, offset: float, number: int) -> Value:
        cell = self._cells[group]
        if cell.value is not None:
            return cell.value
        if cell.low is None or cell.high is None:
            return f"value {number}"
        return cell.low + (cell.high - cell.low) * (self._before[group] + offset) / self._totals[group]

    def draw(self, shares: FloatArray, count: int, rng: np.random.Generator) -> IntArray:
        """Numbers of values, the groups drawn by their shares."""
        ends = np.cumsum(shares)
        groups = np.searchsorted(ends, rng.random(count) * ends[-1], side="right")
        groups = np.minimum(groups, len(shares) - 1)
        offsets = np.minimum(
            np.floor(rng.random(count) * self.attribute.groups.counts[groups]), self.sizes[groups] - 1
        )
        return np.asarray(self.starts[groups] + offsets, dtype=np.int64)


@dataclass(frozen=True)
class _Flow:
    """The tuples of one input: times, ends, and a column of value numbers for each of its classes."""

    times: IntArray
    ends: IntArray
    columns: dict[int, IntArray]


def draw_arrivals(
    query: Query,
    model: RateModel,
    seconds: float,
    rng: np.random.Generator,
    *,
    pruning: Pruning | None = None,
    start_us: int = 0,
) -> Iterator[Arrival]:
    """Tuples for some seconds, in the order in which their sites know them."""
    values = [_Values(attribute) for attribute in model.attributes]
    flows = [
        _draw(query, input_, source, values, seconds, rng, pruning)
        for input_, source in enumerate(model.sources)
    ]
    known = [
        flow.times if not item.window.counts_rows else np.where(flow.ends == NEVER, _us(seconds), flow.ends)
        for item, flow in zip(query.inputs, flows, strict=True)
    ]
    inputs = np.concatenate([np.full(len(flow.times), n) for n, flow in enumerate(flows)])
    rows = np.concatenate([np.arange(len(flow.times)) for flow in flows])
    at = np.concatenate(known)
    for n in np.argsort(at, kind="stable").tolist():
        input_, row = int(inputs[n]), int(rows[n])
        flow = flows[input_]
        keys = {cls: values[cls].value(int(column[row])) for cls, column in flow.columns.items()}
        end = int(flow.ends[row])
        tuple_ = Joined(
            start_us + int(flow.times[row]), end if end == NEVER else start_us + end, keys, ((input_, row),)
        )
        yield Arrival(start_us + int(at[n]), input_, tuple_)


def _us(seconds: float) -> int:
    return round(seconds * SECOND_US)


def _draw(
    query: Query,
    input_: int,
    source: Source,
    values: list[_Values],
    seconds: float,
    rng: np.random.Generator,
    pruning: Pruning | None,
) -> _Flow:
    item = query.inputs[input_]
    classes = query.graph.classes_of(item.alias)
    shares = {cls: _shares(values[cls].attribute, input_) for cls in classes}
    rate = source.rate_per_s
    if pruning is not None and not item.window.counts_rows:
        cls = pruning.decides_by(input_)
        if cls is None:
            rate *= pruning.matters(input_, Joined(0, 1, {}))
        else:
            kept = _kept(shares[cls], values[cls], cls, input_, pruning.matters)
            rate *= float(kept.sum() / shares[cls].sum())
            shares[cls] = kept
    times, ends = _lifetimes(item, source, rate, seconds, rng)
    columns = {cls: values[cls].draw(shares[cls], len(times), rng) for cls in classes if len(times)}
    return _Flow(times, ends, columns)


def _shares(attribute: JoinAttribute, input_: int) -> FloatArray:
    return np.asarray(attribute.groups.shares[attribute.members.index(input_)], dtype=np.float64)


def _kept(shares: FloatArray, values: _Values, cls: int, input_: int, matters: Matters) -> FloatArray:
    """Shares without those of single values that do not matter."""
    kept = shares.copy()
    for group in np.flatnonzero(values.sizes == 1).tolist():
        probe = Joined(0, 1, {cls: values.value(int(values.starts[group]))})
        if not matters(input_, probe):
            kept[group] = 0.0
    return kept


def _lifetimes(
    item: Input, source: Source, rate_per_s: float, seconds: float, rng: np.random.Generator
) -> tuple[IntArray, IntArray]:
    """Times and ends. Under a ROWS window every tuple of the stream counts, and a filter thins them after."""
    window = item.window
    if not window.counts_rows:
        times = _times(rate_per_s, seconds, rng)
        return times, window.end_us(times)
    held = window.expected_tuples(rate_per_s)
    assert held is not None, "a window that counts rows is bounded"
    unfiltered = source.turnover_per_s * held
    times = _times(unfiltered, seconds, rng)
    after = window.successor(np.arange(len(times)))
    ends = np.append(times, NEVER)[np.minimum(after, len(times))]
    passed = (rng.random(len(times)) < source.rate_per_s / unfiltered) & (times < ends)
    return times[passed], ends[passed]


def _times(rate_per_s: float, seconds: float, rng: np.random.Generator) -> IntArray:
    count = math.floor(rate_per_s * seconds + rng.random())
    return np.sort(np.floor(rng.random(count) * _us(seconds))).astype(np.int64)

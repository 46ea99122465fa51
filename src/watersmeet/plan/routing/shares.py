"""Shares: how many buckets each attribute class gets when a join is routed over a hypercube.

After Afrati and Ullman, "Optimizing multiway joins in a map-reduce environment" (TKDE 2011). Buckets are
the cells of a grid with one axis per attribute class; a share is the length of an axis. A tuple knows its
coordinate on the axes of the classes its input takes part in, and is copied along all others, so
each combination of matching tuples meets in exactly one cell.

Guarantee: among integer shares whose product is at most the number of buckets, the ones returned let the
fullest bucket expect the fewest bytes, that is they minimise

    load = sum over inputs of bytes_i * replication_i / product
         = sum over inputs of bytes_i / (product of the shares of the classes of i)

where, if distinct counts are known, a share counts for an input only up to its number of values. Ties go to
less replication, then to the classes with more distinct values, then to earlier ones.

Where the paper minimises copies for a given number of cells, we also choose the number of cells: of 100
buckets a triangle best uses 5 x 5 x 4, but of 67 only 4 x 4 x 4. The search is exact unless more than
`FRONTIER` partial choices stay open at once (a dozen classes or more over a thousand buckets); it then
keeps the most promising ones, and is still never worse than giving every bucket to one class.

Example: R(a), S(a, b), T(b) at equal rates over 4 buckets. Shares (4, 1) cost 1/4 + 1/4 + 1 a bucket,
shares (2, 2) cost 1/2 + 1/4 + 1/2: the second wins, with R and T copied twice and S never.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from watersmeet.errors import ConfigurationError
from watersmeet.plan.sites.plan_tree import number
from watersmeet.plan.statistics.rate_model import rate_model
from watersmeet.plan.statistics.statistics import Statistics, attribute_name
from watersmeet.query import JoinGraph, Query

FRONTIER = 10_000
FIRST_GUESS = 256  # a narrow search first: its answer prunes the wide one
EPSILON = 1e-9

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Hypercube:
    """A grid of buckets with one share per attribute class, and what it costs to route by it."""

    graph: JoinGraph
    shares: tuple[int, ...]
    bytes_per_s: tuple[float, ...]  # one per input, in FROM order
    routed_by: Mapping[str, tuple[int, ...]] | None = None  # by alias, the classes it goes by; None: its own

    @property
    def buckets_used(self) -> int:
        return math.prod(self.shares)

    def replication(self, alias: str) -> int:
        """How many buckets receive each tuple of an input."""
        own = self.graph.classes_of(alias) if self.routed_by is None else self.routed_by[alias]
        return math.prod(share for index, share in enumerate(self.shares) if index not in own)

    @property
    def cost_bytes_per_s(self) -> float:
        """What the exchange carries, copies included."""
        return sum(
            rate * self.replication(alias)
            for alias, rate in zip(self.graph.aliases, self.bytes_per_s, strict=True)
        )

    @property
    def load_bytes_per_s(self) -> float:
        """What one bucket expects to receive."""
        return self.cost_bytes_per_s / self.buckets_used

    def pretty(self) -> str:
        lines = [f"{self.buckets_used} buckets = {' x '.join(map(str, self.shares)) or '1'}"]
        lines += [
            f"  {share:>4} for {cls.pretty()}"
            for share, cls in zip(self.shares, self.graph.classes, strict=True)
        ]
        copies = ", ".join(f"{alias} x{self.replication(alias)}" for alias in self.graph.aliases)
        lines.append(f"  copies: {copies}")
        lines.append(f"  {number(self.cost_bytes_per_s)} bytes/s, {number(self.load_bytes_per_s)} a bucket")
        return "\n".join(lines)


def plan_shares(query: Query, statistics: Statistics, buckets: int) -> Hypercube:
    """The shares of a query under statistics, local filters applied."""
    rates = {source.alias: source for source in rate_model(query, statistics).sources}
    values = [
        {
            side.alias: statistics.attribute(
                query.input(side.alias).stream.name, attribute_name(side)
            ).distinct
            for side in cls.attributes
        }
        for cls in query.graph.classes
    ]
    bytes_per_s = {alias: source.rate_per_s * source.tuple_bytes for alias, source in rates.items()}
    routed_by = {item.alias: query.routing_classes(item.alias) for item in query.inputs}
    return choose_shares(query.graph, bytes_per_s, buckets, values, routed_by)


def choose_shares(
    graph: JoinGraph,
    bytes_per_s: Mapping[str, float],
    buckets: int,
    distinct_values: Sequence[Mapping[str, float]] | None = None,
    routed_by: Mapping[str, tuple[int, ...]] | None = None,
) -> Hypercube:
    """The shares that leave the fullest of at most `buckets` buckets with the fewest bytes.

    `distinct_values`, for each class by alias where known: an input spreads over no more coordinates of
    an axis than it has values. Where no input carries bytes, all count alike. `routed_by`, by alias: an input
    is copied along the axes of all other classes, its own as well.
    """
    rates = _checked_rates(graph, bytes_per_s)
    if buckets < 1:
        raise ConfigurationError(f"shares need at least one bucket, not {buckets}")
    known = [{}] * len(graph.classes) if distinct_values is None else distinct_values
    if len(known) != len(graph.classes):
        raise ConfigurationError(
            f"distinct values for {len(known)} of {len(graph.classes)} attribute classes:"
            " give a mapping for each, empty where unknown"
        )
    routed = routed_by or {alias: graph.classes_of(alias) for alias in graph.aliases}
    numbers = range(len(graph.classes))
    spread = np.array(
        [
            [max(1.0, known[n].get(a, math.inf)) if n in routed[a] else 1.0 for a in graph.aliases]
            for n in numbers
        ]
    ).reshape(len(graph.classes), len(graph.aliases))
    member = np.array([[n in routed[a] for a in graph.aliases] for n in numbers]).reshape(spread.shape)
    # Where nobody goes by a class, every bucket along its axis would find the same answers.
    fewest = [
        float(row[inside].min()) if inside.any() else 1.0 for row, inside in zip(spread, member, strict=True)
    ]
    preferred = sorted(range(len(fewest)), key=lambda index: (-fewest[index], index))
    useful = [
        n for n in preferred if member[n].any() and not _is_dominated(n, preferred, member, fewest, buckets)
    ]
    shares = [1] * len(graph.classes)
    if useful:
        weights = np.array(rates) if any(rates) else np.ones(len(rates))
        grid = _Grid(buckets, weights, member[useful], spread[useful])
        for index, share in zip(useful, grid.search(), strict=True):
            shares[index] = share
    return Hypercube(graph, tuple(shares), tuple(rates), routed_by)


def _checked_rates(graph: JoinGraph, bytes_per_s: Mapping[str, float]) -> list[float]:
    missing = [alias for alias in graph.aliases if alias not in bytes_per_s]
    if missing:
        raise ConfigurationError(f"no bytes per second known for {', '.join(missing)}")
    rates = [float(bytes_per_s[alias]) for alias in graph.aliases]
    for alias, rate in zip(graph.aliases, rates, strict=True):
        if not (rate >= 0 and math.isfinite(rate)):
            raise ConfigurationError(f"{alias} cannot carry {rate} bytes per second")
    return rates


def _is_dominated(
    index: int, preferred: Sequence[int], member: Bools, fewest: Sequence[float], buckets: int
) -> bool:
    """Whether another class could take over any share of this one with no input worse off."""
    own = member[index]
    for other in preferred:
        if other == index or fewest[other] < buckets or (own & ~member[other]).any():
            continue
        if (own != member[other]).any() or preferred.index(other) < preferred.index(index):
            return True
    return False


@dataclass(frozen=True, eq=False)
class _Grid:
    """The search: classes as rows, inputs as columns, the most preferred class first."""

    buckets: int
    rates: Floats
    member: Bools
    spread: Floats  # coordinates of the class's axis an input can reach: its distinct values, 1 for outsiders

    @property
    def limits(self) -> Floats:
        """No axis needs more coordinates than its richest input has values."""
        limits: Floats = np.minimum(self.buckets, np.ceil(self.spread.max(axis=1)))
        return limits

    def search(self) -> tuple[int, ...]:
        best = self._single_class()
        for width in (FIRST_GUESS, FRONTIER):
            best = self._sweep(best, width)
        return best

    def _single_class(self) -> tuple[int, ...]:
        """Every bucket on one class: the choice that no result may fall behind."""
        rows = np.ones((len(self.member), len(self.member)), dtype=np.int64)
        np.fill_diagonal(rows, self.limits)
        return self._pick(rows)

    def _sweep(self, best: tuple[int, ...], width: int) -> tuple[int, ...]:
        """Fix one class after another, dropping partial choices that cannot reach the best load known."""
        known = self._loads(np.array([best]))[0]
        rows = np.ones((1, len(self.member)), dtype=np.int64)
        terms = self.rates[None, :]
        for depth, limit in enumerate(self.limits):
            top = np.minimum(self.buckets // rows.prod(axis=1), int(limit))
            if depth == len(self.member) - 1:
                # The load never rises with a share, so the last class takes all that is left, or nothing
                # at all where it would only copy inputs that carry no bytes.
                rows = np.vstack([rows, rows])
                rows[:, depth] = np.concatenate([top, np.ones_like(top)])
                break
            rows = np.repeat(rows, top, axis=0)
            starts = np.cumsum(top) - top
            rows[:, depth] = np.arange(len(rows)) - np.repeat(starts, top) + 1
            terms = np.repeat(terms, top, axis=0) / np.minimum(rows[:, depth, None], self.spread[depth])
            bounds = self._bounds(rows, terms, depth)
            open_rows = np.flatnonzero(bounds <= known * (1 + EPSILON))
            if len(open_rows) > width:
                order = np.argsort(bounds[open_rows], kind="stable")[:width]
                open_rows = np.sort(open_rows[order])
            rows, terms = rows[open_rows], terms[open_rows]
        return self._pick(np.vstack([rows, np.array([best])]))

    def _loads(self, rows: Ints) -> Floats:
        """Bytes the fullest bucket receives, for each choice of shares."""
        terms = np.repeat(self.rates[None, :], len(rows), axis=0)
        for index, reach in enumerate(self.spread):
            terms = terms / np.minimum(rows[:, index, None], reach)
        loads: Floats = terms.sum(axis=1)
        return loads

    def _costs(self, rows: Ints) -> Floats:
        """Bytes sent, copies included, for each choice of shares."""
        costs: Floats = np.exp(np.log(rows) @ (~self.member).astype(np.float64)) @ self.rates
        return costs

    def _bounds(self, rows: Ints, terms: Floats, depth: int) -> Floats:
        """A load no completion can beat, once the classes up to `depth` have their shares.

        The inputs still open divide the left-over buckets between them. Each alone could at best use all
        of them. Together, under weights u_i that sum to at most 1 on every open class, the weighted mean
        inequality gives sum t_i / x_i >= U * (prod (t_i / u_i)^u_i / left)^(1/U), U = sum u_i.
        """
        left = self.buckets / rows.prod(axis=1)
        widest = self.spread[depth + 1 :].prod(axis=0)
        alone = terms / np.minimum(left[:, None], widest[None, :])
        best: Floats = alone.sum(axis=1)
        for weight in _packings(self.member[depth + 1 :] & (self.rates > 0)):
            used = weight > 0
            total = weight.sum()
            logs = (np.log(terms[:, used] / weight[used]) * weight[used]).sum(axis=1) - np.log(left)
            best = np.maximum(best, total * np.exp(logs / total) + alone[:, ~used].sum(axis=1))
        return best

    def _pick(self, rows: Ints) -> tuple[int, ...]:
        """The row of least load, then least replication, then most on the first classes."""
        loads = self._loads(rows)
        rows = rows[loads <= loads.min() * (1 + EPSILON)]
        costs = self._costs(rows)
        rows = rows[costs <= costs.min() * (1 + EPSILON)]
        return max(tuple(int(share) for share in row) for row in rows)


def _packings(member: Bools) -> list[Floats]:
    """Two weightings of the inputs under which no class holds more than 1: spread evenly, and greedy.

    On a chain the even one is tight, on a star the greedy one, which gives the leaves all.
    """
    degree = member.sum(axis=1)
    even = np.zeros(member.shape[1])
    greedy = np.zeros(member.shape[1])
    for i in np.argsort(member.sum(axis=0), kind="stable"):
        own = member[:, i]
        if own.any():
            even[i] = 1 / degree[own].max()
            greedy[i] = max(0.0, 1 - (member[own] @ greedy).max())
    return [weight for weight in (even, greedy) if weight.any()]

"""Which values go together: PMJoin's partitioning of streams by hash, by range and by rate.

Paper: PMJoin, DASFAA 2006, section 3.3. The finest substreams hold one value each (FStreams); they are
collected into D partitions, and each partition gets a plan of its own.

    hash   a hash of the value, modulo D
    range  the data range cut into D pieces of equal width
    rate   values whose streams rank alike by rate: the vector V_k holds each stream's position when the
           streams are sorted by their rate of value k, and k-means collects the vectors into D clusters

Values come as cells (`value_groups`): single values where their rates are known, bins of a histogram, and the
values nobody listed. A bin that a hash scatters, or that a range boundary cuts, goes to several
partitions by parts; by rate it goes whole, as its values share one estimated vector.

Readings taken: with as many partitions as cells, each cell has its own, whatever the kind (the paper says so
of its data range). A tie in rate ranks the streams in their order. The vectors' distance is Euclidean.
k-means starts from seeded k-means++ centres and is deterministic; equal vectors count as one weighted point,
a point midway goes to the first centre, and a cluster that runs empty takes the point farthest from its own
centre. Where there are fewer different vectors than partitions, the paper scatters equal vectors at random;
here the largest cluster is halved, in value order, until D are reached. Empty partitions are dropped.

    >>> rank_vectors(np.array([[0.1, 0.1], [0.03, 50.0], [50.0, 0.01]])).tolist()
    [[2, 1, 3], [2, 3, 1]]
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from watersmeet.errors import ConfigurationError
from watersmeet.plan.statistics.attribute import Value
from watersmeet.plan.statistics.value_groups import Cell, FloatArray, IntArray

Partitioning = Literal["hash", "range", "rate"]
PARTITIONINGS: tuple[str, ...] = get_args(Partitioning)
MAX_ROUNDS = 30


@dataclass(frozen=True, eq=False)
class Partition:
    """Some cells of an attribute; a weight below 1 takes that part of the cell's values."""

    name: str
    cells: IntArray
    weights: FloatArray


def partition_values(
    kind: str, cells: Sequence[Cell], rates: FloatArray, partitions: int, *, counts: FloatArray, seed: int = 0
) -> tuple[Partition, ...]:
    """Gather cells into at most so many partitions; `rates` is stream x cell, `counts` values per cell."""
    check_partitioning(kind, partitions)
    if partitions >= len(cells):
        weights = np.eye(len(cells))
    elif kind == "hash":
        weights = hash_weights(cells, partitions)
    elif kind == "range":
        weights = range_weights(cells, partitions)
    else:
        labels = cluster(rank_vectors(rates), counts, partitions, seed=seed)
        weights = np.eye(partitions)[:, labels]
    return tuple(
        Partition(_name(kind, number, row, cells), np.flatnonzero(row), row[row > 0])
        for number, row in enumerate(weights)
        if row.any()
    )


def check_partitioning(kind: str, partitions: int) -> None:
    """Refuse a kind nobody knows and a number of partitions that is none."""
    if kind not in PARTITIONINGS:
        raise ConfigurationError(f"no partitioning '{kind}': write one of {', '.join(PARTITIONINGS)}")
    if partitions < 1:
        raise ConfigurationError(f"the number of partitions must be at least 1, got {partitions}")


def _name(kind: str, number: int, weights: FloatArray, cells: Sequence[Cell]) -> str:
    """A partition is named by its only value, else by its number."""
    inside = np.flatnonzero(weights)
    whole = len(inside) == 1 and weights[inside[0]] == 1.0
    return cells[inside[0]].pretty() if whole else f"{kind} {number + 1}"


def stable_hash(value: Value) -> int:
    """A hash that is the same in every process; equal numbers hash alike whatever their type."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    text = value if isinstance(value, str) else f"#{value + 0}"
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def hash_weights(cells: Sequence[Cell], partitions: int) -> FloatArray:
    """partition x cell: a value goes to one partition, ranges and unlisted values evenly to all."""
    weights = np.zeros((partitions, len(cells)))
    for index, cell in enumerate(cells):
        if cell.value is None:
            weights[:, index] = 1.0 / partitions
        else:
            weights[stable_hash(cell.value) % partitions, index] = 1.0
    return weights


def range_weights(cells: Sequence[Cell], partitions: int) -> FloatArray:
    """partition x cell: by which of equally wide pieces of the data range a value or range lies in.

    Text has an order but no width, so there each value counts as one step. The range ends one step after
    the last of whole numbers. Unlisted values lie anywhere.
    """
    extents = _extents(cells)
    low = min((start for start, _ in extents.values()), default=0.0)
    high = max((end for _, end in extents.values()), default=1.0)
    if all(start == end and start.is_integer() for start, end in extents.values()):
        high += 1.0
    edges = np.linspace(low, high, partitions + 1)
    weights = np.zeros((partitions, len(cells)))
    for index in range(len(cells)):
        if index not in extents:
            weights[:, index] = 1.0 / partitions
            continue
        start, end = extents[index]
        if start == end:
            piece = int(np.searchsorted(edges, start, side="right")) - 1
            weights[min(piece, partitions - 1), index] = 1.0
        else:
            overlap = np.minimum(edges[1:], end) - np.maximum(edges[:-1], start)
            weights[:, index] = np.clip(overlap, 0.0, None) / (end - start)
    return weights


def _extents(cells: Sequence[Cell]) -> dict[int, tuple[float, float]]:
    """Where each cell that can be ordered lies: a range from end to end, a value at a point."""
    listed = [index for index, cell in enumerate(cells) if cell.value is not None or cell.low is not None]
    if any(isinstance(cells[index].value, str) for index in listed):
        return {index: (float(rank), float(rank)) for rank, index in enumerate(listed)}
    extents = {}
    for index in listed:
        cell = cells[index]
        if cell.low is not None and cell.high is not None:
            extents[index] = (cell.low, cell.high)
        elif cell.value is not None:
            extents[index] = (float(cell.value), float(cell.value))
    return extents


def rank_vectors(rates: FloatArray) -> IntArray:
    """One row V_k per cell: the position of each stream, from 1, when sorted by its rate in that cell."""
    order = np.argsort(rates, axis=0, kind="stable")
    positions = np.empty_like(order)
    np.put_along_axis(positions, order, np.arange(1, len(rates) + 1)[:, None], axis=0)
    return positions.T.astype(np.int64)


def cluster(vectors: IntArray, counts: FloatArray, clusters: int, *, seed: int = 0) -> IntArray:
    """A cluster for each vector, equal vectors together as long as there are enough different ones."""
    points, member = np.unique(vectors, axis=0, return_inverse=True)
    member = member.reshape(-1)
    if clusters <= len(points):
        weights = np.bincount(member, np.maximum(counts, 1e-12), len(points)).astype(np.float64)
        return k_means(points.astype(np.float64), weights, clusters, seed=seed)[member]
    found = [np.flatnonzero(member == point) for point in range(len(points))]
    while len(found) < clusters and max(map(len, found)) > 1:
        largest = max(range(len(found)), key=lambda n: len(found[n]))
        half = len(found[largest]) // 2
        found.append(found[largest][half:])
        found[largest] = found[largest][:half]
    labels = np.empty(len(vectors), dtype=np.int64)
    for number, cluster in enumerate(found):
        labels[cluster] = number
    return labels


def k_means(points: FloatArray, weights: FloatArray, clusters: int, *, seed: int = 0) -> IntArray:
    """Lloyd's k-means over different, weighted points; no cluster is left empty."""
    centres = points[_first_centres(points, weights, clusters, np.random.default_rng(seed))]
    labels = np.full(len(points), -1, dtype=np.int64)
    for _ in range(MAX_ROUNDS):
        distances = _squared_distances(points, centres)
        nearest = fill_empty(distances.argmin(axis=1), distances, clusters)
        if np.array_equal(nearest, labels):
            break
        labels = nearest
        total = np.bincount(labels, weights, clusters)
        sums = [np.bincount(labels, weights * column, clusters) for column in points.T]
        centres = (np.array(sums) / total).T
    return labels


def _first_centres(
    points: FloatArray, weights: FloatArray, clusters: int, random: np.random.Generator
) -> list[int]:
    """k-means++: each next centre is drawn by weight times squared distance from those taken."""
    chosen = [int(random.choice(len(points), p=weights / weights.sum()))]
    distance = _squared_distances(points, points[chosen])[:, 0]
    while len(chosen) < clusters:
        distance[chosen] = 0.0
        chances = weights * distance
        chosen.append(int(random.choice(len(points), p=chances / chances.sum())))
        distance = np.minimum(distance, _squared_distances(points, points[chosen[-1:]])[:, 0])
    return chosen


def _squared_distances(points: FloatArray, centres: FloatArray) -> FloatArray:
    """point x centre; rounding keeps points that are midway between two centres midway."""
    cross = points @ centres.T
    squares = (points**2).sum(axis=1)[:, None] - 2 * cross + (centres**2).sum(axis=1)
    return np.asarray(np.round(np.clip(squares, 0.0, None), 9), dtype=np.float64)


def fill_empty(labels: IntArray, distances: FloatArray, clusters: int) -> IntArray:
    """Give each empty cluster the point farthest from its centre among clusters that can spare one."""
    labels = labels.astype(np.int64)
    sizes = np.bincount(labels, minlength=clusters)
    for empty in np.flatnonzero(sizes == 0):
        own = distances[np.arange(len(labels)), labels]
        spare = np.where(sizes[labels] > 1, own, -1.0)
        point = int(spare.argmax())
        sizes[labels[point]] -= 1
        labels[point], sizes[empty] = empty, 1
    return labels

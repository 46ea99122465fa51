"""PMJoin section 3.3: partitioning by hash, range and rate."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from watersmeet.errors import ConfigurationError
from watersmeet.plan.sites.stream_partition import (
    PARTITIONINGS,
    Partition,
    cluster,
    fill_empty,
    k_means,
    partition_values,
    rank_vectors,
    stable_hash,
)
from watersmeet.plan.statistics.attribute import Value
from watersmeet.plan.statistics.value_groups import Cell


def cells_of(*values: Value) -> list[Cell]:
    return [Cell(value=value) for value in values]


def split(
    kind: str, cells: list[Cell], partitions: int, rates: list[list[float]] | None = None
) -> list[Partition]:
    table = np.array(rates if rates is not None else [[1.0] * len(cells)] * 2)
    return list(partition_values(kind, cells, table, partitions, counts=np.ones(len(cells))))


def members(parts: list[Partition]) -> list[list[int]]:
    return [part.cells.tolist() for part in parts]


def test_rank_vectors_hold_each_streams_position() -> None:
    """The paper's example: sorted list <FS3, FS1, FS2> has the vector <2, 3, 1>."""
    assert rank_vectors(np.array([[2.0], [3.0], [1.0]])).tolist() == [[2, 3, 1]]


def test_equal_rates_rank_in_stream_order() -> None:
    assert rank_vectors(np.array([[1.0], [1.0], [0.0]])).tolist() == [[2, 3, 1]]


def test_range_cuts_whole_numbers_into_equal_pieces() -> None:
    parts = split("range", cells_of(*range(1, 11)), 5)
    assert members(parts) == [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9]]


def test_range_pieces_are_equally_wide_not_equally_full() -> None:
    parts = split("range", cells_of(1, 2, 3, 100), 2)
    assert members(parts) == [[0, 1, 2], [3]]
    assert [part.name for part in parts] == ["range 1", "100"]


def test_range_orders_text() -> None:
    assert members(split("range", cells_of("ant", "bee", "cat", "dog"), 2)) == [[0, 1], [2, 3]]


def test_range_cuts_a_bucket_by_width_and_spreads_unlisted_values() -> None:
    parts = split("range", [Cell(low=0.0, high=10.0), Cell(low=10.0, high=40.0), Cell()], 2)
    assert members(parts) == [[0, 1, 2], [1, 2]]
    assert parts[0].weights == pytest.approx([1.0, 1 / 3, 0.5])
    assert parts[1].weights == pytest.approx([2 / 3, 0.5])


def test_hash_sends_a_value_to_one_partition_and_a_bucket_to_all() -> None:
    parts = split("hash", [*cells_of("a", "b", "c", "d"), Cell(low=0.0, high=9.0)], 3)
    homes = [part.cells[part.weights == 1.0].tolist() for part in parts]
    assert sorted(cell for home in homes for cell in home) == [0, 1, 2, 3]
    assert all(part.weights[part.cells == 4] == pytest.approx(1 / 3) for part in parts)


def test_hash_is_the_same_everywhere() -> None:
    assert stable_hash("dest") == 16384976200088943354
    assert stable_hash(7) == stable_hash(7.0) != stable_hash("7")


def test_rate_gathers_values_whose_streams_rank_alike() -> None:
    rates = [[9.0, 1.0, 8.0, 1.0], [5.0, 5.0, 5.0, 5.0], [1.0, 9.0, 2.0, 7.0]]
    parts = split("rate", cells_of("a", "b", "c", "d"), 2, rates)
    assert sorted(members(parts)) == [[0, 2], [1, 3]]


def test_equal_vectors_are_halved_until_there_are_enough_partitions() -> None:
    """The paper scatters values with equal vectors at random; here in order."""
    parts = split("rate", cells_of(*range(8)), 3, [[1.0] * 8, [2.0] * 8])
    assert sorted(members(parts)) == [[0, 1], [2, 3], [4, 5, 6, 7]]


def test_unknown_kinds_and_no_partitions_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="no partitioning 'size': write one of hash, range, rate"):
        split("size", cells_of(1), 1)
    with pytest.raises(ConfigurationError, match="must be at least 1, got 0"):
        split("hash", cells_of(1), 0)


def test_an_empty_cluster_takes_the_farthest_point_another_can_spare() -> None:
    distances = np.array([[9.0, 99.0, 50.0], [99.0, 1.0, 60.0], [99.0, 2.0, 60.0]])
    assert fill_empty(np.array([0, 1, 1]), distances, 3).tolist() == [0, 1, 2]


def test_k_means_finds_separate_clouds() -> None:
    points = np.array([[0.0, 0.0], [0.0, 1.0], [9.0, 9.0], [9.0, 8.0], [50.0, 0.0]])
    labels = k_means(points, np.ones(5), 3, seed=1)
    assert labels[0] == labels[1] != labels[2] == labels[3] != labels[4] != labels[0]


@given(
    st.lists(st.lists(st.integers(0, 3), min_size=2, max_size=2), min_size=1, max_size=30),
    st.integers(1, 30),
    st.integers(0, 5),
)
@settings(max_examples=100)
def test_clusters_are_full_and_repeatable(vectors: list[list[int]], clusters: int, seed: int) -> None:
    table, counts = np.array(vectors), np.ones(len(vectors))
    labels = cluster(table, counts, clusters, seed=seed)
    assert set(labels.tolist()) == set(range(min(clusters, len(vectors))))
    assert labels.tolist() == cluster(table, counts, clusters, seed=seed).tolist()
    if clusters <= len(np.unique(table, axis=0)):
        same = {}
        for vector, label in zip(vectors, labels.tolist(), strict=True):
            assert same.setdefault(tuple(vector), label) == label


@given(
    st.sampled_from(PARTITIONINGS), st.integers(1, 12), st.integers(1, 12), st.randoms(use_true_random=False)
)
def test_every_value_goes_somewhere_exactly_once(
    kind: str, values: int, partitions: int, random: Random
) -> None:
    cells = [*cells_of(*range(values)), Cell(low=100.0, high=140.0), Cell()]
    rates = [[random.random() for _ in cells] for _ in range(3)]
    parts = split(kind, cells, partitions, rates)
    assert len(parts) <= partitions or len(parts) == len(cells)
    total = np.zeros(len(cells))
    for part in parts:
        total[part.cells] += part.weights
    assert total == pytest.approx(np.ones(len(cells)))
    if partitions >= len(cells):
        assert members(parts) == [[n] for n in range(len(cells))]

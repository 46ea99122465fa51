"""Every value finds one partition, and finds it where the model counted it (PMJoin section 3.3)."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pytest

from watersmeet.plan.sites.stream_partition import PARTITIONINGS, partition_values, stable_hash
from watersmeet.plan.sites.value_router import ValueRouter
from watersmeet.plan.statistics.attribute import AttributeStatistics, Bin
from watersmeet.plan.statistics.value_groups import ValueGroups, align


def router(kind: str, groups: ValueGroups, partitions: int) -> ValueRouter:
    rates = groups.cell_sums(groups.shares)
    parts = partition_values(kind, groups.cells, rates, partitions, counts=groups.cell_counts())
    return ValueRouter(kind, groups.cells, parts)


def listed(values: int) -> ValueGroups:
    """Every value known in two streams, in opposite orders of rate."""
    hot = tuple((value, float(value + 1)) for value in range(values))
    back = tuple((value, float(values - value)) for value in range(values))
    total = sum(rate for _, rate in hot)
    return align([(AttributeStatistics(values, hot), total), (AttributeStatistics(values, back), total)])


@pytest.mark.parametrize("kind", PARTITIONINGS)
@pytest.mark.parametrize("partitions", [2, 5, 40])
def test_a_listed_value_goes_where_its_cell_is(kind: str, partitions: int) -> None:
    groups = listed(40)
    found = router(kind, groups, partitions)
    for number, part in enumerate(found.partitions):
        for cell in part.cells.tolist():
            value = groups.cells[cell].value
            assert value is not None
            assert found.partition_of(value) == number
            assert found.partition_of(float(value)) == number, "equal numbers are one value"


def test_a_hash_sends_values_where_the_partitioning_does() -> None:
    groups = listed(40)
    found = router("hash", groups, 8)
    for value in range(40):
        assert found.partitions[found.partition_of(value)].name.removeprefix("hash ") in (
            str(stable_hash(value) % 8 + 1),
            str(value),
        )


def test_a_range_is_cut_where_the_model_cuts_it() -> None:
    """A bin [0, 900) and values up to 1002, in three pieces of 334."""
    known = AttributeStatistics(903, tuple((1000 + n, 1.0) for n in range(3)), (Bin(0, 900, 9.0, 900),))
    found = router("range", align([(known, 12.0), (known, 12.0)]), 3)
    assert len(found.partitions) == 3
    indices = [found.partition_of(value) for value in (0, 333, 335, 667, 669, 899, 1000, 1002)]
    assert indices == [0, 0, 1, 1, 2, 2, 2, 2]


def test_shared_cells_are_spread_evenly() -> None:
    hot = tuple((f"v{n}", 1.0) for n in range(3))
    known = AttributeStatistics(1003, hot)
    found = router("hash", align([(known, 100.0), (known, 50.0)]), 3)
    counts = np.bincount([found.partition_of(f"unlisted {n}") for n in range(3000)], minlength=3)
    assert counts.min() > 900


@pytest.mark.parametrize("value", [10**9, -1, "nobody listed this", dt.date(2024, 2, 29), (1, 2), True, 2.5])
@pytest.mark.parametrize("kind", PARTITIONINGS)
def test_values_nobody_listed_have_a_partition_too(kind: str, value: object) -> None:
    found = router(kind, listed(6), 3)
    assert 0 <= found.partition_of(value) < len(found.partitions)  # type: ignore[arg-type]
    assert found.partition_of(value) == found.partition_of(value)  # type: ignore[arg-type]

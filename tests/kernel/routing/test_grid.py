"""Hypercube routing: every combination that joins meets in exactly one bucket."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from watersmeet.kernel import TS, Grid, InputLayout, route
from watersmeet.query import UNBOUNDED

SHAPES = {
    "same key": [(0,), (0,), (0,)],
    "chain": [(0,), (0, 1), (1,)],
    "triangle": [(0, 2), (0, 1), (1, 2)],
    "composite": [(0, 1), (0, 1)],
}


def buckets_of(grid: Grid, classes: tuple[int, ...], keys: dict[int, int]) -> set[int]:
    layout = InputLayout("a", UNBOUNDED, tuple((cls, f"__key{cls}") for cls in classes), ())
    columns = {TS: pa.array([0])} | {f"__key{cls}": pa.array([keys[cls]]) for cls in classes}
    routed = route(grid, layout, pa.record_batch(columns))
    assert len(routed) == 1
    assert len(set(routed[0][0])) == len(routed[0][0])
    return set(routed[0][0])


@pytest.mark.parametrize("shape", SHAPES)
@given(st.lists(st.integers(1, 4), min_size=3, max_size=3), st.lists(st.integers(), min_size=3, max_size=3))
def test_tuples_that_join_meet_in_one_bucket(shape: str, shares: list[int], values: list[int]) -> None:
    inputs = SHAPES[shape]
    count = 1 + max(cls for classes in inputs for cls in classes)
    grid, keys = Grid(tuple(shares[:count])), {cls: value % 2**62 for cls, value in enumerate(values)}
    places = [buckets_of(grid, classes, keys) for classes in inputs]
    assert len(set.intersection(*places)) == 1
    for classes, place in zip(inputs, places, strict=True):
        free = [grid.shares[cls] for cls in range(count) if cls not in classes]
        assert len(place) == int(np.prod(free)) if free else len(place) == 1
        assert sum(grid.is_home(bucket, classes) for bucket in place) == 1
        assert all(0 <= bucket < grid.buckets for bucket in place)


def test_tuples_are_spread_evenly_and_keep_their_order() -> None:
    layout = InputLayout("a", UNBOUNDED, ((0, "__key0"),), ())
    rows = 10_000
    batch = pa.record_batch({TS: pa.array(np.arange(rows)), "__key0": pa.array(np.arange(rows) % 1000)})
    routed = route(Grid((4,)), layout, batch)
    assert sorted(buckets for buckets, _ in routed) == [(0,), (1,), (2,), (3,)]
    assert sum(part.num_rows for _, part in routed) == rows
    for _, part in routed:
        assert 0.8 * rows / 4 < part.num_rows < 1.2 * rows / 4
        assert (np.diff(np.asarray(part.column(TS))) > 0).all()


def test_a_query_of_one_attribute_is_not_replicated() -> None:
    grid = Grid((5,))
    assert grid.replicas((0,)) == (0,)
    assert all(grid.is_home(bucket, (0,)) for bucket in range(5))

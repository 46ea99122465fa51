"""Results go where tuples of the same value go; those without a value stay where they are, or nowhere."""

from __future__ import annotations

import pyarrow as pa

from watersmeet.kernel import TS, Grid, InputLayout, route, route_results
from watersmeet.query import range_us

VALUES = [*range(40), None, None]


def test_results_meet_the_tuples_of_their_value() -> None:
    grid, layout = Grid((1, 5)), InputLayout("c", range_us(1), ((1, "k"),), ())
    tuples = pa.record_batch({TS: pa.array([0] * 40), "k": pa.array(VALUES[:40])})
    home = {
        value: buckets
        for buckets, part in route(grid, layout, tuples)
        for value in part.column("k").to_pylist()
    }
    results = pa.record_batch({"a.v": pa.array(VALUES), "n": pa.array(range(42))})
    found = {
        (value, number): bucket
        for bucket, part in route_results(results, "a.v", 5, 3)
        for value, number in zip(*(column.to_pylist() for column in part.columns), strict=True)
    }
    assert {(value, n): home[value][0] for n, value in enumerate(VALUES[:40])} | {
        (None, 40): 3,
        (None, 41): 3,
    } == found
    assert len(set(found.values())) == 5


def test_without_a_home_those_without_a_value_go_nowhere() -> None:
    results = pa.record_batch({"k": pa.array(VALUES)})
    parts = route_results(results, "k", 1, None)
    assert [part.num_rows for _, part in parts] == [40]
    unknown = pa.record_batch({"k": pa.nulls(3)})  # nothing has come yet of the input
    assert route_results(unknown, "k", 2, None) == []
    assert [(bucket, part.num_rows) for bucket, part in route_results(unknown, "k", 2, 1)] == [(1, 3)]

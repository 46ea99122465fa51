"""Answers of every type leave the join as they came in, as rows or as blobs, with NULLs and without."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pytest

from watersmeet.testing import declare, run_query

UTC = dt.UTC
PLAIN: dict[str, Any] = {
    "boolean": True,
    "tinyint": -7,
    "smallint": 30_000,
    "int": -2_000_000_000,
    "bigint": 2**53 + 1,
    "float": 1.5,
    "double": float("inf"),
    "string": "ä text",
    "binary": b"\x00\xff",
    "date": dt.date(1815, 6, 18),
    "timestamp": dt.datetime(2024, 2, 29, 23, 59, 59, 123456, UTC),
    "timestamp_ntz": dt.datetime(1969, 7, 20, 20, 17, 40),
    "decimal(12,3)": Decimal("-123456789.125"),
}
NESTED: dict[str, Any] = {
    "array<int>": [1, None, 3],
    "struct<x:bigint,t:timestamp>": {"x": 5, "t": dt.datetime(2024, 1, 1, tzinfo=UTC)},
}


@pytest.mark.parametrize("routing", ["shares", "pipeline"])
@pytest.mark.parametrize("direct_files", [False, True])
@pytest.mark.parametrize("types", [PLAIN, PLAIN | NESTED], ids=["rows", "blobs"])
def test_values_of_every_type_come_out_as_they_went_in(
    types: dict[str, Any], direct_files: bool, routing: str
) -> None:
    declared = ", ".join(["k bigint", "ts timestamp", *(f"c{n} {name}" for n, name in enumerate(types))])
    streams = [declare(name, declared, event_time="ts") for name in ("s", "t")]
    selected = ", ".join(f"{alias}.c{n} AS {alias}{n}" for alias in "ab" for n in range(len(types)))
    instant = dt.datetime(2024, 1, 1, tzinfo=UTC)
    batch = {name: [(1, instant, *types.values()), (2, instant, *[None] * len(types))] for name in ("s", "t")}
    result = run_query(
        f"SELECT a.k AS k, {selected}, answer_time FROM s [RANGE 1 SECOND] AS a, t [RANGE 1 SECOND] AS b "
        "WHERE a.k = b.k",
        [batch],
        streams=streams,
        direct_files=direct_files,
        routing=routing,
    )
    values = list(types.values())
    assert sorted(result.answers, key=lambda row: row[0]) == [
        (1, *values, *values, instant),
        (2, *[None] * (2 * len(values)), instant),
    ]

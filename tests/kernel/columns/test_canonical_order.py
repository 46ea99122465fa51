"""The same bag of rows is cut into the same pieces, whatever its order."""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal

import pyarrow as pa
import pytest

from watersmeet.kernel.columns.canonical_order import cut

ROWS = 300
COLUMNS = {
    "whole": pa.array([n % 7 if n % 5 else None for n in range(ROWS)]),
    "fraction": pa.array([[0.0, -0.0, float("nan"), 1.5, None][n % 5] for n in range(ROWS)]),
    "small": pa.array([float(n % 3) for n in range(ROWS)], pa.float32()),
    "text": pa.array([str(n % 11) for n in range(ROWS)]),
    "bytes": pa.array([bytes([n % 5]) for n in range(ROWS)]),
    "yes": pa.array([n % 2 == 0 for n in range(ROWS)]),
    "nothing": pa.nulls(ROWS),
    "price": pa.array([Decimal(n % 9) / 4 for n in range(ROWS)]),
    "day": pa.array([dt.date(2020, 1, 1 + n % 28) for n in range(ROWS)]),
    "time": pa.array([dt.datetime(2020, 1, 1, n % 24) for n in range(ROWS)]),
    "span": pa.array([dt.timedelta(n % 3) for n in range(ROWS)]),
    "list": pa.array([[n % 4] * (n % 3) for n in range(ROWS)]),
    "struct": pa.array([{"a": n % 2, "b": None if n % 3 else "x"} for n in range(ROWS)]),
    "map": pa.array([[("k", n % 3)] for n in range(ROWS)], pa.map_(pa.string(), pa.int64())),
    "named": pa.array([f"n{n % 6}" for n in range(ROWS)]).dictionary_encode(),
}


@pytest.mark.parametrize("names", [*((name,) for name in COLUMNS), tuple(COLUMNS)], ids=str)
def test_pieces_depend_on_the_bag_alone(names: tuple[str, ...]) -> None:
    rng = random.Random(len(names))
    table = pa.table({name: COLUMNS[name] for name in names})
    pieces = cut(table, 200)
    assert sum(piece.num_rows for piece in pieces) == ROWS
    order = list(range(ROWS))
    for _ in range(3):
        rng.shuffle(order)
        parts = table.take(order)
        at = rng.randrange(ROWS)
        again = cut(pa.concat_tables([parts[:at], parts[at:]]), 200)
        assert [repr(piece.to_pylist()) for piece in again] == [repr(piece.to_pylist()) for piece in pieces]


def test_a_row_that_is_too_large_is_a_piece_of_its_own() -> None:
    pieces = cut(pa.table({"text": ["a" * 5000, "b", "c", "d" * 5000]}), 1000)
    assert [piece.num_rows for piece in pieces] == [1, 2, 1]


def test_what_fits_stays_as_it_is() -> None:
    (piece,) = cut(pa.table({"k": [3, 1, 2]}), 1000)
    assert piece.column("k").to_pylist() == [3, 1, 2]

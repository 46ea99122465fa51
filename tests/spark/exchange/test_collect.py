"""What a packing task holds before it sends."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from watersmeet.kernel import TS
from watersmeet.spark.exchange.collect import collect
from watersmeet.spark.tuning import DEFAULT


def test_many_small_batches_take_little_more_than_their_rows() -> None:
    rows = 20_000
    before = pa.total_allocated_bytes()
    most = 0

    def batches() -> Iterator[pa.RecordBatch]:
        nonlocal most
        for number in range(rows):
            most = max(most, pa.total_allocated_bytes() - before)
            columns = {TS: pa.array([number]), "k": pa.array([-number]), "v": pa.array([2 * number])}
            yield pa.RecordBatch.from_pydict(columns)

    [sent] = collect(batches(), lambda batch: batch, DEFAULT)
    assert sent.tuples.to_pydict() == {
        TS: [*range(rows)],
        "k": [-number for number in range(rows)],
        "v": [2 * number for number in range(rows)],
    }
    assert sent.max_ts == rows - 1
    assert most < 2 * sent.tuples.nbytes

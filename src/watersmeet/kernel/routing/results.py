"""Which buckets results go to: by the value of a column, as tuples do by the same value."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from watersmeet.kernel.columns.hashing import hash_column
from watersmeet.kernel.routing.grid import coordinates, split


def route_results(
    batch: pa.RecordBatch, column: str, buckets: int, home: int | None
) -> list[tuple[int, pa.RecordBatch]]:
    """(bucket, results that go there); those without a value go to `home`, or nowhere if that is None.

    They meet nothing, wherever they are, so they may stay in the bucket that has made them.
    """
    key = batch.column(column)
    if not key.null_count:
        chosen = coordinates(hash_column(key), buckets)
    else:
        valid = np.asarray(key.is_valid())
        chosen = np.full(batch.num_rows, buckets if home is None else home, np.int32)
        if valid.any():
            chosen[valid] = coordinates(hash_column(key.drop_null()), buckets)
    parts = split(batch, chosen, buckets + 1)[:buckets]
    return [(bucket, part) for bucket, part in enumerate(parts) if part.num_rows]

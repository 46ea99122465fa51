"""Rows as a level lets them in: complete, with the value they were routed by, and late for whom."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.errors import DataError
from watersmeet.kernel.columns.hash_index import Longs
from watersmeet.query import BEGINNING


def check_columns(source: str, rows: pa.RecordBatch, needed: Iterable[str]) -> None:
    """Refuses rows that lack some of these columns."""
    missing = [name for name in needed if name not in rows.schema.names]
    if missing:
        raise DataError(f"a chunk of {source} lacks the columns {', '.join(missing)}")


def without_null(rows: pa.RecordBatch, route: str) -> pa.RecordBatch:
    """Rows that were routed by a value: NULL equals nothing."""
    check_columns("a feed", rows, [route])
    return rows.filter(rows.column(route).is_valid()) if rows.column(route).null_count else rows


def behind_streams(ts: Longs, streams: Sequence[str], before: Mapping[str, int]) -> Longs | None:
    """For each tuple the bits of the streams whose progress is past it; None if there are none."""
    bounds = [before.get(stream, BEGINNING) for stream in streams]
    if int(ts.min()) >= max(bounds):
        return None
    masks = np.zeros(len(ts), np.int64)
    for bit, bound in enumerate(bounds):
        masks |= np.where(ts < bound, np.int64(1 << bit), 0)
    return masks


def late_for_all(behind: Longs, queries: Iterable[int]) -> npt.NDArray[np.bool_]:
    """Which tuples are behind all streams of each of these queries."""
    late = np.ones(len(behind), np.bool_)
    for bits in queries:
        late &= (behind & bits) == bits
    return late

"""Rows collected for the shuffle: what a task sends at once, with the punctuation of its stream.

A tuple whose event time is too far ahead of the batch's own time is in error: it is counted, goes no further,
and does not count for the punctuation. The batch's time is the one that Spark logs with the offsets of the
batch, so a batch that is done again is judged as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.kernel import TS
from watersmeet.query import NEVER
from watersmeet.spark.exchange.messages import UNKNOWN
from watersmeet.spark.tuning import Tuning

NOW = "__now"  # the batch's own time, where some stream is judged by it
NOW_SQL = "unix_micros(current_timestamp())"  # what Spark logs with the offsets of a micro-batch


@dataclass(frozen=True)
class Collected:
    """Tuples to be sent together; the event time and the batch's time are the largest so far."""

    tuples: pa.RecordBatch
    max_ts: int
    now_us: int
    null_times: int
    ahead: int = 0


def collect(
    batches: Iterator[pa.RecordBatch],
    usable: Callable[[pa.RecordBatch], pa.RecordBatch],
    tuning: Tuning,
    max_ahead_us: int | None = None,
) -> Iterator[Collected]:
    """The usable tuples of all rows in large batches; rows that are not usable count for the punctuation."""
    held: list[pa.RecordBatch] = []
    rows, nbytes, null_times, ahead, max_ts, now_us = 0, 0, 0, 0, UNKNOWN, UNKNOWN
    for batch in batches:
        if not batch.num_rows:
            continue
        if NOW in batch.schema.names:
            now_us = max(now_us, int(np.asarray(batch.column(NOW)).max()))
        rows += int(batch.num_rows)
        null_times += int(batch.column(TS).null_count)
        if max_ahead_us is not None and now_us != UNKNOWN:
            kept = _without_ahead(batch, now_us + max_ahead_us)
            ahead += int(batch.num_rows - kept.num_rows)
            batch = kept
        seen = pc.max(batch.column(TS)).as_py()
        max_ts = max_ts if seen is None else max(max_ts, seen)
        held.append(usable(batch))
        nbytes += int(held[-1].nbytes)
        if rows >= tuning.chunk_rows or nbytes >= tuning.chunk_bytes:
            yield Collected(pa.concat_batches(held), max_ts, now_us, null_times, ahead)
            held, rows, nbytes, null_times, ahead = [], 0, 0, 0, 0
    if rows:
        yield Collected(pa.concat_batches(held), max_ts, now_us, null_times, ahead)


def _without_ahead(batch: pa.RecordBatch, last_us: int) -> pa.RecordBatch:
    """The rows whose event time is NULL or at most `last_us`."""
    newest = pc.max(batch.column(TS)).as_py()
    if newest is None or newest <= last_us:
        return batch
    in_time = pc.less_equal(batch.column(TS), pa.scalar(min(last_us, NEVER), pa.int64()))
    return batch.filter(pc.fill_null(in_time, True))

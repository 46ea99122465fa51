"""Rows collected for the shuffle: what a task sends at once, with the punctuation of its stream."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.kernel import TS
from watersmeet.spark.exchange.messages import UNKNOWN
from watersmeet.spark.tuning import Tuning

NOW = "__now"  # the batch's own time, where some stream is declared with idle_after
NOW_SQL = "unix_micros(current_timestamp())"


@dataclass(frozen=True)
class Collected:
    """Tuples to be sent together; the event time and the batch's time are the largest so far."""

    tuples: pa.RecordBatch
    max_ts: int
    now_us: int
    null_times: int


def collect(
    batches: Iterator[pa.RecordBatch], usable: Callable[[pa.RecordBatch], pa.RecordBatch], tuning: Tuning
) -> Iterator[Collected]:
    """The usable tuples of all rows in large batches; rows that are not usable count for the punctuation."""
    held: list[pa.RecordBatch] = []
    rows, nbytes, null_times, max_ts, now_us = 0, 0, 0, UNKNOWN, UNKNOWN
    for batch in batches:
        if not batch.num_rows:
            continue
        if NOW in batch.schema.names:
            now_us = max(now_us, int(np.asarray(batch.column(NOW)).max()))
        times = batch.column(TS)
        seen = pc.max(times).as_py()
        max_ts = max_ts if seen is None else max(max_ts, seen)
        null_times += int(times.null_count)
        held.append(usable(batch))
        rows += int(batch.num_rows)
        nbytes += int(held[-1].nbytes)
        if rows >= tuning.chunk_rows or nbytes >= tuning.chunk_bytes:
            yield Collected(pa.concat_batches(held), max_ts, now_us, null_times)
            held, rows, nbytes, null_times = [], 0, 0, 0
    if rows:
        yield Collected(pa.concat_batches(held), max_ts, now_us, null_times)

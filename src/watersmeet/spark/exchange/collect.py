"""Rows collected for the shuffle: what a task sends at once, with the punctuation of its stream.

A tuple whose event time is too far ahead of the batch's own time is in error: it is counted, goes no further,
and does not count for the punctuation. The batch's time is the one that Spark logs with the offsets of the
batch, so a batch that is done again is judged as it was.

Where a stream is the answers of a query, some of whose tuples are far ahead of others that are still to come,
rows with a mark say how far it has come (`chains/`), and no tuple does. Such a row is none of its tuples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.kernel import KEEP, MARK, TS
from watersmeet.query import NEVER
from watersmeet.spark.exchange.messages import UNKNOWN
from watersmeet.spark.tuning import Tuning

NOW = "__now"  # the batch's own time, where some stream is judged by it
NOW_SQL = "unix_micros(current_timestamp())"  # what Spark logs with the offsets of a micro-batch
FEW = 256  # batches that are held side by side; a batch of a few rows takes kilobytes beside its rows


@dataclass
class Keyless:
    """Rows that were read, and of those that meet the local filters, how many lack a key, and which."""

    read: int = 0
    kept: int = 0
    lacking: int = 0  # some key
    by_key: dict[str, int] = field(default_factory=dict)

    def count(self, batch: pa.RecordBatch, keys: Sequence[str]) -> None:
        """Counts rows; an expression of a row that no filter keeps is NULL, whatever it reads."""
        kept = batch.num_rows
        is_kept = batch.column(KEEP) if KEEP in batch.schema.names else None
        if is_kept is not None:
            kept = pc.sum(is_kept).as_py() or 0
        self.read += batch.num_rows
        self.kept += kept
        nulls = {key: batch.column(key).null_count for key in keys}
        if not any(nulls.values()):
            return
        missing = reduce(pc.or_, (pc.is_null(batch.column(key)) for key in keys if nulls[key]))
        if is_kept is not None:
            is_kept = pc.fill_null(is_kept, False)
            missing = pc.and_(missing, is_kept)
        self.lacking += pc.sum(missing).as_py() or 0
        for key in (key for key in keys if nulls[key]):
            null = pc.is_null(batch.column(key))
            found = pc.sum(null if is_kept is None else pc.and_(null, is_kept)).as_py() or 0
            self.by_key[key] = self.by_key.get(key, 0) + found


@dataclass(frozen=True)
class Collected:
    """Tuples to be sent together; the event time and the batch's time are the largest so far."""

    tuples: pa.RecordBatch
    max_ts: int
    now_us: int
    null_times: int
    ahead: int = 0
    keyless: Keyless = field(default_factory=Keyless)
    mark: int = UNKNOWN  # the largest so far


def collect(
    batches: Iterator[pa.RecordBatch],
    usable: Callable[[pa.RecordBatch], pa.RecordBatch],
    tuning: Tuning,
    max_ahead_us: int | None = None,
    keys: Sequence[str] = (),
) -> Iterator[Collected]:
    """The usable tuples of all rows in large batches; rows that are not usable count for the punctuation."""
    held = _Held()
    rows, nbytes, null_times, ahead, max_ts, now_us, mark = 0, 0, 0, 0, UNKNOWN, UNKNOWN, UNKNOWN
    keyless = Keyless()
    for batch in batches:
        if not batch.num_rows:
            continue
        if NOW in batch.schema.names:
            now_us = max(now_us, int(np.asarray(batch.column(NOW)).max()))
        rows += int(batch.num_rows)
        if MARK in batch.schema.names:
            said = pc.max(batch.column(MARK)).as_py()
            mark = mark if said is None else max(mark, said)
            batch = batch.filter(pc.is_null(batch.column(MARK)))
        null_times += int(batch.column(TS).null_count)
        if max_ahead_us is not None and now_us != UNKNOWN:
            kept = _without_ahead(batch, now_us + max_ahead_us)
            ahead += int(batch.num_rows - kept.num_rows)
            batch = kept
        seen = pc.max(batch.column(TS)).as_py()
        max_ts = max_ts if seen is None else max(max_ts, seen)
        keyless.count(batch, keys)
        nbytes += held.add(usable(batch))
        if rows >= tuning.chunk_rows or nbytes >= tuning.chunk_bytes:
            del batch
            yield Collected(held.take(), max_ts, now_us, null_times, ahead, keyless, mark)
            rows, nbytes, null_times, ahead, keyless = 0, 0, 0, 0, Keyless()
    if rows:
        yield Collected(held.take(), max_ts, now_us, null_times, ahead, keyless, mark)


class _Held:
    """Batches of rows to be sent together; many small ones, such as those of tiny files, are made one."""

    def __init__(self) -> None:
        self._large: list[pa.RecordBatch] = []
        self._last: list[pa.RecordBatch] = []

    def add(self, batch: pa.RecordBatch) -> int:
        """Holds one more batch; returns its bytes."""
        self._last.append(batch)
        if len(self._last) == FEW:
            self._large.append(pa.concat_batches(self._last))
            self._last.clear()
        return int(batch.nbytes)

    def take(self) -> pa.RecordBatch:
        """The rows of all batches, which are no longer held: they may be wide, and are there twice else."""
        held = [*self._large, *self._last]
        self._large.clear()
        self._last.clear()
        together = held[0] if len(held) == 1 else pa.concat_batches(held)
        held.clear()
        return together


def _without_ahead(batch: pa.RecordBatch, last_us: int) -> pa.RecordBatch:
    """The rows whose event time is NULL or at most `last_us`."""
    newest = pc.max(batch.column(TS)).as_py()
    if newest is None or newest <= last_us:
        return batch
    in_time = pc.less_equal(batch.column(TS), pa.scalar(min(last_us, NEVER), pa.int64()))
    return batch.filter(pc.fill_null(in_time, True))

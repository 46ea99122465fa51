"""The live rows of one relation of a shared dataflow: tuples under a window, or results of earlier levels.

The set of queries may change under a store, and with it the columns: rows that came before a column was asked
for read NULL there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from watersmeet.kernel.columns.hash_index import Longs
from watersmeet.kernel.columns.hashing import Hashes, hash_column
from watersmeet.kernel.layout import TS, InputLayout
from watersmeet.kernel.state.arrivals import Arrivals
from watersmeet.kernel.state.chunk import Chunk
from watersmeet.kernel.state.result_expiry import ResultExpiry
from watersmeet.kernel.state.store import TupleStore
from watersmeet.kernel.tuning import DEFAULT_TUNING, Tuning
from watersmeet.query import NEVER, UNBOUNDED
from watersmeet.query.shared_dataflow import END, Relation


class RelationStore(TupleStore):
    """The live rows of one relation; its keys are classes 0, 1, ... in order."""

    def __init__(self, relation: Relation, tuning: Tuning = DEFAULT_TUNING) -> None:
        keys = tuple(enumerate(relation.keys))
        layout = InputLayout(relation.name, relation.window or UNBOUNDED, keys, ())
        self.holds_results = relation.window is None
        super().__init__(layout, tuning, ResultExpiry(tuning) if self.holds_results else None)
        self.keys = relation.keys
        self.columns: set[str] = set()  # that some row may have
        self._quiet_until = NEVER  # nothing to forget before

    @property
    def is_empty(self) -> bool:
        """Whether a probe can find nothing."""
        return not self._slices

    def keep(
        self, batch: pa.RecordBatch, number: int | None = None, hashes: Mapping[str, Hashes] | None = None
    ) -> Arrivals:
        """Keeps rows as a chunk; they are visible to probes once they are indexed.

        `number` is given when a chunk is read back, `hashes` of key columns where they are known.
        """
        ts: Longs = np.array(batch.column(TS), np.int64)
        ends = self._expiry.ends_of(batch, ts)
        chunk = self.add_chunk(batch, number)
        self.columns.update(batch.schema.names)
        self._quiet_until = min(self._quiet_until, chunk.half_expires_at)
        known = hashes or {}
        by_class = {
            cls: known[name] if name in known else hash_column(chunk.column(name))
            for cls, name in enumerate(self.keys)
        }
        return Arrivals(ts, ends, np.arange(chunk.start, chunk.stop, dtype=np.int64), by_class)

    def ends_of(self, chunk: Chunk, ts: Longs) -> Longs:
        """When the lifetimes of a chunk's rows end, given their event times."""
        return np.asarray(chunk.column(END)) if self.holds_results else self.layout.window.known_end_us(ts)

    def forget(self) -> None:
        """Forgets all rows."""
        self.chunks, self._quiet_until = [], NEVER
        self._slices.clear()

    def expire(self, watermark: int, pending_from: int = NEVER) -> None:
        if watermark < self._quiet_until:
            return
        super().expire(watermark, pending_from)
        ends = [piece.high_end for piece in self._slices.values()]
        self._quiet_until = min([*ends, *(chunk.half_expires_at for chunk in self.chunks)], default=NEVER)

    def _joined(self, batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
        return concat_unlike(batches)


def concat_unlike(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Batches end to end, NULL where one lacks a column that another has."""
    if len(batches) == 1:
        return batches[0]
    if all(batch.schema.equals(batches[0].schema) for batch in batches[1:]):
        return pa.concat_batches(list(batches))
    tables = [pa.Table.from_batches([batch]) for batch in batches]
    return pa.concat_tables(tables, promote_options="default").combine_chunks().to_batches()[0]

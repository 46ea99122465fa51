"""One whole bucket: rankers for the ROWS inputs, the watermark, and the join behind them.

This is the kernel as a single process uses it, and as the engine's stages compose it across a cluster: tuples
by stream in, answers out, for every kind of window.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.kernel.join import MultiwayJoin
from watersmeet.kernel.layout import KEEP, TS, lay_out
from watersmeet.kernel.ranker import Places, Ranker
from watersmeet.kernel.watermark import Watermark
from watersmeet.query import Query


class Bucket:
    """A query over all of its streams' tuples, in one process."""

    def __init__(self, query: Query) -> None:
        self.query = query
        self.join = MultiwayJoin(lay_out(query))
        self.watermark = Watermark({stream.name: stream.lateness_us for stream in query.streams})
        self.rankers = {
            item.alias: Ranker(
                [column.name for column in item.stream.columns if column.name != item.stream.event_time]
            )
            for item in query.inputs
            if item.window.counts_rows
        }

    def step(self, new: Mapping[str, pa.RecordBatch], *, flush: bool = False) -> Iterator[pa.Table]:
        """Joins a micro-batch, keyed by alias; a ROWS input brings all of its columns, to order ties by."""
        for item in self.query.inputs:
            batch = new.get(item.alias)
            if batch is not None and batch.num_rows:
                self.watermark.observe(item.stream.name, int(np.asarray(batch.column(TS)).max()))
        watermark = self.watermark.flush() if flush else self.watermark.advance()
        ready, places = dict(new), dict[str, Places]()
        for alias, ranker in self.rankers.items():
            if alias in ready:
                ranker.push(ready.pop(alias))
            released, places[alias] = ranker.release(watermark)
            if released is not None:
                ready[alias] = _filter_kept(released)
        yield from self.join.step(ready, watermark, places)


def _filter_kept(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Local filters of a ROWS input apply after places are given."""
    return batch.filter(pc.fill_null(batch.column(KEEP), False)) if KEEP in batch.schema.names else batch

"""The map side at a site: the tuples of one input get their lifetimes and go to the ports that await them.

Whatever its target, a tuple first goes to a bucket of the first level here, by the value it is routed by at
the target: only there it is known how far the stream had come, and so whether the tuple is late.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from watersmeet.kernel import TS, route_rows
from watersmeet.plan.sites.site_program import Guard
from watersmeet.query import BEGINNING, Window
from watersmeet.query.shared_dataflow import END
from watersmeet.spark.exchange.collect import Collected, collect
from watersmeet.spark.exchange.pack import Pack
from watersmeet.spark.exchange.packed_chunk import PackedChunk
from watersmeet.spark.multiquery.messages import InputProgress, LevelRows
from watersmeet.spark.sites.guard_rows import passes
from watersmeet.spark.sites.messages import SITE_MESSAGES, SiteMessage


@dataclass(frozen=True)
class PackedSend:
    """A send of an input's tuples: the column they are routed by, and what decides whether they take it."""

    name: str
    route: str
    guard: Guard | None = None
    guarded: str = ""  # the column whose value the guard asks for


@dataclass(frozen=True, kw_only=True)
class SitePack:
    """Packs one input; called by `mapInArrow` with the rows of one partition."""

    alias: str
    window: Window
    pack: Pack  # as of a query by itself: which rows are usable
    columns: tuple[tuple[str, str], ...]  # of a row that is sent, and the column of the input it is made of
    sends: tuple[PackedSend, ...]
    after_us: int = BEGINNING  # tuples up to here are passed over: no answer of the plan needs them

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        pack = self.pack
        for collected in collect(batches, pack.usable, pack.tuning, pack.max_ahead_us):
            yield SITE_MESSAGES.to_arrow(self._messages(collected))

    def _messages(self, collected: Collected) -> list[SiteMessage]:
        labels, rows = self.pack.labels, self._rows(collected.tuples)
        sent: list[SiteMessage] = [
            InputProgress(
                bucket=label,
                name=self.alias,
                rows=0 if number else int(rows.num_rows),
                max_ts=collected.max_ts,
                now_us=collected.now_us,
                null_times=0 if number else collected.null_times,
                ahead=0 if number else collected.ahead,
            )
            for number, label in enumerate(labels)
        ]
        for send in self.sends:
            taken = rows
            if send.guard is not None and rows.num_rows:
                taken = rows.filter(passes(send.guard, rows.column(send.guarded)))
            for bucket, part in route_rows(taken, send.route, len(labels)):
                sent.append(LevelRows(labels[bucket], 1, send.name, PackedChunk(part)))
        return sent

    def _rows(self, tuples: pa.RecordBatch) -> pa.RecordBatch:
        """Tuples as they travel: their lifetime, and the columns by the names they have in the plan."""
        ts = np.asarray(tuples.column(TS), np.int64)
        ends = np.asarray(self.window.end_us(ts), np.int64)
        if not len(ts):
            ends = np.empty(0, np.int64)
        own = {name: tuples.column(given) for name, given in self.columns}
        rows = pa.RecordBatch.from_pydict({TS: pa.array(ts), END: pa.array(ends), **own})
        return rows if self.after_us == BEGINNING else rows.filter(pa.array(ts > self.after_us))

"""The map side of a ring: a stream's tuples become chunks, once for each attribute that some query needs.

A stream that no query reads is not sent at all, but its progress is, so that queries that come later know
how far it has come.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.kernel import KEEP, TS, encode_heard, route_rows
from watersmeet.query.ring import Feed
from watersmeet.spark.gather import Gathered, gather
from watersmeet.spark.ring_wire import END, MARK, RingRow, ring_arrow
from watersmeet.spark.wire import encode


@dataclass(frozen=True)
class RingPack:
    """Packs one input; called by `mapInArrow` with the rows of one partition."""

    name: str
    feeds: tuple[Feed, ...]
    labels: tuple[int, ...]
    columns: tuple[str, ...] = (TS,)  # of all feeds
    given: tuple[str, ...] = (TS,)  # their names in the rows to pack
    told: frozenset[str] = frozenset()  # feeds of which every bucket is to hear the frequent values

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return (self._send(gathered) for gathered in gather(batches, self._usable))

    def _usable(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The tuples that have an event time and meet the condition, if there is one."""
        chosen = batch.select(list(self.given)).rename_columns(list(self.columns))
        mask = batch.column(TS).is_valid()
        if KEEP in batch.schema.names:
            mask = pc.and_(mask, pc.fill_null(batch.column(KEEP), False))
        elif not batch.column(TS).null_count:
            return chosen
        return chosen.filter(mask)

    def _send(self, gathered: Gathered) -> pa.RecordBatch:
        whole = gathered.tuples
        heard = self._heard(whole)
        sent = [
            RingRow(
                label,
                1,
                f"{MARK}{self.name}",
                rows=0 if number else int(whole.num_rows),
                max_ts=gathered.max_ts,
                now_us=gathered.now_us,
                undated=0 if number else gathered.undated,
                chunk=heard,
            )
            for number, label in enumerate(self.labels)
        ]
        for feed in self.feeds:
            chosen = whole.select(list(feed_columns(feed)))
            for number, part in route_rows(chosen, feed.route, len(self.labels)):
                if part.num_rows:
                    label, level, count = self.labels[number], feed.levels[0], int(part.num_rows)
                    sent.append(RingRow(label, level, feed.name, count, chunk=encode(part)))
        return ring_arrow(sent)

    def _heard(self, tuples: pa.RecordBatch) -> bytes:
        routes = {feed.name: tuples.column(feed.route) for feed in self.feeds if feed.name in self.told}
        if not routes or not tuples.num_rows:
            return b""
        return encode_heard(routes, pc.min(tuples.column(TS)).as_py())


@dataclass(frozen=True)
class RingPackEnd:
    """Packs the control stream: any row of it is the end of all input."""

    labels: tuple[int, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if any(batch.num_rows for batch in batches):
            yield ring_arrow([RingRow(label, 1, END) for label in self.labels])


def feed_columns(feed: Feed) -> tuple[str, ...]:
    """What a chunk of a feed holds, each column once."""
    return tuple(dict.fromkeys((TS, *(key.name for key in feed.keys), *feed.columns)))

"""The map side of a ring: a stream's tuples become chunks, once for each attribute that some query needs.

A stream that no query reads is not sent at all, but its progress is, so that queries that come later know
how far it has come.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.kernel import KEEP, TS, encode_reports, route_rows
from watersmeet.query.shared_dataflow import Feed
from watersmeet.spark.exchange.gather import Gathered, gather
from watersmeet.spark.exchange.wire import encode
from watersmeet.spark.multiquery.wire import END, MARK, SharedRow, dataflow_arrow


@dataclass(frozen=True)
class SharedPack:
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
            SharedRow(
                label,
                1,
                f"{MARK}{self.name}",
                rows=0 if number else int(whole.num_rows),
                max_ts=gathered.max_ts,
                now_us=gathered.now_us,
                null_times=0 if number else gathered.null_times,
                chunk=heard,
            )
            for number, label in enumerate(self.labels)
        ]
        for feed in self.feeds:
            chosen = whole.select(list(feed_columns(feed)))
            for number, part in route_rows(chosen, feed.route, len(self.labels)):
                if part.num_rows:
                    label, level, count = self.labels[number], feed.levels[0], int(part.num_rows)
                    sent.append(SharedRow(label, level, feed.name, count, chunk=encode(part)))
        return dataflow_arrow(sent)

    def _heard(self, tuples: pa.RecordBatch) -> bytes:
        routes = {feed.name: tuples.column(feed.route) for feed in self.feeds if feed.name in self.told}
        if not routes or not tuples.num_rows:
            return b""
        return encode_reports(routes, pc.min(tuples.column(TS)).as_py())


@dataclass(frozen=True)
class SharedPackEnd:
    """Packs the control stream: any row of it is the end of all input."""

    labels: tuple[int, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if any(batch.num_rows for batch in batches):
            yield dataflow_arrow([SharedRow(label, 1, END) for label in self.labels])


def feed_columns(feed: Feed) -> tuple[str, ...]:
    """What a chunk of a feed holds, each column once."""
    return tuple(dict.fromkeys((TS, *(key.name for key in feed.keys), *feed.columns)))

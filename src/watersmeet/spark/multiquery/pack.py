"""The map side of a shared dataflow: tuples become chunks, once for each attribute that some query needs.

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
from watersmeet.spark.exchange.collect import Collected, collect
from watersmeet.spark.exchange.packed_chunk import PackedChunk
from watersmeet.spark.multiquery.messages import LEVEL_MESSAGES, InputProgress, LevelMessage, LevelRows
from watersmeet.spark.tuning import DEFAULT, Tuning


@dataclass(frozen=True, kw_only=True)
class SharedPack:
    """Packs one input; called by `mapInArrow` with the rows of one partition."""

    name: str
    feeds: tuple[Feed, ...]
    labels: tuple[int, ...]
    columns: tuple[str, ...] = (TS,)  # of all feeds
    given: tuple[str, ...] = (TS,)  # their names in the rows to pack
    reported: frozenset[str] = frozenset()  # feeds whose frequent values are reported to every bucket
    max_ahead_us: int | None = None
    tuning: Tuning = DEFAULT

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        every = collect(batches, self._usable, self.tuning, self.max_ahead_us)
        return (self._send(collected) for collected in every)

    def _usable(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The tuples that have an event time and meet the condition, if there is one."""
        chosen = batch.select(list(self.given)).rename_columns(list(self.columns))
        mask = batch.column(TS).is_valid()
        if KEEP in batch.schema.names:
            mask = pc.and_(mask, pc.fill_null(batch.column(KEEP), False))
        elif not batch.column(TS).null_count:
            return chosen
        return chosen.filter(mask)

    def _send(self, collected: Collected) -> pa.RecordBatch:
        whole, frequent = collected.tuples, self._frequent(collected.tuples)
        sent: list[LevelMessage] = [
            InputProgress(
                bucket=label,
                name=self.name,
                rows=0 if number else int(whole.num_rows),
                max_ts=collected.max_ts,
                mark=collected.mark,
                now_us=collected.now_us,
                null_times=0 if number else collected.null_times,
                ahead=0 if number else collected.ahead,
                frequent=frequent,
            )
            for number, label in enumerate(self.labels)
        ]
        for feed in self.feeds:
            chosen = whole.select(list(feed_columns(feed)))
            for number, part in route_rows(chosen, feed.route, len(self.labels)):
                if part.num_rows:
                    chunk = PackedChunk(part)
                    sent.append(LevelRows(self.labels[number], feed.levels[0], feed.name, chunk))
        return LEVEL_MESSAGES.to_arrow(sent)

    def _frequent(self, tuples: pa.RecordBatch) -> bytes:
        routes = {feed.name: tuples.column(feed.route) for feed in self.feeds if feed.name in self.reported}
        if not routes or not tuples.num_rows:
            return b""
        return encode_reports(routes, pc.min(tuples.column(TS)).as_py())


def feed_columns(feed: Feed) -> tuple[str, ...]:
    """What a chunk of a feed holds, each column once."""
    return tuple(dict.fromkeys((TS, *(key.name for key in feed.keys), *feed.columns)))

"""Answers that wait for the watermark, for DISTINCT and for aggregates.

`AnswerDelay` lets an answer out once the watermark is past t, since only then is it known what else appeared
before it. `AnswerStay` does so too, and says later when the answer has ended, where that is not known before:
under windows that count rows. `AnswerSampler` lets it out at every tick of its lifetime [t, end) that the
watermark has passed, with the tick beside it: grouped by tick, its output is the relation of valid answers at
each tick.

    ticks every 10, answer with lifetime [12, 35), watermark 25 then 40    out: tick 20, then tick 30
    the same answer, if it is to stay                                      out: it has no end, then end 35
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

import numpy as np
import pyarrow as pa

from watersmeet.kernel.columns.hash_index import Longs
from watersmeet.kernel.columns.row_bytes import value_bytes
from watersmeet.kernel.layout import ANSWER_END, ANSWER_TS, ENDED, POSITION, TICK
from watersmeet.kernel.state.chunks import HoldBuffer
from watersmeet.kernel.state.row_ends import EndsOf
from watersmeet.kernel.tuning import DEFAULT_TUNING
from watersmeet.query import BEGINNING, NEVER

BLOCK_ROWS = 1 << 18  # rows sampled at once, where they are not wide


class HeldAnswers(Protocol):
    """What waits between a join and its output."""

    buffer: HoldBuffer
    watermark: int

    def settle(self, settled: Mapping[str, EndsOf]) -> None:
        """Takes in what is known by now of when tuples end, by the alias of their input."""
        ...

    def release(self, watermark: int, newest: int = BEGINNING) -> Iterator[pa.RecordBatch]:
        """What the watermark lets out; `newest` is the largest event time. The iterator must be exhausted."""
        ...


class AnswerDelay:
    """Holds answers until the watermark is past t."""

    def __init__(self, section: str) -> None:
        self.buffer = HoldBuffer(section, ANSWER_TS)
        self.watermark = BEGINNING

    def settle(self, settled: Mapping[str, EndsOf]) -> None:
        """An answer has left before its tuples end."""

    def release(self, watermark: int, newest: int = BEGINNING) -> Iterator[pa.RecordBatch]:
        since, self.watermark = self.watermark, max(self.watermark, watermark)
        for batch in self.buffer.batches():
            t = np.asarray(batch.column(ANSWER_TS))
            due = (t >= since) & (t < self.watermark)
            if due.any():
                yield batch.filter(pa.array(due))
        self.buffer.close_before(self.watermark)


class AnswerStay:
    """Lets answers out once the watermark is past t, and again, as `ENDED`, when it has passed their ends.

    An answer whose end the watermark has not passed is let out with none: a later tuple may still end it.
    """

    def __init__(self, section: str) -> None:
        self.buffer = HoldBuffer(section, ANSWER_END)
        self.watermark = BEGINNING

    def settle(self, settled: Mapping[str, EndsOf]) -> None:
        if settled:
            self.buffer.rewrite(lambda batch: _settled(batch, settled, self.watermark))

    def release(self, watermark: int, newest: int = BEGINNING) -> Iterator[pa.RecordBatch]:
        since, self.watermark = self.watermark, max(self.watermark, watermark)
        for batch in self.buffer.batches():
            t, ends = (np.asarray(batch.column(name)) for name in (ANSWER_TS, ANSWER_END))
            is_known = ends < self.watermark
            appears = (t >= since) & (t < self.watermark)
            news = appears | ((t < since) & (ends >= since) & is_known)
            if news.any():
                place = batch.schema.get_field_index(ANSWER_END)
                said = batch.set_column(place, ANSWER_END, pa.array(np.where(is_known, ends, NEVER)))
                said = said.select([name for name in said.schema.names if not name.endswith(f".{POSITION}")])
                yield said.append_column(ENDED, pa.array(~appears)).filter(pa.array(news))
        self.buffer.close_before(self.watermark)


class AnswerSampler:
    """Repeats answers at each tick of their lifetimes, as the watermark passes the ticks."""

    def __init__(
        self,
        section: str,
        every_us: int,
        block_bytes: int = DEFAULT_TUNING.block_bytes,
        before_us: int = 0,
    ) -> None:
        """`block_bytes` is what an answer's rows may take at once, or it is one row.

        A tick samples what is valid `before_us` earlier.
        """
        self._block_bytes = block_bytes
        self.buffer = HoldBuffer(section, ANSWER_END)
        self.watermark = BEGINNING
        self._every_us = every_us
        self._before_us = before_us

    def settle(self, settled: Mapping[str, EndsOf]) -> None:
        if settled:
            self.buffer.rewrite(lambda batch: _settled(batch, settled, self.watermark + 1))

    def release(self, watermark: int, newest: int = BEGINNING) -> Iterator[pa.RecordBatch]:
        since, self.watermark = self.watermark, max(self.watermark, watermark)
        for batch in self.buffer.batches():
            yield from self._sample(batch, since, newest)
        self.buffer.close_before(
            self.watermark + 1
        )  # a lifetime [t, end) is past when the watermark reaches its end

    def _until(self, batch: pa.RecordBatch, newest: int) -> Longs:
        """Up to when answers are sampled now; at the end of time those without an end up to the first tick
        at which every tuple has come."""
        ends = np.asarray(batch.column(ANSWER_END))
        if self.watermark == NEVER and any(name.endswith(f".{POSITION}") for name in batch.schema.names):
            wait = -(newest + self._before_us) % self._every_us
            ends = np.where(ends == NEVER, newest + min(wait, NEVER - newest - 1) + 1, ends)
        until: Longs = np.minimum(ends, self.watermark)
        return until

    def _sample(self, batch: pa.RecordBatch, since: int, newest: int) -> Iterator[pa.RecordBatch]:
        every = self._every_us
        latest = NEVER - self._before_us
        begin = np.maximum(np.asarray(batch.column(ANSWER_TS)), since)
        until = self._until(batch, newest)
        batch = batch.select([name for name in batch.schema.names if not name.endswith(f".{POSITION}")])
        begin = np.minimum(begin, latest) + self._before_us
        until = np.minimum(until, latest) + self._before_us
        wait = -begin % every
        first = np.minimum(begin, NEVER - wait) + wait  # after the last tick of time there is none
        counts = -(-(np.maximum(until, first) - first) // every)
        limits = np.cumsum(counts)
        widest = sum(int(np.max(value_bytes(column), initial=0)) for column in batch.columns)
        rows = max(1, min(BLOCK_ROWS, self._block_bytes // (widest + limits.itemsize)))
        for start in range(0, int(limits[-1]), rows):
            numbers = np.arange(start, min(start + rows, int(limits[-1])))
            owners = np.searchsorted(limits, numbers, side="right")
            ticks = first[owners] + every * (numbers - (limits[owners] - counts[owners]))
            yield batch.take(pa.array(owners)).append_column(TICK, pa.array(ticks))


def _settled(batch: pa.RecordBatch, settled: Mapping[str, EndsOf], since: int) -> pa.RecordBatch:
    """The answers with the ends known by now, without those that ended before `since`."""
    before = np.asarray(batch.column(ANSWER_END))
    ends = before
    for alias, ends_of in settled.items():
        ends = np.minimum(ends, ends_of(np.asarray(batch.column(f"{alias}.{POSITION}"))))
    if (ends == before).all():
        return batch
    place = batch.schema.get_field_index(ANSWER_END)
    batch = batch.set_column(place, ANSWER_END, pa.array(ends))
    return batch.filter(pa.array(ends >= since))

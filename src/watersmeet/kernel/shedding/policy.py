"""Removing tuples when a bucket's state outgrows its limit.

Whatever is removed, answers are a part of the right ones: each is still found by the last of its tuples to
arrive, if the others are there. Expired rows go first, and cost nothing. Of the live ones those with the
lowest *priority* go, which the policy gives:

    random   a fixed pseudo-random number of the tuple: what stays is a uniform sample of the window
    oldest   its remaining lifetime
    least    drawn by weight (`weighted_sample`): its remaining lifetime, times the number of live tuples that
             match it in each input next to it

A tuple's random number is a hash of its event time, its keys and its input, so a batch that is done again
sheds the same tuples, whatever the chunks they lie in; and as the same numbers stay, tuples that have once
been kept mostly stay, and old chunks need not be written anew.

Inputs share the memory so that the product of their kept shares is greatest (`plan.completeness`): equal
bytes each, but never more than one has (`thinning`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.kernel.columns.hash_index import Longs
from watersmeet.kernel.columns.hashing import Hashes, combine_hashes, hash_column
from watersmeet.kernel.join.multiway import MultiwayJoin
from watersmeet.kernel.layout import POSITION, TS
from watersmeet.kernel.shedding import thinning
from watersmeet.kernel.shedding.limit import StateLimit
from watersmeet.kernel.shedding.thinning import Floats, Mask, Rows, as_random, in_order, rows_of
from watersmeet.kernel.state.chunk import Chunk
from watersmeet.kernel.state.chunks import PersistedChunk

Shares = tuple[tuple[int, ...], np.uint64, npt.NDArray[np.int64]]  # classes, mask of the hash, counts by it


def bring_under(join: MultiwayJoin, limit: StateLimit, beside: int = 0) -> dict[str, Longs]:
    """Removes tuples until a join and `beside` bytes take no more than the limit.

    Returns the event times (or row positions, under a ROWS window) of the live ones among them, by alias.
    """
    holder = _JoinHolder(join)
    thinning.bring_under(holder, limit, beside)
    return holder.lost


class _JoinHolder:
    """A join whose inputs are thinned."""

    def __init__(self, join: MultiwayJoin) -> None:
        self._join = join
        self._numbers: dict[str, int] = {}  # of the inputs that hold anything
        self.lost: dict[str, Longs] = {}

    @property
    def used_bytes(self) -> int:
        return self._join.used_bytes

    @property
    def live_rows(self) -> int:
        return self._join.live_rows

    @property
    def merge_rows(self) -> int:
        return self._join.tuning.merge_rows

    def names(self) -> list[str]:
        names = [alias for alias, store in self._join.stores.items() if store.chunks]
        self._numbers = {alias: number for number, alias in enumerate(names)}
        return names

    def rows(self, name: str) -> Rows:
        join, store, layout = self._join, self._join.stores[name], self._join.layout.of(name)
        chunks = in_order(store)
        ts, first = _column(chunks, TS), min(chunk.min_ts for chunk in chunks)
        if layout.window.numbers_rows:
            remaining = layout.window.expires_at(_column(chunks, POSITION)) - store.newest_position
        elif not layout.window.is_bounded:
            remaining = ts - (first - 1)  # none ever expires: then the newer ones count as longer
        else:
            remaining = layout.window.expires_at(ts) - max(join.watermark, first - 1)
        live = remaining > 0
        if join.layout.delayed:
            live |= ts >= join.watermark  # they still wait to be joined
        lifetimes = np.maximum(remaining, 1).astype(np.float32)
        span_us = layout.window.duration_us
        return rows_of(name, store, chunks, ts=ts, live=live, remaining=lifetimes, span_us=span_us)

    def next_chunk(self, name: str) -> int:
        return self._join.stores[name].next_chunk

    def random(self, rows: Rows) -> Floats:
        own = np.full(len(rows.ts), self._numbers[rows.name] + 1, np.uint64)
        mixed = combine_hashes([own, rows.ts.view(np.uint64)])
        classes = self._join.layout.of(rows.name).classes
        return as_random(combine_hashes([mixed, self._hashes(rows, classes)]) if classes else mixed)

    def weigh(self) -> Callable[[Rows], Floats]:
        """By how many live tuples of each input next to a row's have its keys."""
        return partial(self._expected_matches, self._count_keys())

    def put_together(self, run: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
        return pa.concat_batches(list(run))

    def replace(self, name: str, chunks: list[PersistedChunk]) -> None:
        self._join.replace_chunks(name, chunks)

    def lose(self, rows: Rows, lost: Mask) -> None:
        numbered = self._join.layout.of(rows.name).window.numbers_rows
        gone = (_column(rows.chunks, POSITION) if numbered else rows.ts)[lost]
        before = self.lost.get(rows.name)
        self.lost[rows.name] = gone if before is None else np.concatenate([before, gone])

    def _hashes(self, rows: Rows, classes: Sequence[int]) -> Hashes:
        layout = self._join.layout.of(rows.name)
        keys = [[hash_column(chunk.column(layout.key(cls))) for chunk in rows.chunks] for cls in classes]
        return combine_hashes([np.concatenate(parts) for parts in keys])

    def _count_keys(self) -> dict[str, list[Shares]]:
        """For each input, how many live tuples of each input next to it have which keys, by hash."""
        layouts = {alias: self._join.layout.of(alias) for alias in self._numbers}
        tables: dict[tuple[str, tuple[int, ...]], Shares] = {}
        beside: dict[str, list[Shares]] = {alias: [] for alias in layouts}
        for other in layouts:
            rows = self.rows(other)
            for alias in layouts:
                common = tuple(cls for cls in layouts[alias].classes if cls in layouts[other].classes)
                if alias == other or not common:
                    continue
                if (other, common) not in tables:
                    found = self._hashes(rows, common)[rows.live]
                    tables[other, common] = (common, *count_hashes(found))
                beside[alias].append(tables[other, common])
        return beside

    def _expected_matches(self, counts: dict[str, list[Shares]], rows: Rows) -> Floats:
        """The product for each row over the inputs next to it of how many live tuples there have its keys."""
        product = np.ones(len(rows.ts), np.float32)
        for classes, mask, table in counts[rows.name]:
            product *= counted(self._hashes(rows, classes), mask, table)
        return product


def count_hashes(found: Hashes) -> tuple[np.uint64, npt.NDArray[np.int64]]:
    """How many of these hashes there are, by the bits of a mask."""
    mask = np.uint64((1 << max(10, (2 * len(found)).bit_length())) - 1)
    return mask, np.bincount((found & mask).view(np.int64), minlength=int(mask) + 1)


def counted(hashes: Hashes, mask: np.uint64, table: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
    """For each hash how many there are, and a little more: not seen yet is not never."""
    return table[(hashes & mask).view(np.int64)].astype(np.float32) + np.float32(0.25)


def _column(chunks: Sequence[Chunk], name: str) -> Longs:
    return np.concatenate([np.asarray(chunk.column(name)) for chunk in chunks])

"""All live tuples of one input: payload in chunks, keys and times in slices.

A *chunk* is what arrived together, immutable, kept as Arrow and expired whole once no acceptable future tuple
can meet any of its tuples; it is also the unit of persistence. A *slice* is a stretch of time with its hash
indexes. Rows are numbered as they arrive, so a slice names a payload row by a single integer, and small
chunks can be merged with their neighbours without renumbering.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.kernel.columns.groups import groups_of
from watersmeet.kernel.columns.hash_index import Longs
from watersmeet.kernel.columns.hashing import Hashes, hash_column
from watersmeet.kernel.columns.narrow import narrowed
from watersmeet.kernel.columns.row_bytes import stretches
from watersmeet.kernel.late_payload import LatePayload, with_payload
from watersmeet.kernel.layout import KEPT, REF, TS, InputLayout
from watersmeet.kernel.state.arrivals import Arrivals
from watersmeet.kernel.state.chunk import Chunk, bytes_of_rows, held_by, owners_of, take_rows
from watersmeet.kernel.state.chunks import PersistedChunk, mergeable
from watersmeet.kernel.state.expiry import Expiry, WindowExpiry
from watersmeet.kernel.state.row_ends import EndsOf, RowEnds
from watersmeet.kernel.state.slice import Classes, Matches, Slice, concat_matches, ends_from_positions
from watersmeet.kernel.state.weighted_sample import probabilities_of
from watersmeet.kernel.tuning import DEFAULT_TUNING, Tuning
from watersmeet.query import NEVER


class TupleStore:
    """The live tuples of one input."""

    def __init__(
        self,
        layout: InputLayout,
        tuning: Tuning = DEFAULT_TUNING,
        expiry: Expiry | None = None,
        row_ends: RowEnds | None = None,
    ) -> None:
        """Without an `expiry`, tuples expire as the layout's window says."""
        self.layout = layout
        self.tuning = tuning
        self.chunks: list[Chunk] = []
        self.newest_position = -1
        self.settled: EndsOf | None = None  # by what came last
        self._expiry: Expiry = expiry or WindowExpiry(layout.window, tuning)
        self._row_ends = row_ends  # of tuples that end when others come
        self._settled = 0  # chunks from this number on are new: no state store holds them
        self._slices: dict[tuple[int, int, int], Slice] = {}
        self._probed_by: set[Classes] = {layout.classes} if len(layout.classes) == 1 else set()
        self.next_row = 0
        self.next_chunk = 0
        self._widest: dict[tuple[str, ...], int] = {}  # of the rows here, and maybe of some that are gone
        self._sampled: list[int] = []  # the chunks whose inclusion probabilities are put together in the next
        self._known_probabilities: npt.NDArray[np.float32] = np.ones(1, np.float32)

    @property
    def live_rows(self) -> int:
        return _rows(self.chunks)

    @property
    def indexed_rows(self) -> int:
        return sum(piece.count for piece in self._slices.values())

    @property
    def payload_bytes(self) -> int:
        return sum(chunk.nbytes for chunk in self.chunks)

    @property
    def index_bytes(self) -> int:
        return sum(piece.nbytes for piece in self._slices.values())

    @property
    def used_index_bytes(self) -> int:
        return sum(piece.used_bytes for piece in self._slices.values())

    def add_chunk(self, batch: pa.RecordBatch, number: int | None = None, start: int | None = None) -> Chunk:
        """Keeps a batch as the next chunk; `number` and `start` are given when it is read back."""
        if number is not None:
            batch, self._settled = self._narrowed(batch), max(self._settled, number + 1)
        number = self.next_chunk if number is None else number
        chunk = self._expiry.describe_chunk(number, self.next_row if start is None else start, batch)
        self.chunks.append(chunk)
        self._widest.clear()
        self.next_row = chunk.stop
        self.next_chunk = max(self.next_chunk, number + 1)
        return chunk

    def index(self, arrivals: Arrivals) -> None:
        """Makes tuples visible to probes."""
        if not len(arrivals):
            return
        width, numbers = self._expiry.slice_numbers(arrivals)
        for group in groups_of(numbers):
            self._append(width, int(numbers[group][0]), arrivals.pick(group))

    def settle_positions(self, first: int, ts: Longs) -> None:
        """Takes the event times of newly known row positions of the stream, from `first` on."""
        for piece in self._slices.values():
            piece.settle_ends(first, ts)
        self.newest_position = max(self.newest_position, first + len(ts) - 1)
        self.settled = partial(ends_from_positions, self.layout.window, first=first, ts=ts)

    def probe(
        self, classes: Classes, wanted: Hashes, max_ts: Longs, min_end: Longs, most: int
    ) -> Iterator[Matches]:
        """Matches of probers with the given lifetimes, and a few whose keys differ: see `Slice.probe`.

        They come in blocks of at most `most`, none of them empty; no tuple may become visible in between.
        """
        self._probed_by.add(classes)
        found: list[Matches] = []
        pairs = 0
        in_order = len(self._slices) > 1 and _rises(max_ts) and _rises(min_end)
        for piece in self._slices.values():
            first, stop = 0, len(wanted)
            if in_order:  # most probers are before or after a slice, and need no look each
                first = int(np.searchsorted(min_end, piece.low_ts, side="right"))
                stop = int(np.searchsorted(max_ts, piece.high_end, side="left"))
            if first >= stop:
                continue
            few = wanted[first:stop], max_ts[first:stop], min_end[first:stop]
            for matches in piece.probe(classes, *few, self, most):
                if pairs + len(matches.probers) > most:
                    yield concat_matches(found)
                    found, pairs = [], 0
                found.append(replace(matches, probers=matches.probers + first) if first else matches)
                pairs += len(matches.probers)
        if found:
            yield concat_matches(found)

    def holds(self, rows: Longs) -> npt.NDArray[np.bool_]:
        """Which of these rows are in some chunk."""
        return held_by(self.chunks, rows)

    def hashes(self, cls: int, rows: Longs) -> Hashes:
        """The key hashes of one class at these row numbers."""
        if not len(rows):
            return np.empty(0, np.uint64)
        name, most = self.layout.key(cls), self.tuning.block_bytes
        parts = [hash_column(self.take([name], rows[part])[0]) for part in self.blocks((name,), rows, most)]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def blocks(self, columns: tuple[str, ...], rows: Longs, nbytes: int) -> Iterator[slice]:
        """Stretches of these rows of which the columns take at most so many bytes, or that are one row."""
        return stretches(len(rows), nbytes, self.widest(columns), lambda: self.row_bytes(columns, rows))

    def widest(self, columns: tuple[str, ...]) -> int:
        """How many bytes these columns take of any row, at most."""
        if columns not in self._widest:
            by_column = (max((chunk.widest(name) for chunk in self.chunks), default=0) for name in columns)
            self._widest[columns] = sum(by_column)
        return self._widest[columns]

    def row_bytes(self, columns: Sequence[str], rows: Longs) -> Longs:
        """How many bytes these columns take of each of these rows."""
        return bytes_of_rows(self.chunks, columns, rows)

    def keep_indexes(self, used: set[Classes]) -> None:
        self._probed_by &= used
        for piece in self._slices.values():
            piece.keep_indexes(used)

    def expire(self, watermark: int, pending_from: int = NEVER) -> None:
        """Forgets what no tuple at or after the watermark can meet.

        Tuples at or after `pending_from` still wait to be joined, so their chunks stay.
        """
        self.forget_slices(watermark)
        for piece in self._slices.values():
            piece.trim(watermark, self)
        progress = self._progress(watermark)
        kept = [c for c in self.chunks if c.expires_at > progress or c.max_ts >= pending_from]
        self.chunks = [self._trimmed(chunk, min(watermark, pending_from)) for chunk in kept]

    def forget_slices(self, watermark: int) -> None:
        """Forgets the slices of which every tuple has expired."""
        progress = self._progress(watermark)
        expired = self._expiry.slice_has_expired
        self._slices = {key: one for key, one in self._slices.items() if not expired(one, progress)}

    def settle_chunks(self) -> None:
        """Merges the newest chunk with its older neighbours of like size, and narrows what is new.

        Sizes grow as in a binary counter, so a tuple is copied a logarithmic number of times.
        """
        self._merge_newest()
        for number, chunk in enumerate(self.chunks):
            if chunk.number >= self._settled:
                self.chunks[number] = replace(chunk, held=self._narrowed(chunk.held))
        self._settled = self.next_chunk

    def _merge_newest(self) -> None:
        sizes = [(chunk.rows, chunk.nbytes) for chunk in self.chunks]
        count = mergeable(sizes, self.tuning.merge_rows, self.tuning.merge_bytes)
        run = self.chunks[len(sizes) - count :]
        while len(run) > 1 and not self._may_merge(run):
            run = run[1:]
        if len(run) < 2:
            return
        batch = self._joined([chunk.batch for chunk in run])
        self.chunks[-len(run) :] = [self._expiry.describe_chunk(self.next_chunk, run[0].start, batch)]
        self.next_chunk += 1

    def numbered(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """New tuples with the numbers by which answers are to know them, where nothing has given them any."""
        return batch

    def enter(self, arrivals: Arrivals) -> Arrivals:
        """Those of the tuples that the watermark has passed which may be joined, with their ends."""
        return arrivals

    def survivors(self) -> PersistedChunk | None:
        """What to keep, once most of what is here has ended and lies between the rest; None before."""
        return None

    def take(self, columns: Sequence[str], rows: Longs) -> list[pa.Array]:
        """Payload columns at these row numbers."""
        return take_rows(self.chunks, columns, rows)

    def inclusion_probabilities(self, rows: Longs) -> npt.NDArray[np.float32] | None:
        """How likely each of these rows was to be still here; None if it is 1 for all rows."""
        sampled = [chunk for chunk in self.chunks if KEPT in chunk.schema.names]
        if not sampled:
            return None
        numbers = [chunk.number for chunk in sampled]
        if numbers != self._sampled:
            known = np.concatenate([probabilities_of(chunk.held) for chunk in sampled])
            self._sampled, self._known_probabilities = numbers, np.append(known, np.float32(1))
        starts = np.array([chunk.start for chunk in sampled])
        sizes = np.array([chunk.rows for chunk in sampled])
        owners = np.maximum(owners_of(sampled, rows), 0)
        within = rows - starts[owners]
        entries = within + (np.cumsum(sizes) - sizes)[owners]
        inside = (within >= 0) & (within < sizes[owners])
        return self._known_probabilities[np.where(inside, entries, -1)]

    def bring_payload(self, matched: Sequence[Longs], watermark: int, late: LatePayload) -> None:
        """Fetches late payload: of the rows in `matched` and of those that are live after the watermark."""
        self._widest.clear()
        for number, chunk in enumerate(self.chunks):
            if REF not in chunk.schema.names:
                continue
            needed = self.layout.window.known_end_us(np.asarray(chunk.column(TS))) > watermark
            for rows in matched:
                needed[rows[(rows >= chunk.start) & (rows < chunk.stop)] - chunk.start] = True
            self.chunks[number] = replace(chunk, held=with_payload(self.layout, chunk.batch, needed, late))

    def _append(self, width: int, number: int, arrivals: Arrivals) -> None:
        most = self.tuning.max_rows_per_slice
        first_row = int(arrivals.rows.min()) // most * most
        key = width, number, first_row
        piece = self._slices.get(key)
        if piece is None:
            alike = self._slices.values() if self._row_ends is None else ()
            expected = max((other.count for other in alike), default=0)
            capacity = max(len(arrivals), expected + expected // 16)  # spares most slices a late growth
            piece = self._slices[key] = Slice(
                window=self._expiry.window,
                indexed=self._probed_by,
                capacity=capacity,
                first_row=first_row,
                base=self._expiry.slice_base(width, number),
                row_ends=self._row_ends,
                tuning=self.tuning,
            )
        piece.append(arrivals, self)

    def _progress(self, watermark: int) -> int:
        """How far the input has come, as its window counts."""
        return self.newest_position if self.layout.window.numbers_rows else watermark

    def _trimmed(self, chunk: Chunk, watermark: int) -> Chunk:
        """A chunk without its expired front, as a new chunk: a slice of it would keep all in memory."""
        expired = self._expiry.expired_prefix(chunk, watermark, is_new=chunk.number >= self._settled)
        if not expired:
            return chunk
        rest = chunk.held.take(pa.array(np.arange(expired, chunk.rows)))
        number, self.next_chunk = self.next_chunk, self.next_chunk + 1
        return self._expiry.describe_chunk(number, chunk.start + expired, rest)

    def _may_merge(self, run: list[Chunk]) -> bool:
        """Whether chunks follow each other without a gap, hold the same columns, and expire together."""
        alike = all(chunk.schema == run[-1].schema for chunk in run)
        return alike and run[-1].stop - run[0].start <= _rows(run) and not self._expiry.spans_too_long(run)

    def _narrowed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return narrowed(batch, self.tuning.narrow_rows)

    def _joined(self, batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
        return pa.concat_batches(list(batches))


def _rises(values: Longs) -> bool:
    return bool((values[1:] >= values[:-1]).all())


def _rows(chunks: Sequence[Chunk]) -> int:
    return sum(chunk.rows for chunk in chunks)

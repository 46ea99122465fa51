"""All live tuples of one input: payload in chunks, keys and times in slices.

A *chunk* is what arrived together, immutable, kept as Arrow and expired whole once no acceptable future tuple
can meet any of its tuples; it is also the unit of persistence. A *slice* is a stretch of time with its hash
indexes. Rows are numbered as they arrive, so a slice names a payload row by a single integer, and small
chunks can be merged with their neighbours without renumbering.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.kernel.columns.groups import Selection, groups_of
from watersmeet.kernel.columns.hash_index import Longs
from watersmeet.kernel.columns.hashing import Hashes, hash_column
from watersmeet.kernel.columns.narrow import narrowed
from watersmeet.kernel.late_payload import LatePayload, with_payload
from watersmeet.kernel.layout import KEPT, REF, TS, InputLayout
from watersmeet.kernel.state.chunk import Chunk, gather, held_by, owners_of
from watersmeet.kernel.state.chunks import mergeable
from watersmeet.kernel.state.slice import SHORT_SPAN, Classes, Matches, Slice
from watersmeet.kernel.state.weighed_sample import chances_of
from watersmeet.query import NEVER

MAX_SLICES_PER_APPEND = 32  # a batch that spans many windows gets wider slices
MIN_ROWS_PER_SLICE = 4096  # under ROWS windows
ROWS_PER_SLICE = 1 << 31  # a slice's row numbers fit half a word
WORTH_CUTTING = 1 / 8  # of a new chunk: when less is over, all of it stays


@dataclass(frozen=True)
class Arrivals:
    """Tuples on their way into a join: times, hashes per class, and their row numbers."""

    ts: Longs
    ends: Longs
    rows: Longs
    hashes: dict[int, Hashes]
    places: Longs | None = None

    def __len__(self) -> int:
        return len(self.ts)

    def pick(self, chosen: Selection) -> Arrivals:
        """The tuples at these places, or where this mask holds."""
        if isinstance(chosen, slice) and chosen == np.s_[0 : len(self)]:
            return self
        return Arrivals(
            self.ts[chosen],
            self.ends[chosen],
            self.rows[chosen],
            {cls: hashes[chosen] for cls, hashes in self.hashes.items()},
            None if self.places is None else self.places[chosen],
        )


def concat_arrivals(parts: Sequence[Arrivals]) -> Arrivals:
    if len(parts) == 1:
        return parts[0]
    places = [part.places for part in parts if part.places is not None]
    return Arrivals(
        np.concatenate([part.ts for part in parts]),
        np.concatenate([part.ends for part in parts]),
        np.concatenate([part.rows for part in parts]),
        {cls: np.concatenate([part.hashes[cls] for part in parts]) for cls in parts[0].hashes},
        np.concatenate(places) if places else None,
    )


class TupleStore:
    """The live tuples of one input."""

    def __init__(self, layout: InputLayout) -> None:
        self.layout = layout
        self.chunks: list[Chunk] = []
        self.newest_place = -1
        self._settled = 0  # chunks from this number on are new: no state store holds them
        self._slices: dict[tuple[int, int, int], Slice] = {}
        self._probed_by: set[Classes] = {layout.classes} if len(layout.classes) == 1 else set()
        self.next_row = 0
        self.next_chunk = 0
        self._weighed: list[int] = []  # the chunks whose chances are put together in the next
        self._known_chances: npt.NDArray[np.float32] = np.ones(1, np.float32)

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

    def add_chunk(
        self,
        batch: pa.RecordBatch,
        ts: Longs,
        last_place: int,
        number: int | None = None,
        start: int | None = None,
    ) -> Chunk:
        """Keeps a batch as the next chunk; `number` and `start` are given when it is read back."""
        if number is not None:
            batch, self._settled = narrowed(batch), max(self._settled, number + 1)
        number = self.next_chunk if number is None else number
        chunk = self._chunk(number, self.next_row if start is None else start, batch, ts, last_place)
        self.chunks.append(chunk)
        self.next_row = chunk.stop
        self.next_chunk = max(self.next_chunk, number + 1)
        return chunk

    def index(self, arrivals: Arrivals) -> None:
        """Makes tuples visible to probes."""
        if not len(arrivals):
            return
        width, numbers = self._slice_numbers(arrivals)
        for group in groups_of(numbers):
            self._append(width, int(numbers[group][0]), arrivals.pick(group))

    def settle_places(self, first_place: int, places_ts: Longs) -> None:
        """Takes the event times of newly known places of the stream (ROWS windows)."""
        for piece in self._slices.values():
            piece.settle_ends(first_place, places_ts)
        self.newest_place = max(self.newest_place, first_place + len(places_ts) - 1)

    def probe(self, classes: Classes, wanted: Hashes, max_ts: Longs, min_end: Longs) -> Matches:
        """Matches of probers with the given lives, and a few whose keys differ: see `Slice.probe`."""
        self._probed_by.add(classes)
        found = []
        in_order = len(self._slices) > 1 and _rises(max_ts) and _rises(min_end)
        for piece in self._slices.values():
            first, stop = 0, len(wanted)
            if in_order:  # most probers are before or after a slice, and need no look each
                first = int(np.searchsorted(min_end, piece.low_ts, side="right"))
                stop = int(np.searchsorted(max_ts, piece.high_end, side="left"))
            if first < stop:
                few = wanted[first:stop], max_ts[first:stop], min_end[first:stop]
                matches = piece.probe(classes, *few, self)
                if len(matches.probers):
                    found.append(replace(matches, probers=matches.probers + first) if first else matches)
        if len(found) == 1:
            return found[0]
        return Matches(
            np.concatenate([part.probers for part in found] or [_EMPTY]),
            np.concatenate([part.rows for part in found] or [_EMPTY]),
            np.concatenate([part.ts for part in found] or [_EMPTY]),
            np.concatenate([part.ends for part in found] or [_EMPTY]),
        )

    def holds(self, rows: Longs) -> npt.NDArray[np.bool_]:
        """Which of these rows are in some chunk."""
        return held_by(self.chunks, rows)

    def hashes(self, cls: int, rows: Longs) -> Hashes:
        """The key hashes of one class at these row numbers."""
        if not len(rows):
            return np.empty(0, np.uint64)
        return hash_column(self.take([self.layout.key(cls)], rows)[0])

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
        kept = [c for c in self.chunks if not self._chunk_is_over(c, watermark, pending_from)]
        self.chunks = [self._trimmed(chunk, min(watermark, pending_from)) for chunk in kept]

    def forget_slices(self, watermark: int) -> None:
        """Forgets the slices of which every tuple is over."""
        for key in [key for key, piece in self._slices.items() if self._slice_is_over(piece, watermark)]:
            del self._slices[key]

    def settle_chunks(self) -> None:
        """Merges the newest chunk with its older neighbours of like size, and narrows what is new.

        Sizes grow as in a binary counter, so a tuple is copied a logarithmic number of times.
        """
        self._merge_newest()
        for place, chunk in enumerate(self.chunks):
            if chunk.number >= self._settled:
                self.chunks[place] = replace(chunk, held=narrowed(chunk.held))
        self._settled = self.next_chunk

    def _merge_newest(self) -> None:
        run = self.chunks[len(self.chunks) - mergeable([chunk.rows for chunk in self.chunks]) :]
        while len(run) > 1 and not self._may_merge(run):
            run = run[1:]
        if len(run) < 2:
            return
        batch = self._joined([chunk.batch for chunk in run])
        ts = np.asarray(batch.column(TS))
        last_place = max(chunk.last_place for chunk in run)
        self.chunks[-len(run) :] = [self._chunk(self.next_chunk, run[0].start, batch, ts, last_place)]
        self.next_chunk += 1

    def take(self, columns: Sequence[str], rows: Longs) -> list[pa.Array]:
        """Payload columns at these row numbers."""
        return gather(self.chunks, columns, rows)

    def chances(self, rows: Longs) -> npt.NDArray[np.float32] | None:
        """The chance that each of these rows had to be still here; None if it is 1 for all rows."""
        weighed = [chunk for chunk in self.chunks if KEPT in chunk.schema.names]
        if not weighed:
            return None
        numbers = [chunk.number for chunk in weighed]
        if numbers != self._weighed:
            known = np.concatenate([chances_of(chunk.held) for chunk in weighed])
            self._weighed, self._known_chances = numbers, np.append(known, np.float32(1))
        starts = np.array([chunk.start for chunk in weighed])
        sizes = np.array([chunk.rows for chunk in weighed])
        owners = np.maximum(owners_of(weighed, rows), 0)
        within = rows - starts[owners]
        places = within + (np.cumsum(sizes) - sizes)[owners]
        inside = (within >= 0) & (within < sizes[owners])
        return self._known_chances[np.where(inside, places, -1)]

    def bring_payload(self, matched: Sequence[Longs], watermark: int, late: LatePayload) -> None:
        """Fetches late payload: of the rows in `matched` and of those that live beyond the watermark."""
        for place, chunk in enumerate(self.chunks):
            if REF not in chunk.schema.names:
                continue
            needed = self.layout.window.known_end_us(np.asarray(chunk.column(TS))) > watermark
            for rows in matched:
                needed[rows[(rows >= chunk.start) & (rows < chunk.stop)] - chunk.start] = True
            self.chunks[place] = replace(chunk, held=with_payload(self.layout, chunk.batch, needed, late))

    def _append(self, width: int, number: int, arrivals: Arrivals) -> None:
        first_row = int(arrivals.rows.min()) // ROWS_PER_SLICE * ROWS_PER_SLICE
        key = width, number, first_row
        piece = self._slices.get(key)
        if piece is None:
            expected = max((other.count for other in self._slices.values()), default=0)
            capacity = max(len(arrivals), expected + expected // 16)  # spares most slices a late growth
            piece = self._slices[key] = self._new_slice(capacity, first_row, width, number)
        piece.append(arrivals.ts, arrivals.rows, arrivals.hashes, arrivals.ends, arrivals.places, self)

    def _new_slice(self, capacity: int, first_row: int, width: int, number: int) -> Slice:
        """An empty slice; `width` and `number` are those of `_slice_numbers`."""
        is_of_time = not self.layout.window.counts_rows and 0 < width <= SHORT_SPAN
        base = width * number if is_of_time else None
        return Slice(self.layout.window, self._probed_by, capacity, first_row, base)

    def _slice_numbers(self, arrivals: Arrivals) -> tuple[int, Longs]:
        """Which slice each tuple belongs to, as (width of the slices, their numbers)."""
        window = self.layout.window
        if window.row_count is not None and arrivals.places is not None:
            width = max(window.row_count, MIN_ROWS_PER_SLICE)
            return width, arrivals.places // width
        if window.duration_us is None:
            return 0, np.zeros(len(arrivals), np.int64)
        width = window.duration_us  # less: tighter expiry, but each probe looks into more slices
        span = int(arrivals.ts.max()) - int(arrivals.ts.min())
        while span // width > MAX_SLICES_PER_APPEND:
            width *= 2
        return width, arrivals.ts // width

    def _slice_is_over(self, piece: Slice, watermark: int) -> bool:
        if self.layout.window.counts_rows:
            return self.layout.window.expires_at(piece.last_place) <= self.newest_place
        return piece.high_end <= watermark

    def _chunk_is_over(self, chunk: Chunk, watermark: int, pending_from: int) -> bool:
        window = self.layout.window
        if chunk.max_ts >= pending_from:
            return False
        if window.counts_rows:
            return window.expires_at(chunk.last_place) <= self.newest_place
        return window.expires_at(chunk.max_ts) <= watermark

    def _trimmed(self, chunk: Chunk, watermark: int) -> Chunk:
        """A chunk without the rows before its first live one, once at least half of it is over.

        A chunk of a large batch may span many windows; each row is copied, and persisted anew, once or twice.
        One that is new is persisted in any case, so less is worth it.
        """
        window, is_new = self.layout.window, chunk.number >= self._settled
        if window.duration_us is None:
            return chunk
        if window.end_us(chunk.min_ts if is_new else chunk.half_ts) > watermark:
            return chunk
        over = int(np.argmax(window.end_us(np.asarray(chunk.column(TS))) > watermark))
        return chunk if over < WORTH_CUTTING * chunk.rows else self._without_first(chunk, over)

    def _without_first(self, chunk: Chunk, rows: int) -> Chunk:
        """The rest of a chunk, as a new one: a slice would keep all of it in memory."""
        rest = chunk.held.take(pa.array(np.arange(rows, chunk.rows)))
        number, self.next_chunk = self.next_chunk, self.next_chunk + 1
        ts = np.asarray(chunk.column(TS))[rows:]
        return self._chunk(number, chunk.start + rows, rest, ts, chunk.last_place)

    def _may_merge(self, run: list[Chunk]) -> bool:
        """Whether chunks follow each other without a gap, hold the same columns, and end together."""
        alike = all(chunk.schema == run[-1].schema for chunk in run)
        return alike and run[-1].stop - run[0].start <= _rows(run) and not self._spans_too_long(run)

    def _spans_too_long(self, run: list[Chunk]) -> bool:
        """Whether merging would keep tuples much longer than their window."""
        duration, row_count = self.layout.window.duration_us, self.layout.window.row_count
        if duration is None:
            return row_count is not None and _rows(run) > row_count
        span = max(chunk.max_ts for chunk in run) - min(chunk.min_ts for chunk in run)
        return span > max(duration // 2, *(chunk.max_ts - chunk.min_ts for chunk in run))

    def _chunk(self, number: int, start: int, batch: pa.RecordBatch, ts: Longs, last_place: int) -> Chunk:
        half = ts[: max(1, len(ts) // 2)]
        return Chunk(number, start, batch, int(ts.min()), int(ts.max()), int(half.max()), last_place)

    def _joined(self, batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
        return pa.concat_batches(list(batches))


def _rises(values: Longs) -> bool:
    return bool((values[1:] >= values[:-1]).all())


def _rows(chunks: Sequence[Chunk]) -> int:
    return sum(chunk.rows for chunk in chunks)


_EMPTY: Longs = np.empty(0, np.int64)

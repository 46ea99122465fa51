"""One side of a node: the combinations that may still meet some of the other side.

A row is kept until the other side can bring nothing that overlaps it. That is the moment when it is decided
whether it has found a match, so what a preserved side lets go of is what leaves for want of one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.kernel.columns.hash_index import Longs
from watersmeet.kernel.columns.hashing import Hashes, combine_hashes, hash_column
from watersmeet.kernel.join.pieces import in_time_order
from watersmeet.kernel.layout import TS, InputLayout
from watersmeet.kernel.outer.marks import ROW, Marks
from watersmeet.kernel.outer.undecided import NO_POSITION, Undecided, Unsettled
from watersmeet.kernel.state.arrivals import Arrivals
from watersmeet.kernel.state.chunks import HoldBuffer, PersistedChunk
from watersmeet.kernel.state.result_expiry import ResultExpiry, order_by_end
from watersmeet.kernel.state.row_ends import EndsOf
from watersmeet.kernel.state.slice import Matches
from watersmeet.kernel.state.store import TupleStore
from watersmeet.kernel.tuning import Tuning
from watersmeet.query import BEGINNING, NEVER, UNBOUNDED, Window
from watersmeet.query.shared_dataflow import END

EVERY = "__every"  # int8: the key where no equality is one
MARKED, SETTLED = " matched", " ends"  # sections beside that of the rows


@dataclass(frozen=True)
class Combinations:
    """Combinations of tuples: their lifetimes, and columns by the names they have in answers."""

    ts: Longs
    ends: Longs
    columns: Mapping[str, pa.Array]

    def __len__(self) -> int:
        return len(self.ts)

    @property
    def nbytes(self) -> int:
        columns = sum(int(each.nbytes) for each in self.columns.values())
        return int(self.ts.nbytes) + int(self.ends.nbytes) + columns


@dataclass(frozen=True)
class SideLayout:
    """What a side keeps: its columns, those of them that are keys, and the window if it is one input alone.

    `positions` are the columns that hold positions of rows, by the alias of which stream they are.
    """

    section: str
    columns: tuple[str, ...]
    keys: tuple[str, ...]
    read: tuple[str, ...]  # columns by which matches are judged
    window: Window | None
    positions: Mapping[str, str]
    keeps_unmatched: bool  # whether rows that can match nothing are kept, for they leave by themselves
    has_marks: bool


class SideStore(TupleStore):
    """The rows of one side."""

    def widen_ends(self, rows: Longs, ends: Longs) -> None:
        """Gives rows their ends, now that they are known."""
        for piece in self._slices.values():
            piece.set_ends(rows, ends)

    def forget(self, bound: int, live: Longs) -> None:
        """Forgets chunks that hold none of the live rows, which are in order, and slices that have ended."""
        self.forget_slices(bound)
        starts = np.fromiter((chunk.start for chunk in self.chunks), np.int64, len(self.chunks))
        stops = np.fromiter((chunk.stop for chunk in self.chunks), np.int64, len(self.chunks))
        held = np.searchsorted(live, stops) > np.searchsorted(live, starts)
        self.chunks = [chunk for chunk, is_held in zip(self.chunks, held, strict=True) if is_held]


class Side:
    """The rows of a side: admitted, probed, marked, released."""

    def __init__(
        self, layout: SideLayout, tuning: Tuning, types: Mapping[str, pa.DataType] | None = None
    ) -> None:
        """`types` of columns that no tuple may have come with yet."""
        self.layout = layout
        keys = tuple(enumerate(layout.keys or (EVERY,)))
        own = InputLayout(layout.section, layout.window or UNBOUNDED, keys, ())
        self.store = SideStore(own, tuning, None if layout.window else ResultExpiry(tuning))
        self.marks = Marks(layout.section + MARKED, tuning) if layout.has_marks else None
        self.types: dict[str, pa.DataType] = {**(types or {})}
        self._tuning = tuning
        self._is_counted = bool(layout.positions)
        self._undecided = Undecided()
        self._unsettled = Unsettled(layout.positions)
        self._ends = HoldBuffer(layout.section + SETTLED, ROW)
        self._quiet_until = NEVER  # nothing to forget before

    @property
    def classes(self) -> tuple[int, ...]:
        return self.store.layout.classes

    def admit(self, new: Combinations) -> Arrivals | None:
        """Keeps combinations; those that can match are returned, and become visible once they are indexed."""
        valid = self._valid(new)
        if not self.layout.keeps_unmatched and not valid.all():
            chosen = pa.array(np.flatnonzero(valid))
            columns = {name: new.columns[name].take(chosen) for name in self.layout.columns}
            new, valid = Combinations(new.ts[valid], new.ends[valid], columns), valid[valid]
        if not len(new):
            return None
        return self._keep(self._in_order(self._batch(new)))

    def index(self, arrivals: Arrivals) -> None:
        """Makes rows visible to probes."""
        self.store.index(arrivals)

    def probe(self, arrivals: Arrivals, most: int) -> Iterator[Matches]:
        """Rows that seem to match those of the other side, in blocks of at most so many."""
        wanted = combine_hashes([arrivals.hashes[cls] for cls in self.classes])
        yield from self.store.probe(self.classes, wanted, arrivals.ts, arrivals.ends, most)

    def settle(self, alias: str, ends_of: EndsOf) -> None:
        """Takes when tuples of an input end, by their positions, from which ends of rows here may follow."""
        if alias not in self.layout.positions:
            return
        rows, ends = self._unsettled.settle(alias, ends_of)
        if len(rows):
            self.store.widen_ends(rows, ends)
            self._ends.add(pa.record_batch({ROW: rows, END: ends}))

    def release(self, bound: int) -> Longs:
        """The rows that nothing from a bound on can overlap, and that nothing has matched."""
        decided = self._unsettled.release(bound) if self._is_counted else self._undecided.release(bound)
        return decided[~self.marks.are_marked(decided)] if self.marks is not None else decided

    @property
    def least_ts(self) -> int:
        """The earliest event time of the rows that are not decided."""
        return self._unsettled.least_ts if self._is_counted else self._undecided.least_ts

    def expire(self, bound: int) -> None:
        """Forgets the rows that nothing from a bound on can overlap, and merges small chunks."""
        if self._is_counted:
            self.store.forget(bound, self._unsettled.rows)
        elif bound >= self._quiet_until:
            self.store.expire(bound)
            self._quiet_until = min((chunk.half_expires_at for chunk in self.store.chunks), default=NEVER)
        self.store.settle_chunks()
        first = self.store.chunks[0].start if self.store.chunks else self.store.next_row
        self._ends.close_before(first)
        if self.marks is not None:
            self.marks.settle(first)

    def take(self, names: Sequence[str], rows: Longs) -> dict[str, pa.Array]:
        """Columns at these rows."""
        taken = self.store.take(names, rows) if len(rows) else [pa.nulls(0) for _ in names]
        return dict(zip(names, taken, strict=True))

    def lifetimes(self, rows: Longs) -> tuple[Longs, Longs]:
        """When rows begin and end, those that have been decided just now too."""
        names = [TS] if self.layout.window else [TS, END]
        ts, *ends = (np.asarray(column) for column in self.store.take(names, rows))
        if self.layout.window is not None:
            return ts, self.layout.window.known_end_us(ts)
        return ts, self._settled(rows, ends[0].copy())

    def _settled(self, rows: Longs, ends: Longs) -> Longs:
        """Ends of rows, in order of their numbers, with what has become known since they were kept."""
        for known in self._ends.batches():
            numbers = np.asarray(known.column(ROW))
            found = np.minimum(np.searchsorted(rows, numbers), max(0, len(rows) - 1))
            inside = rows[found] == numbers if len(rows) else np.zeros(len(numbers), np.bool_)
            np.minimum.at(ends, found[inside], np.asarray(known.column(END))[inside])
        return ends

    def persisted(self) -> list[PersistedChunk]:
        section = self.layout.section
        kept = [PersistedChunk(section, chunk.number, chunk.held) for chunk in self.store.chunks]
        marked = self.marks.persisted() if self.marks is not None else []
        return [*kept, *marked, *self._ends.persisted()]

    def snapshot(self) -> dict[str, Any]:
        """What to persist beside the chunks, fit for JSON."""
        store = self.store
        numbers = {"next_chunk": store.next_chunk, "next_row": store.next_row}
        starts = {str(chunk.number): chunk.start for chunk in store.chunks}
        marks = {"next_marks": self.marks.next_number} if self.marks is not None else {}
        ends = {"next_ends": self._ends.next_number} if self._is_counted else {}
        return {**numbers, "starts": starts, **marks, **ends}

    def restore(self, snapshot: Mapping[str, Any], chunks: Iterable[PersistedChunk], bound: int) -> None:
        """Becomes the side that was persisted so, in which all that ends by the bound is decided."""
        held: dict[str, list[PersistedChunk]] = {}
        for chunk in sorted(chunks, key=lambda chunk: chunk.number):
            held.setdefault(chunk.section, []).append(chunk)
        section, starts = self.layout.section, snapshot["starts"]
        for one in held.get(section + SETTLED, []):
            self._ends.add(one.wide, one.number)
        self._ends.next_number = snapshot.get("next_ends", 0)
        in_order = sorted(held.get(section, []), key=lambda one: starts[str(one.number)])
        found = [self._keep(one.wide, one.number, starts[str(one.number)], bound) for one in in_order]
        for arrivals in found:  # once all chunks are there: slices that grow read keys from them
            self.index(arrivals)
        self.store.next_row, self.store.next_chunk = snapshot["next_row"], snapshot["next_chunk"]
        if self.marks is not None:
            self.marks.restore(held.get(section + MARKED, []), snapshot["next_marks"])

    @property
    def nbytes(self) -> int:
        """Memory of rows, without indexes."""
        marks = self.marks.nbytes if self.marks is not None else 0
        return self.store.payload_bytes + self._ends.nbytes + marks

    def _valid(self, new: Combinations) -> npt.NDArray[np.bool_]:
        """Which combinations have all keys: NULL equals nothing."""
        valid = np.ones(len(new), np.bool_)
        for name in self.layout.keys:
            if new.columns[name].null_count:
                valid &= np.asarray(new.columns[name].is_valid())
        return valid

    def _batch(self, new: Combinations) -> pa.RecordBatch:
        columns: dict[str, pa.Array] = {TS: pa.array(new.ts)}
        if self.layout.window is None:
            columns[END] = pa.array(new.ends)
        if not self.layout.keys:
            columns[EVERY] = pa.array(np.zeros(len(new), np.int8))
        for name in self.layout.columns:
            column = new.columns[name]
            if not pa.types.is_null(column.type):
                self.types[name] = column.type
            elif name in self.types:
                column = pa.nulls(len(new), self.types[name])
            columns[name] = column
        return pa.RecordBatch.from_pydict(columns)

    def _in_order(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if self.layout.window is not None:
            return in_time_order(batch, self.layout.window.duration_us)
        return batch if self._is_counted else order_by_end(batch, self._tuning)

    def _keep(
        self,
        batch: pa.RecordBatch,
        number: int | None = None,
        start: int | None = None,
        bound: int = BEGINNING,
    ) -> Arrivals:
        """Keeps rows as a chunk; the numbers are given when it is read back, with what is decided since."""
        chunk = self.store.add_chunk(batch, number, start)
        for name in self.layout.columns if number is not None else ():
            if not pa.types.is_null(batch.column(name).type):
                self.types[name] = batch.column(name).type
        self._quiet_until = min(self._quiet_until, chunk.half_expires_at, chunk.expires_at)
        rows = np.arange(chunk.start, chunk.stop, dtype=np.int64)
        ts: Longs = np.array(batch.column(TS), np.int64)
        window = self.layout.window
        ends: Longs = window.known_end_us(ts) if window else np.array(batch.column(END), np.int64)
        if number is not None:
            ends = self._settled(rows, ends)
        keys = {cls: batch.column(name) for cls, name in self.store.layout.keys}
        live, valid = ends > bound, np.ones(len(rows), np.bool_)
        for key in keys.values():
            if key.null_count:
                valid &= np.asarray(key.is_valid())
        if self._is_counted:
            positions = {
                alias: np.asarray(batch.column(name).fill_null(NO_POSITION))[live]
                for alias, name in self.layout.positions.items()
            }
            self._unsettled.add(rows[live], ts[live], ends[live], positions)
        else:
            self._undecided.add(rows[live], ts[live], ends[live])
        hashes: dict[int, Hashes] = {cls: hash_column(key) for cls, key in keys.items()}
        arrivals = Arrivals(ts, ends, rows, hashes)
        seen = live & valid
        return arrivals if seen.all() else arrivals.pick(seen)

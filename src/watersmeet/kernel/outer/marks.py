"""Which rows of a store have found a match: a bit for each live row, kept beside the chunks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.kernel.columns.hash_index import Longs
from watersmeet.kernel.columns.narrow import narrowed
from watersmeet.kernel.state.chunks import PersistedChunk, mergeable
from watersmeet.kernel.tuning import DEFAULT_TUNING, Tuning

ROW = "__row"  # int64: the number of a row in its store


@dataclass(frozen=True)
class _Kept:
    """Marks that were new in some steps."""

    chunk: PersistedChunk
    last: int  # row


class Marks:
    """Marks rows, by their numbers; what is new goes to the state store and nothing else does."""

    def __init__(self, section: str, tuning: Tuning = DEFAULT_TUNING) -> None:
        self.next_number = 0
        self._section = section
        self._tuning = tuning
        self._first = 0  # the row of the first bit
        self._bits: npt.NDArray[np.bool_] = np.zeros(0, np.bool_)
        self._new: list[Longs] = []
        self._kept: list[_Kept] = []

    def mark(self, rows: Longs) -> Longs:
        """Marks rows; those that had no mark before, each once."""
        found = self._set(rows)
        if len(found):
            self._new.append(found)
        return found

    def are_marked(self, rows: Longs) -> npt.NDArray[np.bool_]:
        """Which rows have a mark."""
        at = rows - self._first
        if not len(at) or (self._bits.size and int(at.max()) < len(self._bits)):
            return self._bits[at]
        marked = np.zeros(len(rows), np.bool_)
        known = at < len(self._bits)
        marked[known] = self._bits[at[known]]
        return marked

    def settle(self, first_row: int) -> None:
        """Closes a step: new marks are put together, those of rows before the first are forgotten."""
        self._kept = [kept for kept in self._kept if kept.last >= first_row]
        if self._new:
            self._keep(np.concatenate(self._new))
            self._new = []
        batches = [kept.chunk.batch for kept in self._kept]
        sizes = [(int(batch.num_rows), int(batch.nbytes)) for batch in batches]
        run = mergeable(sizes, self._tuning.merge_rows, self._tuning.merge_bytes)
        if run > 1:
            parts, self._kept = self._kept[-run:], self._kept[:-run]
            self._keep(np.concatenate([_rows_of(kept.chunk) for kept in parts]))
        gone = first_row - self._first
        if gone > len(self._bits) // 2:
            self._bits, self._first = self._bits[gone:].copy(), first_row

    def persisted(self) -> list[PersistedChunk]:
        return [kept.chunk for kept in self._kept]

    def restore(self, chunks: Iterable[PersistedChunk], next_number: int) -> None:
        """Takes the marks that were persisted."""
        for chunk in sorted(chunks, key=lambda chunk: chunk.number):
            rows = _rows_of(chunk)
            self._kept.append(_Kept(chunk, int(rows.max())))
            self._set(rows)
        self.next_number = next_number

    @property
    def nbytes(self) -> int:
        return int(self._bits.nbytes) + sum(int(kept.chunk.batch.nbytes) for kept in self._kept)

    def _keep(self, rows: Longs) -> None:
        batch = narrowed(pa.record_batch({ROW: rows}), self._tuning.narrow_rows)
        self._kept.append(_Kept(PersistedChunk(self._section, self.next_number, batch), int(rows.max())))
        self.next_number += 1

    def _set(self, rows: Longs) -> Longs:
        """Sets bits; the rows whose bits were not set, each once."""
        new = rows[~self.are_marked(rows)]
        if not len(new):
            return new
        at = new - self._first
        last = int(at.max())
        if last >= len(self._bits):
            grown = np.zeros(max(last + 1, 2 * len(self._bits)), np.bool_)
            grown[: len(self._bits)] = self._bits
            self._bits = grown
        self._bits[at] = True
        places = np.empty(len(self._bits), np.int32)
        order = np.arange(len(at), dtype=np.int32)
        places[at] = order  # of a row that comes again, the last place stays
        found: Longs = new[places[at] == order]
        return found


def _rows_of(chunk: PersistedChunk) -> Longs:
    rows: Longs = np.asarray(chunk.wide.column(ROW))
    return rows

"""The payload of one input's tuples: chunks of consecutive rows, and how rows are taken from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.kernel.columns.groups import Selection, groups_of
from watersmeet.kernel.columns.hash_index import Longs
from watersmeet.kernel.columns.narrow import Narrowing, is_of_words, narrowing_of, widened
from watersmeet.kernel.columns.row_bytes import value_bytes


@dataclass(frozen=True)
class WordColumn:
    """A column of 64-bit words without NULLs: what is held, in few bytes maybe, and what to add to it."""

    held: npt.NDArray[Any]
    low: int
    type_: pa.DataType

    def at(self, rows: Longs) -> Longs:
        first, last = int(rows[0]), int(rows[-1])
        in_sequence = last - first == len(rows) - 1 and bool((rows[1:] > rows[:-1]).all())
        words = self.held[first : last + 1] if in_sequence else self.held[rows]
        return words.astype(np.int64) + self.low


@dataclass(frozen=True)
class Chunk:
    """A persisted unit: rows `start`..`stop` of one input."""

    number: int
    start: int
    held: pa.RecordBatch  # as it is in memory: narrowed or not
    min_ts: int
    max_ts: int
    expires_at: int  # the progress at which all rows have expired (`expiry`)
    half_expires_at: int  # the same for the first half of the rows; NEVER where a chunk is not cut

    @property
    def rows(self) -> int:
        return int(self.held.num_rows)

    @property
    def stop(self) -> int:
        return self.start + self.rows

    @cached_property
    def nbytes(self) -> int:
        return int(self.held.nbytes)

    @property
    def batch(self) -> pa.RecordBatch:
        """The rows with all their bytes."""
        return widened(self.held)

    @property
    def schema(self) -> pa.Schema:
        return self._narrowing.schema

    def column(self, name: str) -> pa.Array:
        """A column with all its bytes; NULL if the chunk is older than the need for it."""
        if self.schema.get_field_index(name) < 0:
            return pa.nulls(self.rows)
        return self._narrowing.column(self.held, name)

    def words(self, name: str) -> WordColumn | None:
        """A column to read at any rows; None if it is not of 64-bit words, or has NULLs."""
        if name not in self._words:
            self._words[name] = self._find_words(name)
        return self._words[name]

    def row_bytes(self, name: str) -> Longs | int:
        """How many bytes a column takes of each row, or of every row."""
        if name not in self._row_bytes:
            self._row_bytes[name] = self._count_bytes(name)
        return self._row_bytes[name]

    def widest(self, name: str) -> int:
        """How many bytes a column takes of a row, at most."""
        if name not in self._widest:
            self._widest[name] = int(np.max(self._count_bytes(name), initial=0))
        return self._widest[name]

    def _count_bytes(self, name: str) -> Longs | int:
        if self.schema.get_field_index(name) < 0:
            return 0
        return value_bytes(self.held.column(name), self.schema.field(name).type)

    def _find_words(self, name: str) -> WordColumn | None:
        number = self.held.schema.get_field_index(name)
        if number < 0:
            return None
        column, type_ = self.held.column(number), self.schema.field(number).type
        if name in self._narrowing.lows:
            return WordColumn(np.asarray(column), self._narrowing.lows[name], type_)
        if not (is_of_words(type_) or pa.types.is_float64(type_)) or column.null_count:
            return None
        return WordColumn(np.asarray(column.view(pa.int64())), 0, type_)

    @cached_property
    def _narrowing(self) -> Narrowing:
        return narrowing_of(self.held)

    @cached_property
    def _words(self) -> dict[str, WordColumn | None]:
        return {}

    @cached_property
    def _row_bytes(self) -> dict[str, Longs | int]:
        return {}

    @cached_property
    def _widest(self) -> dict[str, int]:
        return {}


@dataclass(frozen=True)
class _Part:
    """Rows to take from one chunk: which of the rows asked for they are, and which of the chunk."""

    chunk: Chunk
    asked: Selection
    local: Longs


def owners_of(chunks: Sequence[Chunk], rows: Longs) -> Longs:
    """For each row the number of its chunk, which are in order; -1 for rows before the first."""
    starts = np.fromiter((chunk.start for chunk in chunks), np.int64, len(chunks))
    owners: Longs = np.searchsorted(starts, rows, side="right") - 1
    return owners


def held_by(chunks: Sequence[Chunk], rows: Longs) -> npt.NDArray[np.bool_]:
    """Which rows are in one of these chunks."""
    if not chunks:
        return np.zeros(len(rows), np.bool_)
    stops = np.fromiter((chunk.stop for chunk in chunks), np.int64, len(chunks))
    owners = owners_of(chunks, rows)
    return (owners >= 0) & (rows < stops[owners])


def take_rows(chunks: Sequence[Chunk], columns: Sequence[str], rows: Longs) -> list[pa.Array]:
    """Columns at these rows, in any order, each of which is in one of the chunks."""
    if not len(rows):
        return [chunks[-1].column(name).slice(0, 0) for name in columns]
    parts = _parts(chunks, rows)
    return [_take_column(parts, name, len(rows)) for name in columns]


def bytes_of_rows(chunks: Sequence[Chunk], columns: Sequence[str], rows: Longs) -> Longs:
    """How many bytes these columns take at each of these rows, each of which is in one of the chunks."""
    taken = np.zeros(len(rows), np.int64)
    for part in _parts(chunks, rows):
        for name in columns:
            known = part.chunk.row_bytes(name)
            taken[part.asked] += known if isinstance(known, int) else known[part.local]
    return taken


def _parts(chunks: Sequence[Chunk], rows: Longs) -> list[_Part]:
    """Rows by the chunk that they are in."""
    owners = owners_of(chunks, rows)
    parts = []
    for asked in groups_of(owners):
        chunk = chunks[int(owners[asked][0])]
        parts.append(_Part(chunk, asked, rows[asked] - chunk.start))
    return parts


def _take_column(parts: Sequence[_Part], name: str, count: int) -> pa.Array:
    """A column of so many rows that are in several chunks."""
    known = [part.chunk.words(name) for part in parts]
    words = [one for one in known if one is not None]
    if len(words) == len(parts):
        taken = np.empty(count, np.int64)
        for part, own in zip(parts, words, strict=True):
            taken[part.asked] = own.at(part.local)
        return pa.array(taken).view(words[0].type_)
    pieces = [part.chunk.column(name).take(pa.array(part.local)) for part in parts]
    if len(pieces) == 1:
        return pieces[0]
    back, start = np.empty(count, np.int64), 0
    for part in parts:
        back[part.asked] = np.arange(start, start + len(part.local))
        start += len(part.local)
    together = _concat(pieces)
    del pieces  # they may be wide
    return together if bool((back[1:] > back[:-1]).all()) else together.take(pa.array(back))


def _concat(pieces: Sequence[pa.Array]) -> pa.Array:
    """Arrays of one type, or of none where a chunk lacks the column."""
    type_ = next((piece.type for piece in pieces if not pa.types.is_null(piece.type)), pa.null())
    return pa.concat_arrays(
        [pa.nulls(len(piece), type_) if pa.types.is_null(piece.type) else piece for piece in pieces]
    )

"""The payload of one input's tuples: chunks of rows in a row, and how rows are gathered from them."""

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
from watersmeet.query import NEVER


@dataclass(frozen=True)
class Words:
    """A column of whole words without NULLs: what is held, in few bytes maybe, and what to add to it."""

    held: npt.NDArray[Any]
    low: int
    type_: pa.DataType

    def at(self, places: Longs) -> Longs:
        first, last = int(places[0]), int(places[-1])
        in_a_row = last - first == len(places) - 1 and bool((places[1:] > places[:-1]).all())
        words = self.held[first : last + 1] if in_a_row else self.held[places]
        return words.astype(np.int64) + self.low


@dataclass(frozen=True)
class Chunk:
    """A persisted unit: rows `start`..`stop` of one input."""

    number: int
    start: int
    held: pa.RecordBatch  # as it is in memory: narrowed or not
    min_ts: int
    max_ts: int
    half_ts: int  # the largest event time of its first half
    last_place: int = -1
    max_end: int = NEVER  # with `half_end`: of rows that bring their own ends
    half_end: int = NEVER

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

    def words(self, name: str) -> Words | None:
        """A column to read at any place; None if it is not of whole words, or has NULLs."""
        if name not in self._words:
            self._words[name] = self._find_words(name)
        return self._words[name]

    def _find_words(self, name: str) -> Words | None:
        place = self.held.schema.get_field_index(name)
        if place < 0:
            return None
        column, type_ = self.held.column(place), self.schema.field(place).type
        if name in self._narrowing.lows:
            return Words(np.asarray(column), self._narrowing.lows[name], type_)
        if not (is_of_words(type_) or pa.types.is_float64(type_)) or column.null_count:
            return None
        return Words(np.asarray(column.view(pa.int64())), 0, type_)

    @cached_property
    def _narrowing(self) -> Narrowing:
        return narrowing_of(self.held)

    @cached_property
    def _words(self) -> dict[str, Words | None]:
        return {}


@dataclass(frozen=True)
class _Share:
    """Rows to take from one chunk: where they go, and where in the chunk they are."""

    chunk: Chunk
    places: Selection
    local: Longs


def owners_of(chunks: Sequence[Chunk], rows: Longs) -> Longs:
    """For each row the place of its chunk, which are in order; -1 for rows before the first."""
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


def gather(chunks: Sequence[Chunk], columns: Sequence[str], rows: Longs) -> list[pa.Array]:
    """Columns at these rows, in any order, each of which is in one of the chunks."""
    if not len(rows):
        return [chunks[-1].column(name).slice(0, 0) for name in columns]
    owners = owners_of(chunks, rows)
    shares = []
    for places in groups_of(owners):
        chunk = chunks[int(owners[places][0])]
        shares.append(_Share(chunk, places, rows[places] - chunk.start))
    return [_taken(shares, name, len(rows)) for name in columns]


def _taken(shares: Sequence[_Share], name: str, count: int) -> pa.Array:
    """A column of so many rows that are shared out among chunks."""
    known = [share.chunk.words(name) for share in shares]
    words = [one for one in known if one is not None]
    if len(words) == len(shares):
        gathered = np.empty(count, np.int64)
        for share, own in zip(shares, words, strict=True):
            gathered[share.places] = own.at(share.local)
        return pa.array(gathered).view(words[0].type_)
    pieces = [share.chunk.column(name).take(pa.array(share.local)) for share in shares]
    if len(pieces) == 1:
        return pieces[0]
    back, start = np.empty(count, np.int64), 0
    for share in shares:
        back[share.places] = np.arange(start, start + len(share.local))
        start += len(share.local)
    return _end_to_end(pieces).take(pa.array(back))


def _end_to_end(pieces: Sequence[pa.Array]) -> pa.Array:
    """Arrays of one type, or of none where a chunk lacks the column."""
    type_ = next((piece.type for piece in pieces if not pa.types.is_null(piece.type)), pa.null())
    return pa.concat_arrays(
        [pa.nulls(len(piece), type_) if pa.types.is_null(piece.type) else piece for piece in pieces]
    )

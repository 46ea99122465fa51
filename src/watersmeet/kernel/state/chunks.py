"""Numbered, immutable batches: what a state store keeps of a bucket, and what changes with each step."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from watersmeet.kernel.columns.hashing import Hashes, combine_hashes, hash_column
from watersmeet.kernel.columns.narrow import widened
from watersmeet.kernel.layout import InputLayout
from watersmeet.kernel.tuning import DEFAULT_TUNING
from watersmeet.query import NEVER


@dataclass(frozen=True)
class PersistedChunk:
    """A chunk as a state store keeps it: `section` names whose it is; `batch` may be narrowed."""

    section: str
    number: int
    batch: pa.RecordBatch

    @property
    def wide(self) -> pa.RecordBatch:
        """The rows with all their bytes."""
        return widened(self.batch)


def fit_chunk(layout: InputLayout, chunk: pa.RecordBatch) -> pa.RecordBatch:
    """A chunk that was read back, under the names that its columns have now.

    A query before this one may have had more of them, and keys of another name.
    """
    names = chunk.schema.names
    others = {old: new for new, old in layout.other_names if new not in names and old in names}
    if not others:
        return chunk
    wide = widened(chunk)
    return wide.rename_columns([others.get(name, name) for name in names])


@dataclass
class Changes:
    """Chunks that are new since the last step, and chunks that are gone."""

    appended: list[PersistedChunk] = field(default_factory=list)
    expired: list[tuple[str, int]] = field(default_factory=list)


class ChangeTracker:
    """Says what a state store must change to hold the same chunks."""

    def __init__(self, persisted: Iterable[tuple[str, int]] = ()) -> None:
        self._persisted = set(persisted)

    def changes(self, held: Iterable[PersistedChunk]) -> Changes:
        now = {(chunk.section, chunk.number): chunk for chunk in held}
        appended = [chunk for key, chunk in now.items() if key not in self._persisted]
        expired = sorted(self._persisted - now.keys())
        self._persisted = set(now)
        return Changes(appended, expired)


@dataclass(frozen=True)
class _Waiting:
    number: int
    batch: pa.RecordBatch
    last: int  # the largest value of the column that decides when a row is due


class HoldBuffer:
    """Rows that wait for the watermark: whole chunks stay until the last of their rows has been released.

    `until` names the int64 column that the bound must have passed before a row may go.
    """

    def __init__(self, section: str, until: str, merge_rows: int = DEFAULT_TUNING.merge_rows) -> None:
        self.section = section
        self.next_number = 0
        self._until = until
        self._merge_rows = merge_rows
        self._chunks: list[_Waiting] = []

    @property
    def rows(self) -> int:
        return sum(int(chunk.batch.num_rows) for chunk in self._chunks)

    @property
    def nbytes(self) -> int:
        return sum(int(chunk.batch.nbytes) for chunk in self._chunks)

    def add(self, batch: pa.RecordBatch, number: int | None = None) -> None:
        """Lets rows in; `number` is given when a chunk is read back."""
        if not batch.num_rows:
            return
        number = self.next_number if number is None else number
        last = int(np.asarray(batch.column(self._until)).max())
        self._chunks.append(_Waiting(number, batch, last))
        self.next_number = max(self.next_number, number + 1)

    def batches(self) -> list[pa.RecordBatch]:
        """Everything that is held, due or not."""
        return [chunk.batch for chunk in self._chunks]

    def close_before(self, bound: int) -> None:
        """Forgets chunks of which every row is before the bound, and merges small ones."""
        self._chunks = [chunk for chunk in self._chunks if chunk.last >= bound and bound != NEVER]
        self._merge()

    def thin(self, nbytes: int) -> int:
        """Leaves rows of at most so many bytes, drawn at random; returns how many went.

        A row is drawn by a hash of all that it has: in whatever order they came, the same ones stay.
        """
        before = self.rows
        while self._chunks and self.nbytes > nbytes:
            self._thin(max(0, int(self.rows * nbytes / self.nbytes) - 1))
        return before - self.rows

    def _thin(self, rows: int) -> None:
        """Leaves so many rows."""
        sizes = [int(chunk.batch.num_rows) for chunk in self._chunks]
        order = np.argsort(
            np.concatenate([_row_hashes(chunk.batch) for chunk in self._chunks]), kind="stable"
        )
        stays = np.zeros(sum(sizes), np.bool_)
        stays[order[len(order) - rows :]] = True
        chunks, self._chunks = self._chunks, []
        for chunk, keep in zip(chunks, np.split(stays, np.cumsum(sizes)[:-1]), strict=True):
            if keep.all():
                self._chunks.append(chunk)
            else:
                self.add(chunk.batch.filter(pa.array(keep)), self.next_number)

    def rewrite(self, change: Callable[[pa.RecordBatch], pa.RecordBatch]) -> None:
        """Puts what becomes of each chunk in its place, where it becomes another."""
        chunks, self._chunks = self._chunks, []
        for chunk in chunks:
            changed = change(chunk.batch)
            if changed is chunk.batch:
                self._chunks.append(chunk)
            else:
                self.add(changed, self.next_number)

    def replace_all(self, batch: pa.RecordBatch) -> None:
        """Holds these rows and no others, as a new chunk."""
        self._chunks = []
        self.add(batch, self.next_number)

    def persisted(self) -> list[PersistedChunk]:
        return [PersistedChunk(self.section, chunk.number, chunk.batch) for chunk in self._chunks]

    def _merge(self) -> None:
        """Sizes grow as in a binary counter, so a row is copied a logarithmic number of times."""
        sizes = [(int(chunk.batch.num_rows), int(chunk.batch.nbytes)) for chunk in self._chunks]
        run = mergeable(sizes, self._merge_rows)
        if run > 1:
            parts = self._chunks[-run:]
            self._chunks[-run:] = []
            self.add(pa.concat_batches([chunk.batch for chunk in parts]), self.next_number)


def _row_hashes(batch: pa.RecordBatch) -> Hashes:
    return combine_hashes([hash_column(column) for column in batch.columns])


def mergeable(
    sizes: list[tuple[int, int]], merge_rows: int, merge_bytes: int = DEFAULT_TUNING.merge_bytes
) -> int:
    """How many of the newest chunks to merge into one of at most `merge_rows` and `merge_bytes`.

    The sizes are rows and bytes of all chunks, by age.

    >>> mergeable([(8, 80), (2, 20), (1, 10)], 100), mergeable([(2, 900), (2, 20), (1, 10)], 100, 500)
    (2, 2)
    """
    if not sizes:
        return 0
    (total, nbytes), count = sizes[-1], 1
    for size, own_bytes in sizes[-2::-1]:
        nbytes += own_bytes
        if size > 2 * total or size + total > merge_rows or nbytes > merge_bytes:
            break
        total += size
        count += 1
    return count

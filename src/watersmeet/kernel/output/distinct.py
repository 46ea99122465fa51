"""SELECT DISTINCT: a value is let out when it goes from absent to present.

Fed answers in the order of the watermark (every answer of a batch appears no earlier than all of the batches
before), it keeps for each present value the instant until which it is present, and lets an answer out when
there was at least an instant without its value before t. Values are found by hash and told apart by value.

    lifetime [3, 9) was let out, then come [5, 12), [12, 20), [25, 30) of the same value    out: [25, 30)

With a limit of memory a value that there is no space to remember is not let out either: it would be let out
again and again. It may appear later, with another answer, once others have gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numba
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.kernel.columns.hash_index import Longs
from watersmeet.kernel.columns.hashing import Hashes, combine_hashes, hash_column, same_values
from watersmeet.kernel.layout import ANSWER_END, ANSWER_TS
from watersmeet.kernel.state.chunks import HoldBuffer, PersistedChunk

ABSENT = -(2**63)
Mask = npt.NDArray[np.bool_]
_TABLE_BYTES = 16  # of a value, beside the value itself: its hash, and until when it is present


class DistinctValues:
    """The values of one bucket that are present, and until when."""

    def __init__(
        self, columns: tuple[str, ...], limit_bytes: int | None = None, section: str = "#present"
    ) -> None:
        self.limit_bytes = limit_bytes
        self.left_out = 0  # in the latest step: values that would have appeared, had there been space
        self.buffer = HoldBuffer(section, ANSWER_END)
        self._columns = columns
        self._now = ABSENT
        self._present: pa.RecordBatch | None = None
        self._hashes: Hashes = np.empty(0, np.uint64)
        self._until: Longs = np.empty(0, np.int64)

    @property
    def nbytes(self) -> int:
        present = self._present.nbytes if self._present is not None else 0
        return int(self.buffer.nbytes + present + _TABLE_BYTES * len(self._hashes))

    def step(self, answers: pa.RecordBatch) -> pa.RecordBatch:
        """The answers that let their value appear."""
        if not answers.num_rows:
            self.left_out = 0
            return answers
        ordered, _, appears = self._take(answers)
        return ordered.filter(pa.array(appears))

    def admit(self, answers: pa.RecordBatch) -> pa.RecordBatch:
        """The answers of which the value is remembered, whether or not it appears with them."""
        ordered, fits, _ = self._take(answers)
        return ordered.filter(pa.array(fits))

    def _take(self, answers: pa.RecordBatch) -> tuple[pa.RecordBatch, Mask, Mask]:
        """Remembers values: the answers in order, which values there is room for, and which appear."""
        self.left_out = 0
        ordered, groups, firsts = self._grouped(answers)
        t = np.asarray(ordered.column(ANSWER_TS))
        ends = np.asarray(ordered.column(ANSWER_END))
        values, hashes = ordered.take(pa.array(firsts)), self._hash(ordered)[firsts]
        before = self._until_of(self._find(values, hashes))
        covered = np.maximum(before[groups], running_max_before(ends, groups))
        until = np.maximum.reduceat(ends, firsts)
        longer, appears, fits = until > before, covered < t, np.ones(len(firsts), np.bool_)
        if self.limit_bytes is not None:
            fits = self._fits(values, before, t[firsts])
            self.left_out = int(np.count_nonzero(~fits & np.logical_or.reduceat(appears, firsts)))
            longer, appears = longer & fits, appears & fits[groups]
        self._remember(values.filter(pa.array(longer)), until[longer], int(t.max()))
        return ordered, fits[groups], appears

    def present(self, since: int) -> pa.RecordBatch | None:
        """The values that are present then or later, and until when; None if there are none."""
        if self._present is None or not (alive := self._until >= since).any():
            return None
        return self._present.filter(pa.array(alive))

    def persisted(self) -> list[PersistedChunk]:
        """The chunks a state store must hold."""
        return self.buffer.persisted()

    def snapshot(self) -> dict[str, int]:
        """The few numbers to persist beside them."""
        return {"now": self._now, "next_number": self.buffer.next_number}

    def keep_only(self, keep: Callable[[pa.RecordBatch], pa.RecordBatch]) -> None:
        """Forgets the values that `keep` leaves out; it must not look at anything else."""
        self.buffer.rewrite(keep)
        present, self._present = self._present, None
        if present is not None:
            self._merge(keep(present))

    @classmethod
    def restore(
        cls,
        columns: tuple[str, ...],
        snapshot: Mapping[str, int],
        chunks: Iterable[PersistedChunk],
        limit_bytes: int | None = None,
    ) -> DistinctValues:
        """The values that were present when these chunks were persisted."""
        return cls(columns, limit_bytes).restored(snapshot, chunks)

    def restored(self, snapshot: Mapping[str, int], chunks: Iterable[PersistedChunk]) -> DistinctValues:
        """The values of this kind that were present when these chunks were persisted."""
        values = type(self)(self._columns, self.limit_bytes, self.buffer.section)
        values._now = snapshot["now"]
        for chunk in sorted(chunks, key=lambda chunk: chunk.number):
            values.buffer.add(chunk.wide, chunk.number)
            values._merge(chunk.wide)
        values.buffer.next_number = snapshot["next_number"]
        return values

    def _hash(self, batch: pa.RecordBatch) -> Hashes:
        return combine_hashes([hash_column(batch.column(name)) for name in self._columns])

    def _same(self, left: pa.RecordBatch, right: pa.RecordBatch) -> npt.NDArray[np.bool_]:
        same = np.ones(left.num_rows, np.bool_)
        for name in self._columns:
            same &= same_values(left.column(name), right.column(name))
        return same

    def _grouped(self, answers: pa.RecordBatch) -> tuple[pa.RecordBatch, Longs, Longs]:
        """Answers ordered by value then t, each one's group number, and where each group starts."""
        hashes, t = self._hash(answers), np.asarray(answers.column(ANSWER_TS))
        order = np.lexsort((t, self._tie_breaks(answers, hashes), hashes))
        ordered = answers.take(pa.array(order))
        same = self._same(ordered.slice(1), ordered.slice(0, ordered.num_rows - 1))
        starts = np.concatenate(([True], ~same))
        return ordered, np.cumsum(starts) - 1, np.flatnonzero(starts)

    def _tie_breaks(self, answers: pa.RecordBatch, hashes: Hashes) -> Longs:
        """Tells apart different values of one hash, so that equal values stand together."""
        order = np.argsort(hashes, kind="stable")
        ordered, sorted_hashes = answers.take(pa.array(order)), hashes[order]
        numbers = np.zeros(len(hashes), np.int64)
        same = self._same(ordered.slice(1), ordered.slice(0, len(order) - 1))
        collisions = np.flatnonzero((sorted_hashes[1:] == sorted_hashes[:-1]) & ~same)
        for hash_ in np.unique(sorted_hashes[collisions]):
            members = np.flatnonzero(hashes == hash_)
            seen: list[int] = []
            for member in members:
                one = answers.slice(member, 1)
                known = [n for n, first in enumerate(seen) if self._same(one, answers.slice(first, 1))[0]]
                numbers[member] = known[0] if known else len(seen)
                if not known:
                    seen.append(int(member))
        return numbers

    def _until_of(self, entries: Longs) -> Longs:
        """Until when values were present before this step, by where they are remembered."""
        return np.append(self._until, ABSENT)[entries]

    def _find(self, values: pa.RecordBatch, hashes: Hashes) -> Longs:
        """Where each value is among those that are remembered; -1, past their end, for one that is not."""
        found = np.full(len(hashes), -1)
        if self._present is None or not len(self._hashes):
            return found
        entry = np.searchsorted(self._hashes, hashes)
        open_ = np.arange(len(hashes))
        while len(open_):
            inside = entry[open_] < len(self._hashes)
            open_ = open_[inside]
            open_ = open_[self._hashes[entry[open_]] == hashes[open_]]
            known = self._present.take(pa.array(entry[open_]))
            same = self._same(values.take(pa.array(open_)), known)
            found[open_[same]] = entry[open_[same]]  # the newest, where there are several
            entry[open_] += 1
        return found

    def _remember(self, values: pa.RecordBatch, until: Longs, now: int) -> None:
        self._now = max(self._now, now)  # later answers appear after now: a shorter presence has ended
        keep = values.select([*self._columns]).append_column(ANSWER_END, pa.array(until))
        self.buffer.add(keep)
        self._merge(keep)
        self.buffer.close_before(self._now)
        if self.limit_bytes is not None and self._present is not None and self.nbytes > self.limit_bytes:
            self.buffer.replace_all(self._present)  # without the shorter presences of the same values

    def _fits(self, values: pa.RecordBatch, before: Longs, t: Longs) -> npt.NDArray[np.bool_]:
        """Which values are remembered already, or can be; those that come first are taken first."""
        assert self.limit_bytes is not None
        fits: npt.NDArray[np.bool_] = before != ABSENT
        new = np.flatnonzero(~fits)
        present = self._present.nbytes if self._present is not None else 0
        taken = 2 * present + _TABLE_BYTES * len(self._hashes)
        each = 2 * values.nbytes / max(1, values.num_rows) + _TABLE_BYTES
        fitting = max(0, int((self.limit_bytes - taken) / each))
        fits[new[np.argsort(t[new], kind="stable")[:fitting]]] = True
        return fits

    def _merge(self, values: pa.RecordBatch) -> None:
        """Later entries of a value only lengthen its presence, so the newest counts."""
        present = values if self._present is None else pa.concat_batches([self._present, values])
        until = np.asarray(present.column(ANSWER_END))
        alive = until >= self._now
        hashes = self._hash(present)
        order = np.flatnonzero(alive)[np.argsort(hashes[alive], kind="stable")]
        ordered = present.take(pa.array(order))
        same = self._same(ordered.slice(1), ordered.slice(0, max(0, len(order) - 1)))
        order = order[np.concatenate((~same, [True]))[: len(order)]]  # the newest entry of each value
        self._present, self._hashes, self._until = present.take(pa.array(order)), hashes[order], until[order]


@numba.njit(cache=True)
def running_max_before(ends, groups):  # type: ignore[no-untyped-def]
    """For each row, the largest end among the earlier rows of its group."""
    running = np.full(len(ends), ABSENT)
    for row in range(1, len(ends)):
        if groups[row] == groups[row - 1]:
            running[row] = max(running[row - 1], ends[row - 1])
    return running

"""SELECT DISTINCT where an answer appears before it is known when it ends: under windows that count rows.

Fed answers as `AnswerStay` lets them out: first without an end, unless it is known, and once more when it has
ended. A value is present as long as one of its answers is open, and until the last of the others has ended.
So for each value that is present the open answers are counted, and the latest end is kept.

    [3, ..) was let out, then [5, ..) comes, both end at 9, then [9, ..) and [12, ..) come    out: [12, ..)
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from watersmeet.kernel.columns.hash_index import Longs
from watersmeet.kernel.layout import ANSWER_END, ANSWER_TS, ENDED
from watersmeet.kernel.output.distinct import ABSENT, DistinctValues, running_max_before
from watersmeet.query import BEGINNING, NEVER

OPEN = "__open"  # int64: how many answers of a value have no end yet
LATEST = "__latest"  # int64: the latest end of the others
_COMPACT_ROWS = 1024  # entries that may have been replaced, beside as many as there are values


class OpenValues(DistinctValues):
    """The values of one bucket that are present, and until when, as far as that is known."""

    def step(self, answers: pa.RecordBatch) -> pa.RecordBatch:
        """The answers that let their value appear."""
        if not answers.num_rows:
            return answers
        ordered, groups, firsts = self._grouped(answers)
        t, ends = (np.asarray(ordered.column(name)) for name in (ANSWER_TS, ANSWER_END))
        has_ended = np.asarray(ordered.column(ENDED))
        values = ordered.take(pa.array(firsts))
        entries = self._find(values, self._hash(values))
        left = self._known(OPEN, 0)[entries] - _counts(groups, has_ended, len(firsts))
        latest = np.maximum(self._known(LATEST, ABSENT)[entries], _latest(groups, ends, has_ended, firsts))
        before = np.where(left > 0, NEVER, latest)
        covered = np.maximum(before[groups], running_max_before(np.where(has_ended, ABSENT, ends), groups))
        has_end = ends != NEVER
        opened = left + _counts(groups, ~has_ended & ~has_end, len(firsts))
        latest = np.maximum(latest, _latest(groups, ends, ~has_ended & has_end, firsts))
        now = int(t[~has_ended].max(initial=BEGINNING))
        self._put(values, opened, latest, now)
        return ordered.filter(pa.array(~has_ended & (covered < t)))

    def _known(self, name: str, absent: int) -> Longs:
        """A column of the values that are remembered, and what it is for one that is not."""
        if self._present is None:
            return np.array([absent])
        return np.append(np.asarray(self._present.column(name)), absent)

    def _put(self, values: pa.RecordBatch, opened: Longs, latest: Longs, now: int) -> None:
        self._now = max(self._now, now)
        keep = values.select([*self._columns])
        until = np.where(opened > 0, NEVER, latest)
        for name, column in ((ANSWER_END, until), (OPEN, opened), (LATEST, latest)):
            keep = keep.append_column(name, pa.array(column))
        self.buffer.add(keep)
        self._merge(keep)
        # An entry must not outlive one that replaces it by a shorter presence: all stay for the time being.
        assert self._present is not None
        if self.buffer.rows > 2 * self._present.num_rows + _COMPACT_ROWS:
            self.buffer.replace_all(self._present)
        else:
            self.buffer.close_before(BEGINNING)

    def _merge(self, values: pa.RecordBatch) -> None:
        """The newest entry of each value counts, unless its presence has ended."""
        present = values if self._present is None else pa.concat_batches([self._present, values])
        hashes = self._hash(present)
        order = np.lexsort((self._tie_breaks(present, hashes), hashes))
        ordered = present.take(pa.array(order))
        same = self._same(ordered.slice(1), ordered.slice(0, max(0, len(order) - 1)))
        order = order[np.concatenate((~same, [True]))[: len(order)]]
        order = order[np.asarray(present.column(ANSWER_END))[order] >= self._now]
        self._present, self._hashes = present.take(pa.array(order)), hashes[order]
        self._until = np.asarray(self._present.column(ANSWER_END))


def _counts(groups: Longs, which: np.ndarray, count: int) -> Longs:
    """How many of these rows each group has."""
    return np.bincount(groups[which], minlength=count)


def _latest(groups: Longs, ends: Longs, which: np.ndarray, firsts: Longs) -> Longs:
    """The latest end of these rows of each group."""
    return np.maximum.reduceat(np.where(which, ends, ABSENT), firsts)

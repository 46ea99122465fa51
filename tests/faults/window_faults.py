"""Faults put into windows that count the rows of a value, and into answers that have no end yet."""

from __future__ import annotations

from tests.faults.fault import Fault

WINDOWS = ("tests/testing/test_partitioned_windows.py", "tests/kernel/join/test_partitioned_windows.py")
SAMPLES = ("tests/testing/test_emit_at_end.py",)

WINDOW_FAULTS = (
    Fault(
        "tuples of one instant are counted in the order in which they came",
        "kernel/state/latest_rows.py",
        "if alike.any():",
        "if not alike.any():",
        WINDOWS,
    ),
    Fault(
        "values whose hashes collide are one value",
        "kernel/columns/value_slots.py",
        "doubtful = doubtful[~same(rows[left[doubtful]], firsts[doubtful])]",
        "doubtful = doubtful[:0]",
        WINDOWS[1:],
    ),
    Fault(
        "a tuple that the filter drops does not end the one before it",
        "kernel/state/version_store.py",
        "decided = self._latest.enter(arrivals.rows, arrivals.ts, self.take, joins)",
        "arrivals, joins = arrivals.pick(joins), joins[joins]\n"
        "        decided = self._latest.enter(arrivals.rows, arrivals.ts, self.take, joins)",
        WINDOWS,
    ),
    Fault(
        "what has ended is kept for ever",
        "kernel/state/version_store.py",
        "if not rows or self._ended <=",
        "if rows or self._ended <=",
        WINDOWS,
    ),
    Fault(
        "tuples of a value are sent to several buckets",
        "query/query.py",
        "return name in item.window.partition and (",
        "return name not in item.window.partition or (",
        WINDOWS,
    ),
    Fault(
        "an answer is valid until its first tuple but one has ended",
        "kernel/output/held_answers.py",
        "ends = np.minimum(ends, ends_of(",
        "ends = np.maximum(ends, ends_of(",
        WINDOWS,
    ),
    Fault(
        "the last instant of a window is left out of its end",
        "kernel/output/held_answers.py",
        "until = np.minimum(until, latest) + self._before_us",
        "until = np.minimum(until, latest)",
        SAMPLES,
    ),
)

"""Tuples wait in the numbering stage for the watermark, with all that answers need of them."""

from __future__ import annotations

from watersmeet.spark.tuning import Tuning
from watersmeet.testing import declare, run_query

NOTES = declare("s1", "k BIGINT, note STRING, ts TIMESTAMP", event_time="ts")
VALUES = declare("s2", "k BIGINT, v BIGINT, ts TIMESTAMP", event_time="ts")


def test_wide_text_of_files_does_not_come_late_to_a_join_that_waits() -> None:
    """A file may be gone by the time the watermark lets its tuples through."""
    batches = [
        {"s1": [(1, "x" * 30, "12:00:00"), (2, "y" * 30, "12:00:01")], "s2": [(1, 5, "12:00:00")]},
        {"s1": [(1, "z" * 30, "12:00:03")], "s2": [(1, 6, "12:00:02"), (2, 7, "12:00:04")]},
    ]
    result = run_query(
        "SELECT a.note, b.v FROM s1 [RANGE 10 SECONDS] AS a, s2 [ROWS 2] AS b WHERE a.k = b.k",
        batches,
        streams=[NOTES, VALUES],
        flush=True,
        direct_files=True,
        tuning=Tuning(late_rows=1, late_bytes=1),
    )
    assert len(result.rows) == 5
    assert result.matches_oracle()

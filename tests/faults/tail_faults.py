"""Faults in what comes after a join: answers that wait, ticks, and distinct values."""

from __future__ import annotations

from tests.faults.fault import Fault

TAILS = ("tests/testing/test_tails.py",)
HELD_TAILS = "kernel/multiquery/held_tails.py"

TAIL_FAULTS = (
    Fault(
        "a query's answers go with the furthest of its streams",
        HELD_TAILS,
        "return min(bounds.get(stream, BEGINNING) for stream in template.streams)",
        "return max(bounds.get(stream, BEGINNING) for stream in template.streams)",
        TAILS,
    ),
    Fault(
        "a value of one query hides that of another",
        HELD_TAILS,
        "columns = (QUERY, *(column for column, _ in template.outputs or ()))",
        "columns = tuple(column for column, _ in template.outputs or ())",
        TAILS,
    ),
    Fault(
        "answers that wait are forgotten with the worker",
        HELD_TAILS,
        "if chunk.section == held.buffer.section:",
        "if chunk.section == held.buffer.section and chunk.number < 0:",
        TAILS,
    ),
    Fault(
        "values that are present are forgotten when the queries change",
        HELD_TAILS,
        "changed._values[name] = values",
        "changed._values = dict(changed._values)",
        TAILS,
    ),
    Fault(
        "values stay in the bucket of their join",
        "spark/multiquery/stage.py",
        "for bucket, part in route_values(batch, len(labels)):",
        "for bucket, part in [(labels.index(self.label), batch)]:",
        TAILS,
    ),
    Fault(
        "an answer that has ended keeps its value present",
        "kernel/output/open_values.py",
        "- _counts(groups, has_ended, len(firsts))",
        "- 0 * _counts(groups, has_ended, len(firsts))",
        TAILS,
    ),
    Fault(
        "a value is gone with the first of its answers",
        "kernel/output/open_values.py",
        "before = np.where(left > 0, NEVER, latest)",
        "before = latest",
        TAILS,
    ),
    Fault(
        "an answer ends one step too late for its value",
        "kernel/output/held_answers.py",
        "is_known = ends < self.watermark",
        "is_known = ends < since",
        TAILS,
    ),
)

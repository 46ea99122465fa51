"""`EMIT AT END`: one final row for each tumbling window and group."""

from __future__ import annotations

from dataclasses import replace

from tests.strategies import answered_at_end
from tests.testing.random_cases import RandomCase, draw_case
from tests.testing.test_random_cases import check_case
from watersmeet.testing import declare, run_query

CASES = 8

COLUMNS = "host STRING, size BIGINT, ts TIMESTAMP"
STREAMS = [declare(name, COLUMNS, event_time="ts", lateness="2 seconds") for name in ("a", "b")]
SELECT = (
    "SELECT a.host, count(*) AS n, sum(a.size) AS total, answer_time AS ended "
    "FROM a [TUMBLE 10 SECONDS], b [TUMBLE 10 SECONDS] WHERE a.host = b.host GROUP BY a.host EMIT AT END"
)


def test_a_window_answers_once_when_the_watermark_has_passed_it() -> None:
    batches = [
        {"a": [("x", 1, "12:00:00"), ("x", 2, "12:00:09")], "b": [("x", 0, "12:00:05")]},
        {"a": [("y", 3, "12:00:11")], "b": [("y", 0, "12:00:11")]},  # the watermark is at 12:00:09
        {"a": [("x", 4, "12:00:09.5"), ("y", 5, "12:00:12")], "b": [("y", 0, "12:00:12")]},  # at 12:00:10
        {"a": [("z", 0, "12:00:30")], "b": [("z", 0, "12:00:30")]},
    ]
    result = run_query(SELECT, batches, streams=STREAMS)
    rows = [(*row[:3], f"{row[3]:%H:%M:%S}") for row in result.answers]
    assert rows == [("x", 3, 7, "12:00:10"), ("y", 4, 16, "12:00:20")]
    assert result.matches_oracle()


def drawn(seed: int) -> RandomCase:
    case = draw_case(seed, variant="aggregate")
    return replace(case, queries={"": answered_at_end(case.query, 15)})


def test_answers_are_the_oracles(long_mode: bool) -> None:
    outcomes = [check_case(drawn(seed)) for seed in range(CASES * (20 if long_mode else 1))]
    answered = sum(any(outcome.expected.values()) for outcome in outcomes)
    assert answered >= 0.7 * len(outcomes)

"""Windows from conditions on event times: how long they are, and when there are none."""

from __future__ import annotations

import pytest

from watersmeet.query import UNBOUNDED, RangeWindow, Stream
from watersmeet.sql import bind_query
from watersmeet.testing import declare

S, MIN = 1_000_000, 60_000_000
DAY = 1440 * MIN
STREAMS = [declare(name, "k BIGINT, v BIGINT, ts TIMESTAMP", event_time="ts") for name in "abc"]
LOCAL = [declare(name, "k BIGINT, v BIGINT, ts TIMESTAMP_NTZ", event_time="ts") for name in "ab"]


def derived(condition: str, inputs: str = "a, b", streams: list[Stream] = STREAMS) -> dict[str, int]:
    """The lengths of derived windows, by input."""
    joins = " AND a.k = c.k" if "c" in inputs else ""
    query = bind_query(f"SELECT a.v FROM {inputs} WHERE a.k = b.k{joins} AND {condition}", streams)
    return {
        item.alias: item.window.size
        for item in query.inputs
        if item.is_derived and isinstance(item.window, RangeWindow)
    }


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("b.ts BETWEEN a.ts AND a.ts + INTERVAL 5 MINUTES", {"a": 5 * MIN, "b": 1}),
        ("a.ts + INTERVAL '5' MINUTE >= b.ts AND a.ts <= b.ts", {"a": 5 * MIN, "b": 1}),
        ("b.ts < INTERVAL 5 MINUTES + a.ts AND b.ts > a.ts", {"a": 5 * MIN, "b": 1}),
        ("b.ts - INTERVAL 5 MINUTES <= a.ts - INTERVAL 2 MINUTES AND b.ts >= a.ts", {"a": 3 * MIN, "b": 1}),
        ("b.ts BETWEEN a.ts - INTERVAL '1 minute 30 seconds' AND a.ts + 2 * INTERVAL 5 SECONDS",
         {"a": 10 * S, "b": 90 * S}),
        ("a.ts = b.ts", {"a": 1, "b": 1}),
        ("(a.v, a.ts) = (b.v, b.ts)", {"a": 1, "b": 1}),
        ("b.ts <= a.ts + INTERVAL 5 MINUTES", {"a": 5 * MIN}),
        ("answer_time <= a.ts + INTERVAL 5 MINUTES", {"a": 5 * MIN}),
        ("a.ts < b.ts AND b.ts < a.ts", {"a": 1, "b": 1}),  # no answers at all
        # Where Spark counts on a calendar a day is added: some have 25 hours, and dates have been left out.
        ("b.ts BETWEEN a.ts AND a.ts + INTERVAL 2 DAYS", {"a": 3 * DAY, "b": 1}),
        ("b.ts BETWEEN a.ts AND a.ts + INTERVAL 1 MONTH", {"a": 32 * DAY, "b": 1}),
        ("b.ts - a.ts <= INTERVAL 5 MINUTES AND b.ts >= a.ts", {"a": DAY + 5 * MIN, "b": 1}),
    ],
)  # fmt: skip
def test_a_window_is_as_long_as_the_conditions_need(condition: str, expected: dict[str, int]) -> None:
    assert derived(condition) == expected


@pytest.mark.parametrize(
    "condition",
    [
        "(b.ts <= a.ts + INTERVAL 5 MINUTES OR a.v = 1)",
        "NOT (b.ts > a.ts + INTERVAL 5 MINUTES)",
        "b.ts <= a.ts + a.v * INTERVAL 1 MINUTE",
        "unix_micros(b.ts) <= unix_micros(a.ts) + 5",
        "coalesce(b.ts, a.ts) <= a.ts + INTERVAL 5 MINUTES",
        "a.v < b.v",
    ],
)
def test_a_condition_that_is_not_understood_derives_nothing(condition: str) -> None:
    assert derived(condition) == {}


def test_days_of_local_times_are_exact() -> None:
    assert derived("b.ts BETWEEN a.ts AND a.ts + INTERVAL 2 DAYS", streams=LOCAL) == {"a": 2 * DAY, "b": 1}


def test_a_local_time_beside_an_instant_derives_nothing() -> None:
    assert derived("b.ts BETWEEN a.ts AND a.ts + INTERVAL 5 MINUTES", streams=[LOCAL[0], STREAMS[1]]) == {}


def test_conditions_add_up_over_several_streams() -> None:
    chain = (
        "b.ts BETWEEN a.ts - INTERVAL 2 MINUTES AND a.ts + INTERVAL 5 MINUTES AND "
        "c.ts BETWEEN b.ts - INTERVAL 1 MINUTE AND b.ts + INTERVAL 3 MINUTES"
    )
    assert derived(chain, "a, b, c") == {"a": 8 * MIN, "b": 3 * MIN, "c": 3 * MIN}


def test_written_windows_bound_the_others_and_stay() -> None:
    condition = "b.ts <= a.ts + INTERVAL 5 MINUTES"
    assert derived(condition, "a, b [RANGE 1 HOUR]") == {"a": 5 * MIN}
    later = f"{condition} AND c.ts >= b.ts"
    assert derived(later, "a, b [RANGE 1 HOUR], c") == {"a": 65 * MIN, "c": 60 * MIN}
    assert derived(later, "a, b [TUMBLE 1 HOUR], c") == {"a": 65 * MIN - 1, "c": 60 * MIN - 1}
    assert derived(later, "a, b [ROWS 9], c") == {}


@pytest.mark.parametrize(
    "query",
    [
        "SELECT a.v FROM a [UNBOUNDED], b [UNBOUNDED] WHERE a.k = b.k AND a.ts = b.ts",
        "SELECT DISTINCT a.v FROM a, b WHERE a.k = b.k AND a.ts = b.ts",
        "SELECT count(*) AS n FROM a, b [RANGE 1 HOUR] WHERE a.k = b.k AND a.ts = b.ts GROUP BY a.k",
    ],
)
def test_what_is_written_and_what_depends_on_lifetimes_is_left_alone(query: str) -> None:
    bound = bind_query(query, STREAMS)
    assert bound.as_written() == bound
    assert bound.inputs[0].window == UNBOUNDED

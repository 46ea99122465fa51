"""Event times that are computed: numbers of some unit, texts of some format, fields inside a column."""

from __future__ import annotations

import pytest

from watersmeet.query import Column
from watersmeet.query.declared.event_time import ComputedTime, EventTimeError, find_event_time

COLUMNS = (
    Column("at", "timestamp"),
    Column("n", "bigint"),
    Column("price", "decimal(10,2)"),
    Column("text", "string"),
    Column("meta", "struct<ts:bigint,`the time`:timestamp,inner:struct<at:timestamp_ntz>>"),
    Column("a.b", "timestamp"),
)


@pytest.mark.parametrize(
    ("written", "unit", "format_", "found"),
    [
        ("AT", None, None, "at"),
        ("a.b", None, None, "a.b"),
        ("n", "Seconds", None, ComputedTime(("n",), "bigint", unit="seconds")),
        ("price", "milliseconds", None, ComputedTime(("price",), "decimal", unit="milliseconds")),
        ("text", None, "yyyy", ComputedTime(("text",), "string", format="yyyy")),
        ("Meta.TS", "nanoseconds", None, ComputedTime(("meta", "ts"), "bigint", unit="nanoseconds")),
        ("meta.`the time`", None, None, ComputedTime(("meta", "the time"), "timestamp")),
        ("meta.inner.at", None, None, ComputedTime(("meta", "inner", "at"), "timestamp_ntz")),
    ],
)
def test_what_is_declared_is_found(
    written: str, unit: str | None, format_: str | None, found: str | ComputedTime
) -> None:
    assert find_event_time(COLUMNS, written, unit, format_) == found


@pytest.mark.parametrize(
    ("written", "unit", "format_", "problem", "advice"),
    [
        ("n", None, None, "event_time n is bigint", "event_time_unit = 'seconds'"),
        ("text", None, None, "event_time text is string", "event_time_format = "),
        ("text", "seconds", None, "event_time text is string", "event_time_format = "),
        ("meta", None, None, "which is no time", "Name a field inside it"),
        ("meta.tz", None, None, "no field of meta: 'tz'", "Its fields are ts, the time, inner"),
        ("n.x", None, None, "no field of n: 'x'", "It has no fields"),
        ("n", "hours", None, "'hours' is not a unit", "seconds, milliseconds"),
        ("at", "seconds", None, "needs no unit", "BIGINT"),
        ("n", "seconds", "yyyy", "not both", "Leave one"),
    ],
)
def test_what_is_no_time_is_refused_with_what_to_write(
    written: str, unit: str | None, format_: str | None, problem: str, advice: str
) -> None:
    with pytest.raises(EventTimeError) as refusal:
        find_event_time(COLUMNS, written, unit, format_)
    assert problem in refusal.value.problem
    assert advice in refusal.value.advice

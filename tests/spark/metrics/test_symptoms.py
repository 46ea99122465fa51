"""Warnings about queries of which nothing comes out: with the likely cause, and none too early."""

from __future__ import annotations

from typing import Any

from watersmeet.query import Query
from watersmeet.spark.metrics.progress import InputProgress, Progress
from watersmeet.spark.metrics.symptoms import ENOUGH, Symptoms
from watersmeet.sql import bind_query
from watersmeet.testing import declare
from watersmeet.testing.run import Stream

S = 1_000_000
DAY = 86_400 * S
STREAMS = [declare(name, "k BIGINT, v BIGINT, ts TIMESTAMP", event_time="ts") for name in ("s1", "s2")]
ARRIVING = Stream("now", STREAMS[0].columns)


def query(sql: str = "a.k = b.k", of: str = "s2") -> Query:
    text = f"SELECT a.v FROM s1 [RANGE 1 MINUTE] AS a, {of} [RANGE 1 MINUTE] AS b WHERE {sql}"
    return bind_query(text, [*STREAMS, ARRIVING])


def batch(answers: int = 0, number: int = 0, **inputs: dict[str, Any]) -> Progress:
    """A batch as it is reported, of inputs that brought rows."""
    return Progress(
        batch_id=number,
        timestamp="",
        batch_ms=1,
        answers=answers,
        inputs=tuple(
            InputProgress(
                **{
                    "alias": alias,
                    "rows": 0,
                    "rows_per_s": 0.0,
                    "late": 0,
                    "null_times": 0,
                    "max_ts_us": None,
                    "ahead_us": None,
                    **facts,
                }
            )
            for alias, facts in inputs.items()
        ),
    )


def rows(many: int, **facts: Any) -> dict[str, Any]:
    return {"rows": many, "read": many, "passed": many, **facts}


def lacking(many: int, key: int = 0) -> dict[str, Any]:
    return {"read": many, "passed": many, "keyless": many, "null_keys": ((key, many),)}


def test_a_join_column_that_is_null_in_every_row_is_named_once() -> None:
    symptoms = Symptoms(query("a.k = b.k AND a.v = b.v"))
    assert symptoms.observe(batch(a=lacking(60, key=1), b=rows(60))) == []
    (said,) = symptoms.observe(batch(a=lacking(60, key=1), b=rows(60)))
    assert said.startswith("no tuple of a can join: a.v is NULL in all 120 of them")
    assert symptoms.observe(batch(a=lacking(60, key=1))) == []


def test_one_value_among_many_rows_is_enough_to_say_nothing() -> None:
    symptoms = Symptoms(query())
    one = {**lacking(99), "rows": 1, "read": 100, "passed": 100}
    assert symptoms.observe(batch(a=one, b=lacking(ENOUGH - 1))) == []
    assert symptoms.observe(batch(a=lacking(5000))) == []


def test_rows_that_no_filter_keeps_lack_nothing() -> None:
    symptoms = Symptoms(query("a.k = b.k AND a.v > 3"))
    assert symptoms.observe(batch(a={"read": 5000, "passed": 0}, b=rows(5000))) == []


def test_an_event_time_that_is_null_in_every_row_is_named() -> None:
    symptoms = Symptoms(query())
    (said,) = symptoms.observe(batch(a={"read": 2400, "passed": 2400, "null_times": 2400}, b=rows(10)))
    assert said.startswith(
        "all 2400 rows of a are left out, since none has an event time: ts is NULL in each"
    )


def test_an_event_time_is_missed_too_where_read_rows_are_not_counted() -> None:
    """As in a pipeline of several stages."""
    (said,) = Symptoms(query()).observe(batch(a={"null_times": 200}, b={"rows": 200}))
    assert "ts is NULL in each" in said
    assert Symptoms(query()).observe(batch(a={"null_times": 200, "rows": 1}, b={"rows": 200})) == []


def test_arrival_stamps_do_not_meet_the_event_times_of_last_year() -> None:
    symptoms = Symptoms(query(of="now"))
    old, now = {"max_ts_us": 100 * DAY}, {"max_ts_us": 465 * DAY}
    assert symptoms.observe(batch(a=rows(ENOUGH - 1, **old), b=rows(5, **now))) == []
    (said,) = symptoms.observe(batch(a=rows(1, **old), b=rows(0, **now)))
    assert said.startswith("a never meets a stream that is stamped on arrival")
    assert said.endswith("Give now an event_time")


def test_a_stream_that_is_silent_for_a_day_is_not_taken_for_one_of_last_year() -> None:
    """It was close behind when it brought its rows; what arrives since makes no difference."""
    symptoms = Symptoms(query(of="now"))
    assert symptoms.observe(batch(a=rows(500, max_ts_us=DAY - 5 * S), b=rows(5, max_ts_us=DAY))) == []
    later = batch(a=rows(0, max_ts_us=DAY - 5 * S), b=rows(900, max_ts_us=2 * DAY))
    assert symptoms.observe(later) == []
    assert symptoms.observe(batch(a=rows(500, max_ts_us=DAY + 5 * S), b=rows(0, max_ts_us=2 * DAY))) == []


def test_a_query_that_has_answers_is_let_be() -> None:
    symptoms = Symptoms(query(of="now"))
    old = batch(1, a=rows(500, max_ts_us=0), b=rows(500, max_ts_us=DAY))
    assert symptoms.observe(old) == []
    assert symptoms.conclude() == []


def test_when_the_input_has_ended_a_query_without_answers_says_where_its_rows_went() -> None:
    symptoms = Symptoms(query("a.k = b.k AND a.v > 3"))
    filtered = {"rows": 10, "read": 40, "passed": 12, "keyless": 2, "null_keys": ((0, 2),), "late": 4}
    symptoms.observe(batch(a=filtered, b=rows(7)))
    assert symptoms.conclude() == [
        "there is no answer. a: 40 rows, of these 28 that no condition keeps, 2 with a NULL in the join, "
        "4 late; b: 7 rows; no values were equal within 1 min"
    ]


def test_answers_that_wait_for_the_watermark_are_not_missed() -> None:
    sql = "SELECT DISTINCT a.v FROM s1 [RANGE 1 MINUTE] AS a, s2 [RANGE 1 MINUTE] AS b WHERE a.k = b.k"
    symptoms = Symptoms(bind_query(sql, STREAMS))
    symptoms.observe(batch(a=rows(7), b=rows(7)))
    (said,) = symptoms.conclude()
    assert said.endswith("answers wait for the watermark to pass them: more input lets them out, or --flush")
    (said,) = symptoms.conclude(flushed=True)
    assert said.endswith("no values were equal within 1 min")


def test_a_later_run_that_brings_nothing_is_let_be() -> None:
    symptoms = Symptoms(query())
    assert symptoms.observe(batch(number=4, a=lacking(1), b=rows(7))) == []
    assert symptoms.conclude() == []


def test_at_the_end_a_single_row_is_evidence() -> None:
    symptoms = Symptoms(query())
    assert symptoms.observe(batch(a=lacking(1), b=rows(7))) == []
    first, account = symptoms.conclude()
    assert "a.k is NULL in all 1 of them" in first
    assert account.startswith("there is no answer. a: 1 rows")


def test_a_run_without_any_row_has_nothing_to_say() -> None:
    symptoms = Symptoms(query())
    symptoms.observe(batch(a=rows(0), b=rows(0)))
    assert symptoms.conclude() == []

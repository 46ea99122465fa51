"""The memory of a query's state: from statistics, from a run, and how much of it gives which completeness."""

from __future__ import annotations

from typing import Any

import pytest

from watersmeet.errors import ConfigurationError
from watersmeet.plan.sizing.state_size import (
    FILLED,
    SPARE,
    InputLoad,
    StateReport,
    analysed_loads,
    completeness_within,
    limit_for,
    live_loads,
)
from watersmeet.plan.statistics.statistics import Statistics, StreamStatistics
from watersmeet.query import Column, Query, Stream
from watersmeet.sql import bind_query

COLUMNS = (Column("k", "bigint"), Column("v", "bigint"), Column("ts", "timestamp"))


def query(windows: tuple[str, ...] = ("[RANGE 10 SECONDS]", "[RANGE 10 SECONDS]")) -> Query:
    streams = [Stream(f"s{n}", COLUMNS, "ts") for n in range(len(windows))]
    froms = ", ".join(f"s{n} {window}" for n, window in enumerate(windows))
    where = " AND ".join(f"s0.k = s{n}.k" for n in range(1, len(windows)))
    return bind_query(f"SELECT s0.v FROM {froms} WHERE {where}", streams)


def load(alias: str, tuples: float, *, window_s: float = 10, nbytes: float = 100) -> InputLoad:
    return InputLoad(
        alias=alias,
        rate_per_s=tuples / window_s,
        window_tuples=tuples,
        payload_bytes=nbytes / 2,
        index_bytes=nbytes / 2,
    )


def test_the_last_tuple_of_an_answer_need_not_be_kept() -> None:
    """A third of both windows kept: with two streams a third of the answers, with three a ninth."""
    two = [load("a", 300), load("b", 300)]
    three = [*two, load("c", 300)]
    assert completeness_within(two, 2 * 100 * 100 / FILLED) == pytest.approx(1 / 3)
    assert completeness_within(three, 3 * 100 * 100 / FILLED) == pytest.approx(1 / 9)


def test_memory_that_one_input_does_not_need_goes_to_the_others() -> None:
    small = [load("a", 100), load("b", 1000)]
    assert completeness_within(small, 60_000 / FILLED) == pytest.approx((1 + 0.5) / 2)


def test_the_head_is_more_often_of_the_input_with_the_shorter_window() -> None:
    """a: 10 s, b: 30 s. Three of four answers are completed by a, and need b, of which half is kept."""
    loads = [load("a", 100, window_s=10), load("b", 3000, window_s=30)]
    assert completeness_within(loads, (100 + 1500) * 100 / FILLED) == pytest.approx(0.75 * 0.5 + 0.25)


@pytest.mark.parametrize("target", [0.1, 0.5, 0.9, 1.0])
def test_the_limit_for_a_completeness_gives_it_and_little_less_does_not(target: float) -> None:
    loads = [load("a", 500), load("b", 2000), load("c", 1000, window_s=60)]
    limit = limit_for(loads, target)
    assert completeness_within(loads, limit) >= target
    assert completeness_within(loads, 0.99 * limit) < target
    assert limit <= sum(one.state_bytes for one in loads) / SPARE * 1.0001


def test_loads_come_from_analysed_statistics() -> None:
    known = Statistics({"s0": StreamStatistics(500, 40), "s1": StreamStatistics(50, 80)})
    first, second = analysed_loads(query(), known, {"s1": 2})
    assert (first.rate_per_s, first.window_tuples, first.payload_bytes) == (500, 5000, 40)
    assert (second.window_tuples, second.copies) == (500, 2)
    assert second.state_bytes == 2 * 500 * (80 + second.index_bytes)


def report(**changes: Any) -> dict[str, Any]:
    """What a run tells, as far as it is read."""
    inputs = [
        {"alias": "s0", "kept": 1000, "kept_bytes": 32_000, "event_rows_per_s": 200.0},
        {"alias": "s1", "kept": 500, "kept_bytes": 8_000, "event_rows_per_s": 100.0},
    ]
    return {"inputs": inputs, "memory_bytes": 115_000, **changes}


def test_loads_come_from_what_a_run_tells() -> None:
    first, second = live_loads(query(), report(), {})
    assert (first.rate_per_s, first.window_tuples, first.payload_bytes) == (200, 2000, 32)
    assert first.index_bytes == second.index_bytes == 50
    assert second.state_bytes == 1000 * (16 + 50)


@pytest.mark.parametrize(
    ("progress", "message"),
    [
        (report(inputs=[]), "progress of another query: it does not report s0"),
        (report(inputs=[{**one, "kept": 0} for one in report()["inputs"]]), "held no tuples"),
        (
            report(inputs=[{**one, "event_rows_per_s": None} for one in report()["inputs"]]),
            "second batch on",
        ),
    ],
)
def test_a_run_that_tells_too_little_is_refused(progress: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        live_loads(query(), progress, {})


def test_an_unbounded_window_has_no_size() -> None:
    with pytest.raises(ConfigurationError, match="s1: an unbounded window never fits"):
        analysed_loads(query(("[RANGE 1 SECOND]", "")), Statistics(), {})


def test_the_report_names_the_limit_to_give() -> None:
    report = StateReport((load("a", 1000), load("b", 1000)), 1.0, 4, "its statistics")
    assert report.pretty().startswith("--state-limit 210.5kB for a completeness of 1, by its statistics")
    document = report.to_json()
    assert document["state_limit_bytes"] == pytest.approx(200_000 / SPARE, abs=1)
    assert [row["completeness"] for row in document["table"]][-1] == 1.0

"""What a changed query finds in the state of the one before it, and what it is told to be missing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from watersmeet.errors import ConfigurationError
from watersmeet.plan.physical import PhysicalPlan, plan_physical
from watersmeet.plan.predecessor import Predecessor
from watersmeet.plan.take_over import KeptState, Progress, TakeOver, take_over
from watersmeet.query import NEVER
from watersmeet.sql import bind_query
from watersmeet.testing import declare

STREAMS = [
    declare("s1", "k BIGINT, v BIGINT, note STRING, ts TIMESTAMP", event_time="ts"),
    declare("s2", "k BIGINT, v BIGINT, note STRING, ts TIMESTAMP", event_time="ts"),
]
OLD = (
    "SELECT a.v, b.v AS bv FROM s1 [RANGE 10 SECONDS] AS a, s2 [RANGE 10 SECONDS] AS b "
    "WHERE a.k = b.k AND b.v > 3"
)
AT_60_S = Progress(60_000_000, {"s1": 62_000_000, "s2": 65_000_000})


def plan(select: str) -> PhysicalPlan:
    return plan_physical(bind_query(select, STREAMS), 3)


def changed(new: str, old: str = OLD) -> TakeOver:
    return take_over(KeptState.of(plan(old)), plan(new), None)


def gaps(found: TakeOver) -> list[tuple[str, int]]:
    return [(gap.alias, gap.until_us) for gap in found.gaps(AT_60_S)]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("a.v, b.v AS bv", "b.v + 1 AS more, a.v"),
        ("a.v, b.v AS bv", "b.k, a.k AS other"),  # keys are kept, whether they are selected or not
        ("a.k = b.k AND", "a.k = b.k AND a.v < b.v AND"),
        ("a.k = b.k AND b.v > 3", "b.v > 3 AND a.k = b.k"),
    ],
)
def test_what_needs_nothing_but_kept_columns_needs_no_request(old: str, new: str) -> None:
    found = changed(OLD.replace(old, new))
    assert found.on_request == ()
    assert found.missing == ()
    assert found.plan.query == plan(OLD.replace(old, new)).query


def test_a_stricter_filter_is_checked_once_more_on_answers() -> None:
    found = changed(OLD.replace("b.v > 3", "b.v > 5"))
    assert found.on_request == ("the filters of b",)
    assert [expr.sql for expr in found.plan.query.residual] == ["b.v > 5"]
    assert gaps(found) == []


def test_a_looser_filter_lacks_what_the_old_one_dropped_until_it_would_have_left() -> None:
    found = changed(OLD.replace("b.v > 3", "b.v >= 3"))
    assert found.plan.query.residual == ()  # what was kept passes the new filter
    assert gaps(found) == [("b", 75_000_001)]


def test_a_filter_that_was_dropped_lacks_tuples_after_the_next_change_as_well() -> None:
    none, strict = OLD.replace(" AND b.v > 3", ""), OLD
    first = take_over(KeptState.of(plan(none)), plan(strict), None)
    assert gaps(first) == []
    kept = first.state(AT_60_S)
    again = take_over(kept, plan(OLD.replace("b.v > 3", "b.v > 1")), first.plan.predecessor)
    assert gaps(again) == [("b", 75_000_001)]
    # Tuples from before the first change have passed no filter.
    assert [expr.sql for expr in again.plan.query.residual] == ["b.v > 1"]


@pytest.mark.parametrize(
    ("window", "missing"),
    [
        ("RANGE 5 SECONDS", []),
        ("RANGE 20 SECONDS", [("b", 70_000_000)]),  # the last forgotten tuple is 1 us before 50 s
        ("TUMBLE 15 SECONDS", []),
        ("TUMBLE 40 SECONDS", [("b", 80_000_000)]),
        ("UNBOUNDED", [("b", NEVER)]),
    ],
)
def test_a_longer_window_lacks_what_the_shorter_one_has_let_go(
    window: str, missing: list[tuple[str, int]]
) -> None:
    found = changed(OLD.replace("s2 [RANGE 10 SECONDS]", f"s2 [{window}]"))
    assert found.on_request == ("the window of b",)
    assert gaps(found) == missing
    assert found.gaps(Progress()) == ()  # no watermark yet: nothing has been let go


def test_what_is_missing_stays_missing_when_a_window_grows_later() -> None:
    looser = OLD.replace("b.v > 3", "b.v > 0")
    first = changed(looser)
    kept = first.state(AT_60_S)
    same = take_over(kept, plan(looser.replace("a.v, b.v AS bv", "a.v")), first.plan.predecessor)
    assert gaps(same) == []  # nothing beyond what has been said
    longer = looser.replace("s2 [RANGE 10 SECONDS]", "s2 [RANGE 30 SECONDS]")
    assert gaps(take_over(kept, plan(longer), first.plan.predecessor)) == [
        ("b", 80_000_000),
        ("b", 95_000_001),
    ]


@pytest.mark.parametrize("new", [OLD.replace("b.v AS bv", "b.note"), f"{OLD} AND b.note LIKE 'x%'"])
def test_what_needs_a_column_that_was_not_kept_forgets_the_tuples(new: str) -> None:
    found = changed(new)
    assert "was not kept" in " ".join(found.on_request)
    assert gaps(found) == [("b", 75_000_001)]
    written = plan(OLD).fingerprint
    assert found.plan.predecessor == Predecessor(written, ((written, frozenset({"b"})),))


def test_the_last_state_of_a_bucket_may_be_of_any_query_before() -> None:
    first = changed(OLD.replace("b.v AS bv", "b.note"))
    again = take_over(first.state(AT_60_S), plan(OLD.replace("b.v AS bv", "a.note")), first.plan.predecessor)
    before = again.plan.predecessor
    assert before is not None
    assert before.forgets(first.plan.fingerprint) == {"a"}
    assert before.forgets(plan(OLD).fingerprint) == {"a", "b"}
    assert before.forgets("another") is None


def test_what_is_kept_is_read_back_as_it_was_written() -> None:
    kept = replace(changed(OLD.replace("b.v > 3", "b.v > 5")).state(AT_60_S), lacks={"b": 7})
    assert KeptState.from_json(kept.to_json()) == kept
    assert kept.facts["", "conditions over several inputs"] == "none"


@pytest.mark.parametrize(
    ("new", "why"),
    [
        (OLD.replace("SELECT", "SELECT DISTINCT"), "SELECT DISTINCT or GROUP BY"),
        (OLD.replace("s1 [RANGE 10 SECONDS]", "s1 [ROWS 3]"), "windows that count rows"),
        (OLD.replace("a.k = b.k", "a.v = b.k"), "a change of joins"),
        (OLD.replace("s1 [", "s2 ["), "a change of stream of a"),
        (
            OLD.replace(
                "AS a, s2 [RANGE 10 SECONDS] AS b WHERE", "AS a LEFT JOIN s2 [RANGE 10 SECONDS] AS b ON"
            ),
            "outer",
        ),
    ],
)
def test_what_no_state_can_serve_is_refused_with_the_reason(new: str, why: str) -> None:
    with pytest.raises(
        ConfigurationError, match=rf"(?s)different query.*cannot go on with this state: .*{why}"
    ):
        changed(new)

"""A kind of window is a class, and a line of the oracle: kernel and planner take kinds they never saw."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings

from tests.kernel.answered import answers_in
from tests.kernel.feeding import SMALL, feed, output_rows
from tests.strategies import cases
from watersmeet.errors import QueryError
from watersmeet.kernel import Bucket, JoinBucket, NumberingBucket, Shed, StateLimit, plan_bucket
from watersmeet.oracle import lifetimes, oracle
from watersmeet.oracle.oracle import MicroBatch, Tuple
from watersmeet.plan.explain import explain_plan
from watersmeet.plan.physical import plan_physical
from watersmeet.query import Column, Query, RangeWindow, Stream, Window
from watersmeet.query.window import Position, RowWindow, TimeWindow
from watersmeet.sql import bind_query

Case = tuple[Query, list[MicroBatch]]
Examples = Callable[[int], settings]


@dataclass(frozen=True)
class TwiceWindow(TimeWindow):
    """What is less than twice its size old."""

    name = "TWICE"

    @property
    def duration_us(self) -> int:
        return 2 * self.size

    def end_us(self, ts: Position) -> Position:
        return ts + 2 * self.size

    def first_inside(self, now: Position) -> Position:
        return now - 2 * self.size + 1

    def expected_tuples(self, rate_per_s: float) -> float:
        return rate_per_s * 2 * self.size / 1e6

    def describe_retention(self) -> str:
        return f"for twice {self.size} us"


@dataclass(frozen=True)
class TwoGroupsWindow(RowWindow):
    """The newest group of rows, and the one before it."""

    name = "TWO GROUPS"

    @property
    def row_count(self) -> int:
        return 2 * self.size

    def successor(self, row: Position) -> Position:
        return (row // self.size + 2) * self.size

    def first_inside(self, now: Position) -> Position:
        return ((now - 1) // self.size - 1) * self.size

    def expected_tuples(self, rate_per_s: float) -> float:
        return 1.5 * self.size

    def describe_retention(self) -> str:
        return f"two groups of {self.size}"

    def pretty(self) -> str:
        return f"[TWO GROUPS OF {self.size} ROWS]"


KINDS = (TwiceWindow, TwiceWindow, TwoGroupsWindow, RangeWindow)


def teach_oracle(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oracle says itself when a tuple ends, so it has to learn a new kind, as the grammar would."""
    end, successor = lifetimes._end, lifetimes._successor

    def end_of(window: Window, ts: int) -> int:
        return ts + 2 * window.size if isinstance(window, TwiceWindow) else end(window, ts)

    def successor_of(window: Window, row: int) -> int:
        if isinstance(window, TwoGroupsWindow):
            return row - row % window.size + 2 * window.size
        return successor(window, row)

    monkeypatch.setattr(lifetimes, "_end", end_of)
    monkeypatch.setattr(lifetimes, "_successor", successor_of)


def test_answers_are_the_oracles_under_kinds_made_up_here(
    examples: Examples, monkeypatch: pytest.MonkeyPatch
) -> None:
    teach_oracle(monkeypatch)
    with answers_in(0.5) as answered:

        @given(cases(kinds=("plain",), min_inputs=2, max_inputs=4, windows=KINDS))
        @examples(30)
        def holds(case: Case) -> None:
            query, batches = case
            kept, restored = Bucket(query, tuning=SMALL), Bucket(query, tuning=SMALL)
            of_kept, of_restored = [], []
            for batch in [*batches, None]:
                of_kept += feed(kept, batch, flush=batch is None)
                of_restored += feed(restored, batch, flush=batch is None)
                restore(restored)
            expected = oracle.run(query, batches, flush=True).rows
            answered.count(expected)
            assert oracle.bag(output_rows(query, of_kept)) == oracle.bag(expected)
            assert oracle.bag(output_rows(query, of_restored)) == oracle.bag(expected)

        holds()


@pytest.mark.parametrize("window", [TwiceWindow(5), TwoGroupsWindow(2)])
def test_the_oracle_does_not_guess_when_tuples_leave_a_kind_it_was_not_told_of(window: Window) -> None:
    query = two_streams(5)
    query = replace(query, inputs=(replace(query.inputs[0], window=window), *query.inputs[1:]))
    batch: MicroBatch = {name: [Tuple(1, {"k": 1, "v": 1})] for name in ("s1", "s2")}
    with pytest.raises(QueryError, match=f"when a tuple leaves {re.escape(window.pretty())}: say so in"):
        oracle.run(query, [batch], flush=True)


def restore(bucket: Bucket) -> None:
    """Puts everything through its persisted form."""
    plan = plan_bucket(bucket.query, tuning=SMALL)
    bucket.joins = JoinBucket.restore(plan, bucket.joins.snapshot(), bucket.joins.persisted())
    if bucket.ranks is not None:
        bucket.ranks = NumberingBucket.restore(plan, bucket.ranks.snapshot(), bucket.ranks.persisted())


def two_streams(size_us: int, lateness_us: int = 0) -> Query:
    columns = (Column("k", "bigint"), Column("v", "bigint"), Column("ts", "timestamp"))
    streams = [Stream(name, columns, "ts", lateness_us=lateness_us) for name in ("s1", "s2")]
    query = bind_query("SELECT a.v, b.v FROM s1 AS a, s2 AS b WHERE a.k = b.k", streams)
    return replace(query, inputs=tuple(replace(one, window=TwiceWindow(size_us)) for one in query.inputs))


def test_state_under_a_made_up_kind_is_forgotten_and_shed() -> None:
    query = two_streams(100)
    unlimited, limited = Bucket(query, tuning=SMALL), Bucket(query, StateLimit(5_000, Shed.OLDEST), SMALL)
    found = {"unlimited": 0, "limited": 0}
    for step in range(100):
        tuples = [Tuple(20 * step + n, {"k": n % 5, "v": n}) for n in range(20)]
        batch = {"s1": tuples, "s2": tuples}
        found["unlimited"] += sum(table.num_rows for table in feed(unlimited, batch))
        found["limited"] += sum(table.num_rows for table in feed(limited, batch))
    window_rows = 2 * 200
    assert window_rows <= unlimited.joins.state_rows <= 2 * window_rows
    assert 0 < found["limited"] < found["unlimited"]
    assert limited.joins.used_bytes <= 5_000


def test_the_plan_says_how_long_a_made_up_kind_is_kept() -> None:
    assert "for twice 100 us" in explain_plan(plan_physical(two_streams(100), 2))

"""Event times next to the first and the last instant there is: lifetimes, bounds and watermarks end there."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from tests.kernel.feeding import SMALL, feed, output_rows
from tests.kernel.join.test_window_kinds import restore
from tests.kernel.multiquery.feeding import run_dataflow
from watersmeet.kernel import Bucket, LatenessPolicy, Punctuation, StreamBounds, Watermark
from watersmeet.oracle import lifetimes, oracle
from watersmeet.oracle.oracle import MicroBatch, Tuple
from watersmeet.plan.multiquery import Registered, plan_dataflow
from watersmeet.query import BEGINNING, NEVER, Column, Query, Stream
from watersmeet.query.window import WINDOW_KINDS
from watersmeet.sql import bind_query

COLUMNS = (Column("k", "bigint"), Column("v", "bigint"), Column("ts", "timestamp"))
WINDOWS = (
    *("RANGE 5 MICROSECONDS", "RANGE 1 DAY", "TUMBLE 4 MICROSECONDS", "TUMBLE 1 DAY"),
    *("ROWS 3", "TUMBLE 2 ROWS", "UNBOUNDED"),
)
DAY_US = 86_400_000_000


def pair(left: str, right: str, select: str, lateness_us: int) -> Query:
    streams = [Stream(name, COLUMNS, "ts", lateness_us=lateness_us) for name in ("l", "r")]
    return bind_query(f"SELECT {select} FROM l [{left}] AS l, r [{right}] AS r WHERE l.k = r.k", streams)


def batches_at(near: tuple[int, ...], seed: int) -> list[MicroBatch]:
    """A few tuples of both streams around these instants, none beyond the first and the last."""
    draw = random.Random(seed)

    def tuples() -> list[Tuple]:
        times = [draw.choice(near) + draw.choice([-DAY_US, -9, -5, -1, 0, 1, 2, 6]) for _ in range(7)]
        within = [min(NEVER, max(BEGINNING, ts)) for ts in times]
        return [Tuple(ts, {"k": draw.randint(0, 1), "v": draw.randint(0, 99)}) for ts in within]

    return [{"l": tuples(), "r": tuples()} for _ in range(3)]


PLACES = {"beginning": (BEGINNING,), "end": (NEVER,), "both": (BEGINNING, 0, NEVER)}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("lateness_us", [0, 7])
def test_answers_at_the_ends_of_time_are_the_oracles(window: str, place: str, lateness_us: int) -> None:
    answered = 0
    for seed, other in enumerate(WINDOWS):
        query = pair(window, other, "l.v, r.v AS w", lateness_us)
        batches = batches_at(PLACES[place], seed)
        kept, restored = Bucket(query, tuning=SMALL), Bucket(query, tuning=SMALL)
        of_kept, of_restored = [], []
        for batch in [*batches, None]:
            of_kept += feed(kept, batch, flush=batch is None)
            of_restored += feed(restored, batch, flush=batch is None)
            restore(restored)
        expected = oracle.run(query, batches, flush=True).rows
        assert oracle.bag(output_rows(query, of_kept)) == oracle.bag(expected)
        assert oracle.bag(output_rows(query, of_restored)) == oracle.bag(expected)
        answered += bool(expected)
    assert answered > 3


@pytest.mark.parametrize("place", PLACES)
def test_so_are_those_of_a_shared_dataflow(place: str) -> None:
    of_time = [window for window in WINDOWS if "ROWS" not in window]
    answered = 0
    for seed, window in enumerate(of_time):
        query = pair(window, of_time[seed - 1], "l.v, r.v AS w", 7)
        batches = batches_at(PLACES[place], seed)
        dataflow = plan_dataflow([Registered("q", 0, query)], query.streams, 1)
        found = run_dataflow(lambda _, planned=dataflow: planned, {"q": query}, batches, restore=True)  # type: ignore[misc]
        expected = oracle.run(query, batches).rows
        assert oracle.bag(found.rows["q"]) == oracle.bag(expected)
        answered += bool(expected)
    assert answered > 1


def test_a_sum_is_sampled_up_to_the_last_tick_of_time() -> None:
    text = "SUM(l.v) AS total"
    for place in ("beginning", "end"):
        query = pair("RANGE 5 MICROSECONDS", "RANGE 5 MICROSECONDS", text, 0)
        assert query.aggregate is not None
        query = replace(query, aggregate=replace(query.aggregate, emit_every_us=4))
        near = (BEGINNING + DAY_US + 20,) if place == "beginning" else (NEVER - 20, NEVER)
        batches = batches_at(near, 3)
        bucket = Bucket(query, tuning=SMALL)
        found = [table for batch in [*batches, None] for table in feed(bucket, batch, flush=batch is None)]
        ticks = [tick for table in found for tick in table["__tick"].to_pylist()]
        accepted = oracle.take_in(query, batches).accepted
        valid = [
            tick
            for answer in oracle.answers(query, accepted)
            for tick in range(-(-answer.t // 4) * 4, answer.end, 4)
        ]
        assert sorted(ticks) == sorted(valid)
        assert ticks


@pytest.mark.parametrize("kind", [kind for kind in WINDOW_KINDS if not kind.counts_rows])
def test_lifetimes_do_not_wrap_around(kind: type) -> None:
    times = np.array([BEGINNING, BEGINNING + 1, -1, 0, NEVER - 11, NEVER - 1, NEVER], np.int64)
    for size in (1, 10, 2**40, 2**62):
        window = kind(size) if kind.is_bounded else kind()
        ends, firsts = window.end_us(times), window.first_inside(times)
        assert (ends[:-1] > times[:-1]).all()
        assert (firsts <= times).all() or not window.is_bounded
        assert ends.tolist() == [window.end_us(ts) for ts in times.tolist()]
        assert firsts.tolist() == [window.first_inside(ts) for ts in times.tolist()]
        assert ends.tolist() == [lifetimes._end(window, ts) for ts in times.tolist()]


def test_watermarks_and_bounds_stay_within_time() -> None:
    lateness = {"a": LatenessPolicy(10), "b": LatenessPolicy(0, idle_after_us=5)}
    for ts, expected in ((BEGINNING + 3, BEGINNING), (NEVER, NEVER - 10)):
        marks = Punctuation({"a": ts, "b": ts}, now_us=0)
        assert Watermark(lateness).advance(marks) == expected
        bounds = StreamBounds(lateness, {"both": ("a", "b")})
        assert bounds.advance(marks) == {"a": expected, "b": ts, "both": expected}
        again = StreamBounds.restore(lateness, {"other": ("a", "b")}, bounds.snapshot())
        assert again.now["other"] == expected

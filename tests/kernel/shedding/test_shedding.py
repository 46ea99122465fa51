"""Bounded memory: whatever is shed, answers are a part of the oracle's, and nothing is shed without need."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernel.answered import answers_in
from tests.kernel.feeding import SMALL, chunk, combinations, feed, observed_max, output_rows
from tests.kernel.output.test_held_answers import grouped
from tests.strategies import TIME_WINDOWS, cases
from watersmeet.kernel import (
    TS,
    BatchInput,
    Bucket,
    JoinBucket,
    NumberingBucket,
    Punctuation,
    Shed,
    StateLimit,
    plan_bucket,
)
from watersmeet.kernel.join.pieces import cut_by_time
from watersmeet.kernel.progress.row_numbers import RowPositions
from watersmeet.kernel.shedding.limit import Shed as Policy
from watersmeet.kernel.shedding.limited import WAITING_SHARE
from watersmeet.oracle import oracle
from watersmeet.oracle.oracle import MicroBatch, Tuple
from watersmeet.query import NEVER, Column, Query, Stream
from watersmeet.query.byte_size import split_evenly
from watersmeet.sql import bind_query

Case = tuple[Query, list[MicroBatch]]
Examples = Callable[[int], settings]

LIMITS = st.sampled_from([1, 300, 700, 1500, 3000, 6000])
ROOMY = 1000  # bytes: more than a tuple takes, with its part of the indexes
SHEDDING = st.sampled_from([Shed.RANDOM, Shed.OLDEST, Shed.LEAST])


def answers_of(query: Query, batches: list[MicroBatch], limit: StateLimit) -> tuple[list[pa.Table], Bucket]:
    bucket, answers = Bucket(query, limit, SMALL), []
    for batch in [*batches, None]:
        answers += feed(bucket, batch, flush=batch is None)
        if limit.shed is not Shed.NONE:
            waiting = min(bucket.joins.waiting_bytes, WAITING_SHARE * limit.nbytes)
            assert bucket.joins.used_bytes + waiting <= limit.nbytes + 1
    return answers, bucket


def test_answers_are_a_part_of_the_oracles_and_state_is_within_the_limit(examples: Examples) -> None:
    with answers_in(0.5) as answered:

        @given(cases(kinds=("plain",), max_inputs=3), LIMITS, SHEDDING)
        @examples(20)
        def holds(case: Case, nbytes: int, shed: Policy) -> None:
            found, _ = answers_of(*case, StateLimit(nbytes, shed))
            expected = oracle.run(*case, flush=True).rows
            answered.count(expected)
            assert not oracle.bag(output_rows(case[0], found)) - oracle.bag(expected)

        holds()


def test_a_batch_taken_in_single_tuples_gives_every_answer(examples: Examples) -> None:
    """Nothing is shed by `none`, but with no room at all every piece of a batch is a tuple or an instant."""

    with answers_in(0.5) as answered:

        @given(cases(kinds=("plain",), max_inputs=3))
        @examples(20)
        def holds(case: Case) -> None:
            found, bucket = answers_of(*case, StateLimit(1, Shed.NONE))
            expected = oracle.bag(oracle.run(*case, flush=True).rows)
            answered.count(expected)
            assert oracle.bag(output_rows(case[0], found)) == expected
            assert bucket.joins.counts.missed == 0

        holds()


def test_a_limit_that_is_not_reached_changes_nothing(examples: Examples) -> None:
    with answers_in(0.5) as answered:

        @given(cases(kinds=("plain",), max_inputs=4), SHEDDING)
        @examples(12)
        def holds(case: Case, shed: Policy) -> None:
            query, batches = case
            sent = sum(len(tuples) for batch in batches for tuples in batch.values())
            room = ROOMY * len(query.inputs) * (1 + sent)  # state within a batch may be more than after it
            bucket, answers, shed_ = Bucket(query, StateLimit(room, shed), SMALL), [], 0
            for batch in [*batches, None]:
                answers += feed(bucket, batch, flush=batch is None)
                shed_ += sum(bucket.joins.counts.shed.values())
            expected = oracle.run(*case, flush=True).rows
            answered.count(expected)
            assert oracle.bag(output_rows(query, answers)) == oracle.bag(expected)
            assert shed_ == 0

        holds()


def test_aggregates_over_held_answers_are_exact_until_something_is_shed(examples: Examples) -> None:
    with answers_in(0.5) as answered:

        @given(cases(kinds=("aggregate",), windows=TIME_WINDOWS, max_inputs=3))
        @examples(10)
        def holds(case: Case) -> None:
            query, batches = case
            bucket, found = Bucket(query, StateLimit(1, Shed.NONE), SMALL), []
            for batch in [*batches, None]:
                found += combinations(query, feed(bucket, batch, flush=batch is None))
            expected = oracle.run(query, batches, flush=True).rows
            answered.count(expected)
            assert oracle.bag(grouped(query, found)) == oracle.bag(expected)

        holds()


def test_held_answers_keep_within_the_limit_too(examples: Examples) -> None:
    @given(cases(kinds=("distinct", "aggregate"), windows=TIME_WINDOWS), LIMITS, SHEDDING)
    @examples(12)
    def holds(case: Case, nbytes: int, shed: Policy) -> None:
        answers_of(*case, StateLimit(nbytes, shed))

    holds()


def test_what_is_done_again_after_a_restart_sheds_the_same(examples: Examples) -> None:
    with answers_in(0.3) as answered:  # most is shed

        @given(cases(kinds=("plain",), min_inputs=2, max_inputs=4), LIMITS, SHEDDING)
        @examples(10)
        def holds(case: Case, nbytes: int, shed: Policy) -> None:
            query, batches = case
            limit = StateLimit(nbytes, shed)
            bucket, total = Bucket(query, limit, SMALL), Counter[Any]()
            for batch in [*batches, None]:
                saved = _saved(bucket)
                first, second = _restored(query, limit, saved), _restored(query, limit, saved)
                answers = [feed(one, batch, flush=batch is None) for one in (first, second)]
                bags = [oracle.bag(output_rows(query, found)) for found in answers]
                total += bags[0]
                assert bags[0] == bags[1]
                assert _shown(_saved(first)) == _shown(_saved(second))
                assert first.joins.counts == second.joins.counts
                bucket = first
            answered.count(total)

        holds()


Saved = tuple[Any, Any]


def _saved(bucket: Bucket) -> Saved:
    """What a state store would hold."""

    def of(part: JoinBucket | NumberingBucket | None) -> Any:
        if part is None:
            return None
        chunks = sorted(part.persisted(), key=lambda c: (c.section, c.number))
        return chunks, json.dumps(part.snapshot())

    return of(bucket.joins), of(bucket.ranks)


def _shown(saved: Saved) -> str:
    parts = [part for part in saved if part is not None]
    return str([([(c.section, c.number, c.batch.to_pylist()) for c in part[0]], part[1]) for part in parts])


def _restored(query: Query, limit: StateLimit, saved: Saved) -> Bucket:
    bucket, plan = Bucket(query, limit, SMALL), plan_bucket(query, limit, SMALL)
    bucket.joins = JoinBucket.restore(plan, json.loads(saved[0][1]), saved[0][0])
    if saved[1] is not None:
        bucket.ranks = NumberingBucket.restore(plan, json.loads(saved[1][1]), saved[1][0])
    return bucket


def test_the_end_of_a_batch_may_come_after_parts_of_it(examples: Examples) -> None:
    """A batch too large to hold is fed as it comes in; the last part brings the marks."""

    with answers_in(0.5) as answered:

        @given(cases(kinds=("plain",), windows=TIME_WINDOWS, max_inputs=4))
        @examples(10)
        def holds(case: Case) -> None:
            query, batches = case
            whole, parts, answers = Bucket(query, tuning=SMALL), Bucket(query, tuning=SMALL), []
            for batch in [*batches, None]:
                for name, tuples in (batch or {}).items():
                    for one in tuples:
                        answers += _fed(query, parts, {name: [one]})
                feed(whole, batch, flush=batch is None)
                marks = Punctuation(observed_max(query, batch or {}), is_end=batch is None)
                answers += list(parts.joins.step(BatchInput({}, marks)))
                assert _positive(parts) == _positive(whole)
            expected = oracle.run(*case, flush=True).rows
            answered.count(expected)
            assert oracle.bag(output_rows(query, answers)) == oracle.bag(expected)

        holds()


def _fed(query: Query, bucket: Bucket, batch: MicroBatch) -> list[pa.Table]:
    new = {item.alias: chunk(query, item, batch.get(item.stream.name, ())) for item in query.inputs}
    part = {alias: one for alias, one in new.items() if one.num_rows}
    return list(bucket.joins.step(BatchInput(part, is_last=False)))


def _positive(bucket: Bucket) -> dict[str, int]:
    return {alias: count for alias, count in bucket.joins.counts.late.items() if count}


def test_pieces_are_in_order_of_time_and_hold_everything_once() -> None:
    ts = {"a": [5, 1, 9, 1], "b": [2, 9, 9]}
    new = {alias: pa.record_batch({TS: pa.array(times)}) for alias, times in ts.items()}
    pieces = list(cut_by_time(new, {}, 16, whole_instants=False))
    seen = [
        sorted(t for batch in piece.new.values() for t in batch.column(TS).to_pylist()) for piece in pieces
    ]
    assert seen == [[1, 1], [2, 5], [9, 9], [9]]
    assert [piece.rest_from for piece in pieces] == [2, 9, 9, NEVER]
    whole = list(cut_by_time(new, {"a": RowPositions(7, np.array([1, 1, 5, 9]))}, 16, whole_instants=True))
    assert [piece.rest_from for piece in whole] == [2, 9, NEVER]
    assert [(p.positions["a"].first, list(p.positions["a"].ts)) for p in whole] == [
        (7, [1, 1]),
        (9, [5]),
        (10, [9]),
    ]


def test_what_waits_under_rows_windows_is_taken_from_the_join() -> None:
    """Waiting tuples cannot be shed, for places are counted over all of them: so the join sheds more."""
    columns = (Column("k", "bigint"), Column("v", "bigint"), Column("ts", "timestamp"))
    streams = [Stream(name, columns, "ts", lateness_us=10_000_000) for name in ("a", "b")]
    query = bind_query(
        "SELECT a.v AS va, b.v AS vb FROM a [ROWS 2000], b [RANGE 1 MINUTE] WHERE a.k = b.k", streams
    )
    drawn = random.Random(1)
    kept = []
    for limit in (StateLimit(10**9), StateLimit(60_000), StateLimit(20_000)):
        bucket = Bucket(query, limit, SMALL)
        for second in range(30):
            batch = {
                name: [Tuple(second * 1_000_000 + n, {"k": drawn.randrange(9), "v": n}) for n in range(60)]
                for name in ("a", "b")
            }
            feed(bucket, batch)
        waiting = bucket.joins.waiting_bytes
        assert waiting > 20_000
        assert bucket.joins.used_bytes + min(waiting, WAITING_SHARE * limit.nbytes) <= limit.nbytes
        kept.append(bucket.joins.join.live_rows)
    assert kept[0] > kept[1] > kept[2] > 0


def test_memory_is_shared_evenly_and_what_one_does_not_need_goes_to_the_others() -> None:
    assert split_evenly({"a": 10, "b": 50, "c": 90}, 90) == {"a": 10, "b": 40, "c": 40}
    assert split_evenly({"a": 10, "b": 50}, 100) == {"a": 10, "b": 50}
    assert split_evenly({"a": 10, "b": 50}, -5) == {"a": 0, "b": 0}

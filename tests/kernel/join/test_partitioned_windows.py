"""Under `[PARTITION BY k ROWS n]` answers are the oracle's, and the state follows the number of values."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings

from tests.kernel.answered import answers_in
from tests.kernel.feeding import SMALL, feed, output_rows
from tests.strategies import cases
from watersmeet.kernel import Bucket, JoinBucket, NumberingBucket, plan_bucket
from watersmeet.kernel.columns import hashing
from watersmeet.kernel.state import latest_rows
from watersmeet.oracle import oracle
from watersmeet.oracle.oracle import MicroBatch, Tuple
from watersmeet.query import (
    Column,
    PartitionRowsWindow,
    Query,
    RangeWindow,
    RowsWindow,
    Stream,
    UnboundedWindow,
)
from watersmeet.sql import bind_query

Case = tuple[Query, list[MicroBatch]]
Examples = Callable[[int], settings]

WINDOWS = (PartitionRowsWindow, PartitionRowsWindow, RangeWindow, RowsWindow, UnboundedWindow)
COLUMNS = (Column("k", "bigint"), Column("op", "string"), Column("ts", "timestamp"))
STREAMS = [Stream("orders", COLUMNS, "ts"), Stream("rates", COLUMNS, "ts")]


def answers_of(
    query: Query, batches: list[MicroBatch], *, restores: bool, flush: bool = True
) -> list[object]:
    """What a bucket answers, thrown away and restored after every step if asked to."""
    plan, bucket, found = plan_bucket(query, tuning=SMALL), Bucket(query, tuning=SMALL), []
    for batch in [*batches, *([None] if flush else [])]:
        found += feed(bucket, batch, flush=batch is None)
        if restores:
            bucket.joins = JoinBucket.restore(plan, bucket.joins.snapshot(), bucket.joins.persisted())
            if bucket.ranks is not None:
                ranks = bucket.ranks
                bucket.ranks = NumberingBucket.restore(plan, ranks.snapshot(), ranks.persisted())
    return list(output_rows(query, found))


@pytest.mark.parametrize("restores", [False, True])
@pytest.mark.parametrize("flush", [True, pytest.param(False, marks=pytest.mark.variant)])
def test_answers_are_the_oracles(restores: bool, flush: bool, examples: Examples) -> None:
    with answers_in(0.5) as answered:

        @given(cases(kinds=("plain",), windows=WINDOWS, max_inputs=4))
        @examples(20)
        def holds(case: Case) -> None:
            expected = oracle.run(*case, flush=flush).rows
            assert oracle.bag(answers_of(*case, restores=restores, flush=flush)) == oracle.bag(expected)
            answered.count(expected)

        holds()


def test_values_that_collide_are_told_apart(examples: Examples, monkeypatch: pytest.MonkeyPatch) -> None:
    def one_bit(column: object) -> hashing.Hashes:
        return hashing.hash_column(column) & np.uint64(1)

    monkeypatch.setattr(latest_rows, "hash_column", one_bit)
    with answers_in(0.5) as answered:

        @given(cases(kinds=("plain",), windows=(PartitionRowsWindow, RangeWindow), max_inputs=3))
        @examples(12)
        def holds(case: Case) -> None:
            expected = oracle.run(*case, flush=True).rows
            assert oracle.bag(answers_of(*case, restores=True)) == oracle.bag(expected)
            answered.count(expected)

        holds()


def changes(count: int, values: int, op: str = "u") -> list[MicroBatch]:
    """Batches of ten instants in which each value changes at every instant."""
    tuples = [Tuple(ts, {"k": k, "op": op}) for ts in range(count) for k in range(values)]
    orders = [Tuple(ts, {"k": ts % values, "op": "o"}) for ts in range(count)]
    return [
        {
            "orders": [one for one in orders if one.ts // 10 == number],
            "rates": [one for one in tuples if one.ts // 10 == number],
        }
        for number in range(count // 10)
    ]


@pytest.mark.parametrize("size", [1, 3])
def test_the_state_follows_the_number_of_values_not_of_tuples(size: int) -> None:
    query = bind_query(
        f"SELECT o.k, r.ts AS since FROM orders [RANGE 5 MS] o, rates [PARTITION BY k ROWS {size}] r "
        "WHERE o.k = r.k",
        STREAMS,
    )
    bucket, kept = Bucket(query, tuning=SMALL), []
    for batch in changes(300, values=4):
        feed(bucket, batch)
        kept.append(bucket.joins.join.stores["r"].live_rows)
    last_batch = 4  # has come and waits for the watermark
    assert max(kept) <= 2 * 4 * size + SMALL.least_ended + last_batch
    assert len(bucket.joins.persisted()) < 20


def test_what_is_deleted_leaves_nothing_behind() -> None:
    """A changelog: a value whose last tuple the filter drops has no current version, and takes no state."""
    query = bind_query(
        "SELECT o.k, r.op FROM orders [RANGE 5 MS] o, rates [PARTITION BY k ROWS 1] r "
        "WHERE o.k = r.k AND r.op <> 'd'",
        STREAMS,
    )
    bucket = Bucket(query, tuning=SMALL)
    for batch in changes(100, values=50):
        feed(bucket, batch)
    deleted = [Tuple(200, {"k": k, "op": "d"}) for k in range(50)]
    feed(bucket, {"rates": deleted, "orders": [Tuple(200, {"k": 1, "op": "o"})]})
    late_orders = [Tuple(300, {"k": k, "op": "o"}) for k in range(50)]
    feed(bucket, {"orders": late_orders, "rates": [Tuple(300, {"k": 99, "op": "u"})]})
    answers = feed(bucket, None, flush=True)
    assert output_rows(query, answers) == []
    assert bucket.joins.join.stores["r"].live_rows <= 1 + SMALL.least_ended


def test_a_bucket_that_renumbers_its_rows_is_never_caught_up_with() -> None:
    query = bind_query("SELECT k FROM rates [PARTITION BY k ROWS 1]", STREAMS)
    assert not plan_bucket(query).can_catch_up

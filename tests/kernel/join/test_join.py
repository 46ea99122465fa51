"""The kernel returns exactly the oracle's bag, for any query, any disorder and any cut into micro-batches."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernel.answered import answers_in
from tests.kernel.feeding import SMALL, chunk, feed, output_rows
from tests.strategies import TIME_WINDOWS, cases
from watersmeet.errors import DataError
from watersmeet.kernel import (
    TS,
    Bucket,
    ChangeTracker,
    JoinBucket,
    MultiwayJoin,
    NumberingBucket,
    PersistedChunk,
    Tuning,
    lay_out,
    plan_bucket,
)
from watersmeet.kernel.columns import hashing
from watersmeet.kernel.columns.narrow import widened
from watersmeet.kernel.join import multiway as join_module
from watersmeet.kernel.state import store as store_module
from watersmeet.oracle import oracle
from watersmeet.oracle.oracle import MicroBatch, Tuple
from watersmeet.query import Column, Query, Stream
from watersmeet.sql import bind_query

Case = tuple[Query, list[MicroBatch]]
Examples = Callable[[int], settings]

COLUMNS = (Column("k", "bigint"), Column("j", "bigint"), Column("v", "bigint"), Column("ts", "timestamp"))
STREAMS = [Stream(name, COLUMNS, "ts") for name in ("s1", "s2", "s3", "s4")]
TURNS = st.lists(st.integers(0, 3), min_size=8, max_size=8)  # which worker takes each step


def check(
    query: Query, batches: list[MicroBatch], *, flush: bool = True, tuning: Tuning = SMALL
) -> list[tuple[Any, ...]]:
    """Compares a bucket's answers with the oracle's, and returns these."""
    bucket, answers = Bucket(query, tuning=tuning), []
    for batch in [*batches, *([None] if flush else [])]:
        answers += feed(bucket, batch, flush=batch is None)
    expected = oracle.run(query, batches, flush=flush).rows
    assert oracle.bag(output_rows(query, answers)) == oracle.bag(expected)
    return expected


def test_answers_are_the_oracles_for_any_query_and_any_cut(examples: Examples) -> None:
    with answers_in(0.5) as answered:

        @given(cases(kinds=("plain",), key_expressions=True))
        @examples(75)
        def holds(case: Case) -> None:
            answered.count(check(*case))

        holds()


def test_a_delayed_query_answers_up_to_the_watermark(examples: Examples) -> None:
    with answers_in(0.5) as answered:

        @given(cases(kinds=("plain",)))
        @examples(30)
        def holds(case: Case) -> None:
            answered.count(check(*case, flush=False))

        holds()


def test_colliding_hashes_never_make_an_answer(examples: Examples, monkeypatch: pytest.MonkeyPatch) -> None:
    """With one bit of hash everything collides; only the verification tells keys apart."""
    for module in (join_module, store_module):
        monkeypatch.setattr(module, "hash_column", lambda column: hashing.hash_column(column) & np.uint64(1))

    with answers_in(0.5) as answered:

        @given(cases(kinds=("plain",), min_inputs=2, max_inputs=4))
        @examples(60)
        def holds(case: Case) -> None:
            answered.count(check(*case))

        holds()


def test_a_bucket_restored_after_every_step_goes_on_as_before(examples: Examples) -> None:
    with answers_in(0.5) as answered:

        @given(cases(kinds=("plain",)))
        @examples(50)
        def holds(case: Case) -> None:
            query, batches = case
            plan, bucket, answers = plan_bucket(query, tuning=SMALL), Bucket(query, tuning=SMALL), []
            joins, ranks = Log(), Log()
            for batch in [*batches, None]:
                answers += feed(bucket, batch, flush=batch is None)
                joins.follow(bucket.joins)
                bucket.joins = JoinBucket.restore(plan, joins.snapshot, joins.chunks.values())
                if bucket.ranks is not None:
                    ranks.follow(bucket.ranks)
                    bucket.ranks = NumberingBucket.restore(plan, ranks.snapshot, ranks.chunks.values())
            expected = oracle.run(query, batches, flush=True).rows
            answered.count(expected)
            assert oracle.bag(output_rows(query, answers)) == oracle.bag(expected)

        holds()


def test_workers_that_take_turns_catch_up_with_each_other(examples: Examples) -> None:
    with answers_in(0.5) as answered:

        @given(cases(kinds=("plain",), windows=TIME_WINDOWS), TURNS)
        @examples(100)
        def holds(case: Case, turns: list[int]) -> None:
            query, batches = case
            plan, bucket, answers, log = (
                plan_bucket(query, tuning=SMALL),
                Bucket(query, tuning=SMALL),
                [],
                Log(),
            )
            assert plan.can_catch_up
            workers: dict[int, JoinBucket] = {}
            for step, batch in enumerate([*batches, None]):
                worker = turns[step % len(turns)]
                if log.snapshot and worker in workers:
                    workers[worker].catch_up(log.snapshot, log.chunks.values())
                elif log.snapshot:
                    workers[worker] = JoinBucket.restore(plan, log.snapshot, log.chunks.values())
                bucket.joins = workers.setdefault(worker, bucket.joins)
                answers += feed(bucket, batch, flush=batch is None)
                log.follow(bucket.joins)
            expected = oracle.run(query, batches, flush=True).rows
            answered.count(expected)
            assert oracle.bag(output_rows(query, answers)) == oracle.bag(expected)

        holds()


class Log:
    """A state store as the kernel sees one: it learns only what changed."""

    def __init__(self) -> None:
        self.chunks: dict[tuple[str, int], PersistedChunk] = {}
        self.snapshot: dict[str, object] = {}
        self._tracker = ChangeTracker()

    def follow(self, bucket: JoinBucket | NumberingBucket) -> None:
        changes = self._tracker.changes(bucket.persisted())
        for one in changes.appended:
            assert (one.section, one.number) not in self.chunks
            self.chunks[one.section, one.number] = one
        for key in changes.expired:
            del self.chunks[key]
        self.snapshot = json.loads(json.dumps(bucket.snapshot()))


def three_way(window: str) -> Query:
    froms = ", ".join(f"{stream.name} {window}" for stream in STREAMS[:3])
    return bind_query(f"SELECT s1.v, s2.v, s3.v FROM {froms} WHERE s1.k = s2.k AND s2.k = s3.k", STREAMS)


def steady(query: Query, bucket: Bucket, steps: int, rows: int = 5, since: int = 0) -> None:
    """Feeds every stream some tuples an instant apart, a batch per ten instants."""
    for step in range(since, since + steps):
        tuples = [Tuple(10 * step + n, {"k": 10 * step + n, "j": 0, "v": n}) for n in range(rows)]
        feed(bucket, {stream.name: tuples for stream in query.streams})


def test_catching_up_indexes_only_what_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    query, log = three_way("[RANGE 100 US]"), Log()
    plan, bucket = plan_bucket(query, tuning=SMALL), Bucket(query, tuning=SMALL)
    steady(query, bucket, 20)
    log.follow(bucket.joins)
    behind = JoinBucket.restore(plan, log.snapshot, log.chunks.values())
    steady(query, bucket, 4, since=20)  # now tuples of before and after share chunks, and some are gone
    log.follow(bucket.joins)
    hashed: list[int] = []

    def counted(column: pa.Array) -> hashing.Hashes:
        hashed.append(len(column))
        return hashing.hash_column(column)

    monkeypatch.setattr(join_module, "hash_column", counted)
    behind.catch_up(log.snapshot, log.chunks.values())
    assert sum(hashed) == 3 * 4 * 5
    assert behind.join.snapshot() == bucket.joins.join.snapshot()
    own, others = behind.persisted(), bucket.joins.persisted()
    assert [(one.section, one.number) for one in own] == [(one.section, one.number) for one in others]
    assert [widened(one.batch) for one in own] == [widened(one.batch) for one in others]


def test_state_stays_bounded_while_a_window_slides() -> None:
    query = three_way("[RANGE 100 US]")
    bucket = Bucket(query, tuning=SMALL)
    steady(query, bucket, 50)
    first = bucket.joins.state_rows
    steady_more = Bucket(query, tuning=SMALL)
    steady(query, steady_more, 400)
    assert steady_more.joins.state_rows <= 2 * first
    assert steady_more.joins.nbytes <= 2 * bucket.joins.nbytes


def test_many_small_batches_under_a_long_window_leave_few_chunks() -> None:
    query = three_way("[RANGE 1 HOUR]")
    bucket = Bucket(query, tuning=SMALL)
    steady(query, bucket, 300, rows=1)
    assert bucket.joins.join.live_rows == 3 * 300
    assert bucket.joins.join.chunk_count <= 3 * 12


def test_the_probing_order_follows_observed_match_rates() -> None:
    """s2 matches every head tuple many times and s3 never: s3 comes first once that has been seen."""
    query = bind_query(
        "SELECT s1.v FROM s1 [RANGE 1 HOUR], s2 [RANGE 1 HOUR], s3 [RANGE 1 HOUR]"
        " WHERE s1.k = s2.k AND s1.j = s3.j",
        STREAMS,
    )
    bucket = Bucket(query, tuning=SMALL)
    join = bucket.joins.join
    assert [probe.alias for probe in join.order.sequence("s1")] == ["s2", "s3"]
    many = [Tuple(n, {"k": 1, "j": 7, "v": n}) for n in range(20)]
    feed(bucket, {"s2": many, "s3": many})
    feed(bucket, {"s1": [Tuple(n, {"k": 1, "j": 8, "v": n}) for n in range(20)]})
    assert [probe.alias for probe in join.order.sequence("s1")] == ["s3", "s2"]


def test_keys_of_different_types_are_refused_by_name() -> None:
    query = three_way("[RANGE 1 HOUR]")
    join = MultiwayJoin(lay_out(query))
    good = chunk(query, query.inputs[0], [Tuple(1, {"k": 1, "j": 1, "v": 1})])
    place = good.schema.names.index("__key0")
    bad = good.set_column(place, "__key0", pa.array(["1"]))
    list(join.step({"s1": good}, 0))
    with pytest.raises(DataError, match="key of s2 is string, the others of its class are int64"):
        list(join.step({"s2": bad}, 0))


def test_a_chunk_that_lacks_a_column_is_refused_by_name() -> None:
    query = three_way("[RANGE 1 HOUR]")
    with pytest.raises(DataError, match="a chunk of s1 lacks the columns __key0, v"):
        list(MultiwayJoin(lay_out(query)).step({"s1": pa.record_batch({TS: pa.array([1])})}, 0))

"""The kernel returns exactly the oracle's bag, for any query, any disorder and any cut into micro-batches."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings

from tests.kernel.feeding import feed, output_rows
from tests.strategies import cases
from watersmeet import oracle
from watersmeet.kernel import (
    Bucket,
    ChangeTracker,
    JoinBucket,
    PersistedChunk,
    RankBucket,
    hashing,
    plan_bucket,
)
from watersmeet.kernel import join as join_module
from watersmeet.kernel import store as store_module
from watersmeet.oracle import MicroBatch
from watersmeet.query import Query


@pytest.fixture(autouse=True)
def _small_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small inputs reach the code that cuts large ones."""
    monkeypatch.setattr(join_module, "CELL_ROWS", 4)
    monkeypatch.setattr(store_module, "MAX_SLICES_PER_APPEND", 4)
    monkeypatch.setattr(store_module, "MIN_ROWS_PER_SLICE", 2)


def check(query: Query, batches: list[MicroBatch], *, flush: bool = True) -> None:
    bucket, answers = Bucket(query), []
    for batch in [*batches, *([None] if flush else [])]:
        answers += feed(bucket, batch, flush=batch is None)
    expected = oracle.run(query, batches, flush=flush)
    assert oracle.bag(output_rows(query, answers)) == oracle.bag(expected.rows)


@given(cases(kinds=("plain",), key_expressions=True))
@settings(max_examples=500)
def test_answers_are_the_oracles_for_any_query_and_any_cut(case: tuple[Query, list[MicroBatch]]) -> None:
    check(*case)


@given(cases(kinds=("plain",)))
@settings(max_examples=100)
def test_a_delayed_query_answers_up_to_the_watermark(case: tuple[Query, list[MicroBatch]]) -> None:
    check(*case, flush=False)


@given(cases(kinds=("plain",), min_inputs=2))
@settings(max_examples=100)
def test_colliding_hashes_never_make_an_answer(case: tuple[Query, list[MicroBatch]]) -> None:
    """With one bit of hash everything collides; only the verification tells keys apart."""
    query, batches = case
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(join_module, "hash_column", lambda column: hashing.hash_column(column) & np.uint64(1))
        patch.setattr(join_module, "is_exact", lambda type_: False)
        check(query, batches)


@given(cases(kinds=("plain",)))
@settings(max_examples=150)
def test_a_join_restored_after_every_step_goes_on_as_before(case: tuple[Query, list[MicroBatch]]) -> None:
    query, batches = case
    plan, bucket, answers = plan_bucket(query), Bucket(query), []
    logs: tuple[Log, Log] = Log(), Log()
    for batch in [*batches, None]:
        answers += feed(bucket, batch, flush=batch is None)
        logs[0].follow(bucket.joins)
        bucket.joins = JoinBucket.restore(plan, logs[0].snapshot, logs[0].chunks.values())
        if bucket.ranks is not None:
            logs[1].follow(bucket.ranks)
            bucket.ranks = RankBucket.restore(plan, logs[1].snapshot, logs[1].chunks.values())
    expected = oracle.run(query, batches, flush=True)
    assert oracle.bag(output_rows(query, answers)) == oracle.bag(expected.rows)


class Log:
    """A state store as the kernel sees one: it learns only what changed."""

    def __init__(self) -> None:
        self.chunks: dict[tuple[str, int], PersistedChunk] = {}
        self.snapshot: dict[str, object] = {}
        self._tracker = ChangeTracker()

    def follow(self, bucket: JoinBucket | RankBucket) -> None:
        changes = self._tracker.changes(bucket.persisted())
        for chunk in changes.appended:
            assert (chunk.section, chunk.number) not in self.chunks
            self.chunks[chunk.section, chunk.number] = chunk
        for key in changes.expired:
            del self.chunks[key]
        self.snapshot = json.loads(json.dumps(bucket.snapshot()))

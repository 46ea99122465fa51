"""The kernel returns exactly the oracle's bag, for any query, any disorder and any cut into micro-batches."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given, settings

from tests.kernel.feeding import feed, output_rows
from tests.strategies import cases
from watersmeet import oracle
from watersmeet.kernel import Bucket, MultiwayJoin, PersistedChunk, hashing, lay_out
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


def run(query: Query, batches: Iterable[MicroBatch], *, flush: bool) -> tuple[list, dict[str, int]]:
    bucket, answers, late = Bucket(query), [], dict.fromkeys((item.alias for item in query.inputs), 0)
    for batch in batches:
        answers += feed(bucket, batch)
    if flush:
        answers += feed(bucket, None, flush=True)
    return output_rows(query, answers), late


def check(query: Query, batches: list[MicroBatch], *, flush: bool = True) -> None:
    expected = oracle.run(query, batches, flush=flush)
    found, _ = run(query, batches, flush=flush)
    assert oracle.bag(found) == oracle.bag(expected.rows)


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
    expected = oracle.run(query, batches, flush=True)
    bucket, log, answers = Bucket(query), dict[tuple[str, int], PersistedChunk](), []
    for batch in [*batches, None]:
        answers += feed(bucket, batch, flush=batch is None)
        changes = bucket.join.changes
        for chunk in changes.appended:
            assert (chunk.alias, chunk.number) not in log
            log[chunk.alias, chunk.number] = chunk
        for key in changes.expired:
            del log[key]
        bucket.join = MultiwayJoin.restore(lay_out(query), bucket.join.snapshot(), log.values())
    assert oracle.bag(output_rows(query, answers)) == oracle.bag(expected.rows)

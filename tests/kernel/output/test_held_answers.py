"""DISTINCT and aggregates: answers wait for the watermark, then come out as the oracle says."""

from __future__ import annotations

import bisect
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings

from tests.kernel.answered import answers_in
from tests.kernel.feeding import SMALL, combinations, feed
from tests.strategies import TIME_WINDOWS, cases
from watersmeet.kernel import (
    ANSWER_END,
    ANSWER_TS,
    Bucket,
    ChangeTracker,
    DistinctValues,
    PersistedChunk,
)
from watersmeet.kernel.columns import hashing
from watersmeet.kernel.output import distinct as distinct_module
from watersmeet.kernel.output.held_answers import AnswerSampler
from watersmeet.oracle import oracle
from watersmeet.oracle.evaluate import evaluate, evaluate_group
from watersmeet.oracle.oracle import MicroBatch
from watersmeet.query import Query
from watersmeet.query.values import canonical

Case = tuple[Query, list[MicroBatch]]
Examples = Callable[[int], settings]


def test_sampled_answers_group_into_the_oracles_ticks(examples: Examples) -> None:
    with answers_in(0.5) as answered:

        @given(cases(kinds=("aggregate",), windows=TIME_WINDOWS, max_inputs=3))
        @examples(15)
        def holds(case: Case) -> None:
            query, batches = case
            bucket, found = Bucket(query, tuning=SMALL), []
            for batch in [*batches, None]:
                found += combinations(query, feed(bucket, batch, flush=batch is None))
            expected = oracle.run(query, batches, flush=True).rows
            answered.count(expected)
            assert oracle.bag(grouped(query, found)) == oracle.bag(expected)

        holds()


def grouped(query: Query, found: list[tuple[dict[str, Any], int, int | None]]) -> list[tuple[Any, ...]]:
    """What Spark's aggregation makes of the samples."""
    assert query.aggregate is not None
    groups: dict[Any, list[Any]] = {}
    for rows, t, tick in found:
        if all(evaluate(expr, rows, t) is True for expr in query.residual):
            key = canonical([tick, *(evaluate(expr, rows, tick) for expr in query.aggregate.group_by)])
            groups.setdefault((tick, key), []).append(rows)
    having = query.aggregate.having
    return [
        tuple(evaluate_group(output.expr, group, tick) for output in query.select)
        for (tick, _), group in groups.items()
        if having is None or evaluate_group(having, group, tick) is True
    ]


@pytest.mark.parametrize("collide", [False, True])
def test_distinct_values_appear_as_the_oracle_says(
    collide: bool, examples: Examples, monkeypatch: pytest.MonkeyPatch
) -> None:
    if collide:
        one_bit = lambda column: hashing.hash_column(column) & np.uint64(1)  # noqa: E731
        monkeypatch.setattr(distinct_module, "hash_column", one_bit)

    with answers_in(0.5) as answered:

        @given(cases(kinds=("distinct",), windows=TIME_WINDOWS, payloads=("note", "ratio"), max_inputs=3))
        @examples(30)
        def holds(case: Case) -> None:
            query, batches = case
            names = tuple(output.name for output in query.select)
            bucket, log, tracker = (
                Bucket(query, tuning=SMALL),
                dict[tuple[str, int], PersistedChunk](),
                ChangeTracker(),
            )
            values, found = DistinctValues(names), []
            for batch in [*batches, None]:
                answers = selected(query, feed(bucket, batch, flush=batch is None))
                if answers is not None:
                    found += values.step(answers).select(list(names)).to_pylist()
                changes = tracker.changes(values.persisted())
                log |= {(one.section, one.number): one for one in changes.appended}
                for key in changes.expired:
                    del log[key]
                values = DistinctValues.restore(names, values.snapshot(), log.values())
            expected = oracle.run(query, batches, flush=True).rows
            answered.count(expected)
            assert oracle.bag(row.values() for row in found) == oracle.bag(expected)

        holds()


def selected(query: Query, answers: list[pa.Table]) -> pa.RecordBatch | None:
    """The SELECT list with each answer's lifetime beside it; every output is a bare column."""
    batches = [batch for table in answers for batch in table.combine_chunks().to_batches()]
    if not batches:
        return None
    whole = pa.concat_batches(batches)
    lifetimes = zip(whole.column(ANSWER_TS), whole.column(ANSWER_END), strict=True)
    kept = [
        all(evaluate(expr, rows, t) is True for expr in query.residual)
        for (rows, t, _), _ in zip(combinations(query, answers), lifetimes, strict=True)
    ]
    columns = {
        o.name: whole.column(f"{o.expr.columns[0].alias}.{o.expr.columns[0].column}") for o in query.select
    }
    columns |= {name: whole.column(name) for name in (ANSWER_TS, ANSWER_END)}
    chosen = pa.record_batch(columns).filter(pa.array(kept))
    return chosen if chosen.num_rows else None


def test_an_answer_is_sampled_at_each_tick_of_its_lifetime_once() -> None:
    sampler = AnswerSampler("held", every_us=10)
    sampler.buffer.add(pa.record_batch({ANSWER_TS: pa.array([12]), ANSWER_END: pa.array([45])}))
    ticks = [
        [batch.column("__tick").to_pylist() for batch in sampler.release(watermark)]
        for watermark in (20, 21, 40, 99)
    ]
    assert ticks == [[], [[20]], [[30]], [[40]]]
    assert sampler.buffer.rows == 0


def test_values_that_do_not_fit_are_left_out_and_never_repeated() -> None:
    drawn = np.random.default_rng(1)
    free, limited = DistinctValues(("v",)), DistinctValues(("v",), 4000)
    let_out: list[list[tuple[int, int]]] = [[], []]
    left_out = 0
    for batch in range(40):
        t = np.sort(drawn.integers(10 * batch, 10 * (batch + 1), 50))
        answers = pa.record_batch(
            {"v": pa.array(drawn.integers(0, 300, 50)), ANSWER_TS: pa.array(t), ANSWER_END: pa.array(t + 60)}
        )
        for values, found in zip((free, limited), let_out, strict=True):
            appeared = values.step(answers)
            found += list(zip(appeared["v"].to_pylist(), appeared[ANSWER_TS].to_pylist(), strict=True))
        left_out += limited.left_out
        assert limited.nbytes <= 4000
        limited = DistinctValues.restore(("v",), limited.snapshot(), limited.persisted(), 4000)
    assert left_out > 100
    assert free.nbytes > 4000
    # A value is present without a break as long as its answers overlap, and appears at most once in each.
    periods = sorted(let_out[0])
    during = [bisect.bisect_right(periods, one) - 1 for one in let_out[1]]
    assert all(periods[at][0] == value for at, (value, _) in zip(during, let_out[1], strict=True))
    assert len(set(during)) == len(during) > 100

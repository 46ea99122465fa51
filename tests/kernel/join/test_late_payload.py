"""Payload that comes after the join changes no answer, and is asked for only where it is needed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import given, settings

from tests.kernel.answered import answers_in
from tests.kernel.feeding import SMALL, chunk, observed_max, output_rows
from tests.strategies import TIME_WINDOWS, cases
from watersmeet.kernel import (
    REF,
    TS,
    BatchInput,
    InputLayout,
    JoinBucket,
    Punctuation,
    Tuning,
    lay_out,
    plan_bucket,
)
from watersmeet.kernel.columns.narrow import widened
from watersmeet.oracle import oracle
from watersmeet.oracle.oracle import MicroBatch, Tuple
from watersmeet.query import Column, Query, Stream
from watersmeet.sql import bind_query

Case = tuple[Query, list[MicroBatch]]
Examples = Callable[[int], settings]


class Shelf:
    """Keeps payload aside and hands it out by reference."""

    def __init__(self) -> None:
        self.batches: list[pa.RecordBatch] = []
        self.types: dict[tuple[str, str], pa.DataType] = {}
        self.asked = 0

    def put(self, layout: InputLayout, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch with references in place of all payload that no key needs."""
        base = len(self.batches) * 1000
        self.batches.append(batch)
        self.types |= {(layout.alias, field.name): field.type for field in batch.schema}
        kept = [TS, *dict.fromkeys(name for _, name in layout.keys)]
        return batch.select(kept).append_column(REF, pa.array(range(base, base + batch.num_rows), pa.int64()))

    def fetch(self, alias: str, names: Sequence[str], refs: npt.NDArray[np.int64]) -> list[pa.Array]:
        self.asked += len(refs)
        rows = [self.batches[ref // 1000].slice(ref % 1000, 1) for ref in refs.tolist()]
        return [
            pa.concat_arrays([pa.nulls(0, self.types[alias, name]), *(row.column(name) for row in rows)])
            for name in names
        ]


def answers_with_late_payload(
    query: Query, batches: Sequence[MicroBatch | None], tuning: Tuning
) -> list[pa.Table]:
    bucket, shelf, answers = JoinBucket(plan_bucket(query, tuning=tuning)), Shelf(), []
    for batch in batches:
        new = {}
        for item, layout in zip(query.inputs, lay_out(query).inputs, strict=True):
            tuples = (batch or {}).get(item.stream.name, ())
            if tuples:
                new[item.alias] = shelf.put(layout, chunk(query, item, tuples))
        new = {alias: one for alias, one in new.items() if one.num_rows}
        marks = Punctuation(observed_max(query, batch or {}), is_end=batch is None)
        answers += list(bucket.step(BatchInput(new, marks, late_payload=shelf)))
    return answers


@pytest.mark.parametrize("waiting", [0, SMALL.block_bytes])
def test_answers_are_the_oracles(waiting: int, examples: Examples) -> None:
    tuning = replace(SMALL, block_bytes=waiting)

    with answers_in(0.5) as answered:

        @given(cases(kinds=("plain",), windows=TIME_WINDOWS))
        @examples(15)
        def holds(case: Case) -> None:
            query, batches = case
            answers = answers_with_late_payload(query, [*batches, None], tuning)
            expected = oracle.run(query, batches, flush=True).rows
            answered.count(expected)
            assert oracle.bag(output_rows(query, answers)) == oracle.bag(expected)

        holds()


def test_payload_is_fetched_for_answers_and_for_what_stays() -> None:
    columns = (Column("k", "bigint"), Column("v", "string"), Column("ts", "timestamp"))
    streams = [Stream(name, columns, "ts") for name in ("s1", "s2")]
    sql = "SELECT s1.v, s2.v FROM s1 [RANGE 10 US], s2 [RANGE 10 US] WHERE s1.k = s2.k"
    query = bind_query(sql, streams)
    tuples = [Tuple(ts, {"k": ts, "v": f"text {ts}"}) for ts in range(100)]
    others = [Tuple(ts, {"k": ts if ts == 50 else -ts - 1, "v": f"other {ts}"}) for ts in range(100)]
    bucket, shelf = JoinBucket(plan_bucket(query, tuning=SMALL)), Shelf()
    layouts = lay_out(query).inputs
    new = {
        item.alias: shelf.put(layout, chunk(query, item, some))
        for item, layout, some in zip(query.inputs, layouts, (tuples, others), strict=True)
    }
    (answers,) = bucket.step(BatchInput(new, Punctuation({"s1": 99, "s2": 99}), late_payload=shelf))
    assert [(row["s1.v"], row["s2.v"]) for row in answers.to_pylist()] == [("text 50", "other 50")]
    staying = 11  # of each stream: a window of 10 us holds both its ends
    assert shelf.asked == 2 + 2 * staying
    kept = [widened(one.batch).to_pydict() for one in bucket.persisted()]
    for batch in kept:
        alive = [text for ts, text in zip(batch[TS], batch["v"], strict=True) if ts + 10 >= 99]
        assert len(alive) == staying
        assert None not in alive

"""A hot value leaves in blocks of bounded size in every routing, through all stages, each answer once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from watersmeet.kernel import JoinBucket, SharedBucket
from watersmeet.oracle import oracle
from watersmeet.oracle.oracle import MicroBatch, Tuple
from watersmeet.spark.stages.answers import AnswerFrames
from watersmeet.spark.tuning import DEFAULT
from watersmeet.sql import bind_query
from watersmeet.testing import InProcessEngine, Setup, declare

BOUND = 4000
TIGHT = replace(DEFAULT, handed_on_at_once=2, kernel=replace(DEFAULT.kernel, block_bytes=BOUND))
STREAMS = [declare(name, "k BIGINT, j BIGINT, v BIGINT, ts TIMESTAMP", event_time="ts") for name in "abc"]
A, B, C = (f"{name} [RANGE 1 MINUTE]" for name in "abc")
PAIRS = f"SELECT a.v AS va, b.v AS vb FROM {A}, {B} WHERE a.k = b.k"
CHAIN = f"SELECT a.v AS va, b.v AS vb, c.v AS vc FROM {A}, {B}, {C} WHERE a.k = b.k AND b.j = c.j"


@pytest.fixture
def block_bytes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The bytes of every block of more than one row that leaves a join or a level, as they leave."""
    seen: list[int] = []

    def watch(kind: type[Any]) -> None:
        step = kind.step

        def watched(self: Any, *given: Any) -> Iterator[Any]:
            for found in step(self, *given):
                table = found if isinstance(found, pa.Table) else found.table
                if table.num_rows > 1:
                    seen.append(table.nbytes)
                yield found

        monkeypatch.setattr(kind, "step", watched)

    watch(JoinBucket)
    watch(SharedBucket)
    return seen


def hot_batches(sizes: dict[str, int], count: int = 2) -> list[MicroBatch]:
    """Micro-batches of so many tuples of each stream, of one value; `v` tells them apart."""
    return [
        {
            name: [Tuple(1000 * number + n, {"k": 1, "j": 2, "v": 1000 * number + n}) for n in range(size)]
            for name, size in sizes.items()
        }
        for number in range(count)
    ]


@pytest.mark.parametrize(
    ("routing", "select", "sizes"),
    [
        ("shares", PAIRS, {"a": 50, "b": 60}),
        ("shares", CHAIN, {"a": 7, "b": 9, "c": 8}),
        ("pipeline", CHAIN, {"a": 7, "b": 9, "c": 8}),
        ("rewrite", CHAIN, {"a": 7, "b": 9, "c": 8}),
    ],
)
def test_a_hot_value_leaves_in_blocks(
    routing: str, select: str, sizes: dict[str, int], block_bytes: list[int]
) -> None:
    query, batches = bind_query(select, STREAMS), hot_batches(sizes)
    with InProcessEngine(query, Setup(routing=routing, tuning=TIGHT)) as engine:
        found = oracle.bag(row for batch in batches for row in engine.step(batch).answers)
    assert max(block_bytes) <= BOUND
    assert len(block_bytes) > 20
    assert found == oracle.bag(oracle.run(query, batches, flush=False).rows)


def test_a_hot_value_of_many_queries_leaves_in_blocks(block_bytes: list[int]) -> None:
    """Some queries end at the first level, so their answers pass the second on their way."""
    texts = {"pairs": PAIRS, "few": f"{PAIRS} AND a.v < 5", "chain": CHAIN, "other": f"{PAIRS} AND b.v > 7"}
    queries = {name: bind_query(text, STREAMS) for name, text in texts.items()}
    batches = hot_batches({"a": 7, "b": 9, "c": 8})
    with InProcessEngine(queries, Setup(tuning=TIGHT)) as engine:
        steps = [engine.step(batch) for batch in batches]
    assert max(block_bytes) <= BOUND
    assert len(block_bytes) > 20
    for name, query in queries.items():
        found = oracle.bag(row for step in steps for row in step.by_query[name])
        assert found == oracle.bag(oracle.run(query, batches, flush=False).rows), name


@pytest.mark.parametrize(
    "select",
    [
        f"SELECT DISTINCT a.v AS va FROM {A}, {B} WHERE a.k = b.k",
        f"SELECT COUNT(*) AS n, SUM(a.v) AS s FROM {A}, {B} WHERE a.k = b.k EMIT EVERY 20 SECONDS",
        "SELECT a.v AS va, b.v AS vb FROM a [ROWS 40] AS a, b [ROWS 30] AS b WHERE a.k = b.k",
    ],
)
def test_answers_that_are_held_are_the_oracles(select: str) -> None:
    query, batches = bind_query(select, STREAMS), hot_batches({"a": 50, "b": 60})
    with InProcessEngine(query, Setup(tuning=TIGHT)) as engine:
        steps = [*(engine.step(batch) for batch in batches), engine.end()]
    found = oracle.bag(row for step in steps for row in step.answers)
    assert found == oracle.bag(oracle.run(query, batches, flush=True).rows)
    assert found


def test_frames_hold_no_more_than_they_may() -> None:
    class Output:
        schema = None

        def frame(self, answers: list[pa.RecordBatch], metrics: str | None = None) -> Any:
            return sum(batch.nbytes for batch in answers), sum(batch.num_rows for batch in answers)

    frames: Any = AnswerFrames(Output(), replace(TIGHT, answer_rows=100, frame_bytes=3000))  # type: ignore[arg-type]
    tables = [pa.table({"v": pa.array(range(rows))}) for rows in (10, 370, 80, 150, 1, 700)]
    sizes: list[tuple[int, int]] = [each for table in tables for each in frames.put(table)]
    assert max(nbytes for nbytes, _ in sizes) <= 3000
    assert sum(rows for _, rows in [*sizes, frames.last("")]) == frames.answers == 1311


def test_the_answers_of_one_batch_and_of_many_are_the_same() -> None:
    query, batches = bind_query(PAIRS, STREAMS), hot_batches({"a": 30, "b": 30}, count=3)
    whole = {name: [t for batch in batches for t in batch[name]] for name in ("a", "b")}
    bags: list[Counter[object]] = []
    for each in (batches, [whole]):
        with InProcessEngine(query, Setup(tuning=TIGHT)) as engine:
            bags.append(oracle.bag(row for batch in each for row in engine.step(batch).answers))
    assert bags[0] == bags[1]
    assert bags[0].total() == 90 * 90

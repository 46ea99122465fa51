"""Bounded memory: state keeps within its limit, what that costs is reported, `none` sheds nothing."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

import pytest

from watersmeet.kernel import Shed, StateLimit
from watersmeet.oracle import oracle
from watersmeet.oracle.oracle import MicroBatch, Tuple
from watersmeet.query import Query
from watersmeet.sql import bind_query
from watersmeet.testing import InProcessEngine, Setup, Step, declare

FILES, ROWS, KEYS = 6, 300, 75
FILE_S, WINDOW_S, SECOND_US = 5, 20, 1_000_000
LIMIT = StateLimit(70_000)
STREAMS = [declare(name, "k BIGINT, v BIGINT, ts TIMESTAMP", event_time="ts") for name in ("a", "b")]
JOIN = f"FROM a [RANGE {WINDOW_S} SECONDS], b [RANGE {WINDOW_S} SECONDS] WHERE a.k = b.k"
PAIRS = f"SELECT a.v AS va, b.v AS vb {JOIN}"


def draw_batches(count: int = FILES) -> list[MicroBatch]:
    """Tuples in order of time; `v` numbers the tuples of a stream."""
    rng = random.Random(1)
    return [
        {
            name: [
                Tuple(ts, {"k": rng.randrange(KEYS), "v": number * ROWS + n})
                for n, ts in enumerate(sorted(_time(rng, number) for _ in range(ROWS)))
            ]
            for name in ("a", "b")
        }
        for number in range(count)
    ]


def _time(rng: random.Random, number: int) -> int:
    return rng.randrange(number * FILE_S, (number + 1) * FILE_S) * SECOND_US


def run(query: Query, batches: Sequence[MicroBatch], limit: StateLimit, *, flush: bool = False) -> list[Step]:
    with InProcessEngine(query, Setup(state_limit=limit)) as engine:
        steps = [engine.step(batch) for batch in batches[: len(batches) // 2]]
        engine.restart()
        steps += [engine.step(batch) for batch in batches[len(batches) // 2 :]]
        return steps + ([engine.end()] if flush else [])


def bag(steps: Sequence[Step]) -> Counter[object]:
    return oracle.bag(row for step in steps for row in step.answers)


@pytest.mark.parametrize("shed", [Shed.RANDOM, Shed.OLDEST, Shed.LEAST])
def test_state_keeps_within_its_limit_through_a_restart_and_tells_what_is_missing(shed: Shed) -> None:
    query, batches = bind_query(PAIRS, STREAMS), draw_batches()
    steps = run(query, batches, StateLimit(LIMIT.nbytes, shed))
    assert all(step.metrics["memory_bytes"] <= LIMIT.nbytes for step in steps)
    assert all(step.metrics["shed_a"] + step.metrics["shed_b"] > 0 for step in steps[2:])
    expected, found = oracle.bag(oracle.run(query, batches).rows), bag(steps)
    assert max(found.values()) == 1
    assert found <= expected
    assert sum(step.metrics["combinations"] for step in steps) == found.total()
    missed = sum(step.metrics["missed_milli"] for step in steps) / 1000
    reported = found.total() / (found.total() + missed)
    assert 0.2 < reported < 0.9
    assert reported == pytest.approx(found.total() / expected.total(), abs=0.05)


def test_another_limit_is_in_force_from_the_next_batch_on_although_workers_stay() -> None:
    batches = draw_batches()
    with InProcessEngine(bind_query(PAIRS, STREAMS), Setup()) as engine:
        steps = []
        for number, batch in enumerate(batches):
            if number == 2:
                engine.restart(Setup(state_limit=LIMIT), workers_stay=True)
            if number == 4:
                engine.restart(Setup(), workers_stay=True)
            steps.append(engine.step(batch))
    shed = [step.metrics["shed_a"] + step.metrics["shed_b"] > 0 for step in steps]
    assert shed == [False, False, True, True, False, False]


def test_none_sheds_nothing() -> None:
    query, batches = bind_query(PAIRS, STREAMS), draw_batches(4)
    steps = run(query, batches, StateLimit(LIMIT.nbytes, Shed.NONE))
    assert max(step.metrics["memory_bytes"] for step in steps) > LIMIT.nbytes
    assert not any(step.metrics["shed_a"] + step.metrics["shed_b"] for step in steps)
    assert bag(steps) == oracle.bag(oracle.run(query, batches).rows)


def test_values_of_distinct_without_room_are_left_out_and_told() -> None:
    query = bind_query(PAIRS.replace("SELECT", "SELECT DISTINCT"), STREAMS)
    batches = draw_batches(4)
    steps = run(query, batches, StateLimit(30_000), flush=True)
    found = bag(steps)
    assert found
    assert max(found.values()) == 1
    assert found < oracle.bag(oracle.run(query, batches, flush=True).rows)
    assert sum(step.metrics.get("left_out", 0) for step in steps) > 0

"""Streams that are late, quiet, idle or without event times: counted, and nothing is lost."""

from __future__ import annotations

from collections.abc import Sequence

from tests.spark.pipelines import LATENESS_S, QUERIES, SECOND_US, random_batches
from tests.testing.running import bind, check, rows_of, run_batches
from watersmeet.oracle import oracle
from watersmeet.oracle.oracle import MicroBatch, Tuple
from watersmeet.query import Query
from watersmeet.testing import InProcessEngine, Setup, Step


def late(query: Query, steps: Sequence[Step]) -> int:
    return sum(step.metrics[f"late_{item.alias}"] for step in steps for item in query.inputs)


def test_a_source_that_goes_back_in_time_has_its_late_tuples_counted() -> None:
    query, batches = bind(QUERIES["plain"]), random_batches(seed=44, count=4, keys=6)
    batches[3] = {**batches[3], "s2": [*batches[0]["s2"], *batches[3]["s2"]]}
    expected = oracle.run(query, batches, flush=True)
    assert expected.late["s2"] >= len(batches[0]["s2"])
    for setup in (Setup(), Setup(direct_files=True), Setup(hot_values=True, hot_min_rows=60)):
        steps = run_batches(query, batches, setup, flush=True)
        check(query, batches, steps, flush=True)
        assert late(query, steps) == sum(expected.late.values())


def test_a_stream_that_stays_empty_holds_up_nobody_else_and_its_cost_is_seen() -> None:
    query = bind(QUERIES["plain"])
    batches = random_batches(seed=46, count=3, streams=("s1", "s2"))
    steps = run_batches(query, batches)
    assert [step.metrics["state_rows"] for step in steps] == [80, 160, 240], (
        "without a watermark nothing may be forgotten"
    )


def run_idle(query: Query, batches: Sequence[MicroBatch], *, flush: bool = False) -> list[Step]:
    """Each batch a second after the one before it."""
    with InProcessEngine(query) as engine:
        steps = [engine.step(batch, now=number * SECOND_US) for number, batch in enumerate(batches)]
        return steps + ([engine.end()] if flush else [])


def test_an_idle_stream_is_waited_for_only_so_long() -> None:
    """Positions in a stream are settled by the watermark: while it stands, ROWS windows give no answers."""
    batches = random_batches(seed=47, count=4)
    batches[1:] = [{name: batch[name] for name in ("s1", "s2")} for batch in batches[1:]]
    query = bind(QUERIES["rows"], ", 'idle_after' = '1 millisecond'")
    accepted, _ = oracle.accept(query, batches)
    seen = min(max(tuple_.ts for tuple_ in accepted[name]) for name in ("s1", "s2"))
    expected = oracle.emitted(query, accepted, seen - LATENESS_S * SECOND_US)
    assert len(expected) > len(oracle.run(query, batches).rows)
    assert oracle.bag(rows_of(run_idle(query, batches))) == oracle.bag(expected)


def test_a_stream_that_is_not_idle_for_long_enough_is_waited_for() -> None:
    batches = random_batches(seed=47, count=4)
    batches[1:] = [{name: batch[name] for name in ("s1", "s2")} for batch in batches[1:]]
    query = bind(QUERIES["rows"], ", 'idle_after' = '10 seconds'")
    check(query, batches, run_idle(query, batches))


def test_what_an_idle_stream_sends_in_the_end_is_late_or_joins_whole() -> None:
    batches = random_batches(seed=48, count=4, keys=6)
    last: MicroBatch = {"s1": batches[3]["s1"], "s2": batches[3]["s2"], "s3": batches[0]["s3"]}
    batches = [*({name: batch[name] for name in ("s1", "s2")} for batch in batches[:3]), last]
    newest: MicroBatch = {"s3": [Tuple(19 * SECOND_US, {"k": key, "v": 9}) for key in range(6)]}
    batches.append(newest)
    query = bind(QUERIES["plain"], ", 'idle_after' = '1 millisecond'")
    steps = run_idle(query, batches, flush=True)
    accepted = {name: [t for batch in batches for t in batch.get(name, ())] for name in ("s1", "s2", "s3")}
    accepted["s3"] = list(newest["s3"])
    assert oracle.bag(rows_of(steps)) == oracle.bag(oracle.emitted(query, accepted))
    assert late(query, steps) == len(last["s3"])

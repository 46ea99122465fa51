"""Random trees of outer, semi and anti joins, in process: answers are exactly the oracle's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.strategies import answered_at_end
from tests.testing.random_cases import DISTURBANCES, SMALL
from tests.testing.test_random_cases import disturb
from tests.tree_strategies import tree_cases
from watersmeet.oracle import oracle
from watersmeet.oracle.oracle import MicroBatch
from watersmeet.query import Aggregate, Expr, Output, Query, RangeWindow, TumbleWindow
from watersmeet.spark.tuning import DEFAULT
from watersmeet.testing import InProcessEngine, Setup

pytestmark = pytest.mark.slow

CASES = 182  # with those of test_tree_pipelines.py and test_partitioned_trees.py more than 200
COUNT = Output("n", Expr("count(*)", type="bigint"))
TICK = Output("tick", Expr("answer_time", uses_answer_time=True))


@st.composite
def setups(draw: st.DrawFn) -> Setup:
    return Setup(
        partitions=draw(st.sampled_from([1, 2, 3])),
        workers=draw(st.sampled_from([1, 2])),
        map_tasks=draw(st.sampled_from([1, 2])),
        seed=draw(st.integers(0, 100)),
        direct_files=draw(st.integers(0, 4)) == 0,
        tuning=draw(st.sampled_from([SMALL, SMALL, DEFAULT])),
    )


def check(query: Query, batches: list[MicroBatch], setup: Setup, disturbance: str, *, flush: bool) -> int:
    """Runs a case; how many answers it had."""
    with InProcessEngine(query, setup) as engine:
        found = []
        for number, batch in enumerate(batches):
            disturb(engine, disturbance, number)
            found += engine.step(batch).answers
        if flush:
            disturb(engine, disturbance, len(batches))
            found += engine.end().answers
    expected = oracle.bag(oracle.run(query, batches, flush=flush).rows)
    # Before the end a row may still wait for others that come late from a join below.
    assert oracle.bag(found) == expected if flush else oracle.bag(found) <= expected
    return len(found)


@st.composite
def tree_variants(draw: st.DrawFn) -> tuple[Query, list[MicroBatch]]:
    """A query with a tree of joins; over windows of time some ask for DISTINCT or for groups."""
    if draw(st.integers(0, 3)):
        return draw(tree_cases())
    query, batches = draw(tree_cases(max_inputs=3, windows=(RangeWindow, TumbleWindow)))
    values = tuple(output for output in query.select if output.name.endswith("_v"))
    if draw(st.booleans()):
        return replace(query, select=values, distinct=True), batches
    grouped = replace(
        query,
        select=(values[0], COUNT, TICK),
        aggregate=Aggregate((values[0].expr,), draw(st.integers(1, 15))),
    )
    return answered_at_end(grouped) if draw(st.booleans()) else grouped, batches


def test_answers_are_the_oracles(examples: Callable[[int], settings]) -> None:
    counts = []

    # Shrinking takes minutes, and the faults of tests/faults would have to wait for it.
    @settings(examples(CASES), phases=[Phase.reuse, Phase.generate])
    @given(tree_variants(), setups(), st.sampled_from(DISTURBANCES), st.sampled_from([1, 1, 1, 1, 0]))
    def run(case: tuple[Query, list[MicroBatch]], setup: Setup, disturbance: str, flush: int) -> None:
        counts.append(check(*case, setup, disturbance, flush=bool(flush)))

    run()
    assert len(counts) >= CASES
    assert sum(count > 0 for count in counts) >= 0.45 * len(counts)

"""However a query is routed, its answers are the oracle's."""

from __future__ import annotations

import pytest

from tests.spark.pipelines import random_batches
from tests.testing.running import bind, check, run_batches
from watersmeet.errors import QueryError
from watersmeet.oracle.oracle import MicroBatch, Tuple
from watersmeet.plan.physical import plan_physical
from watersmeet.testing import InProcessEngine, Setup

A, B, C = "s1 [RANGE 4 SECONDS]", "s2 [RANGE 3 SECONDS]", "s3 [RANGE 5 SECONDS]"
PIPELINED = [
    f"SELECT a.v AS va, b.v AS vb, c.k AS kc, answer_time FROM {A} AS a, {B} AS b, {C} AS c "
    "WHERE a.k = b.k AND b.v = c.v AND a.v > 1 AND a.v + c.k > 3",
    # bushy: the two pairs meet on a third attribute
    f"SELECT a.v AS va, d.v AS vd FROM {A} AS a, {B} AS b, {C} AS c, s1 [RANGE 2 SECONDS] AS d "
    "WHERE a.k = b.k AND b.v = c.v AND c.k = d.k AND d.v < 3 AND a.v < 8",
    f"SELECT a.k, c.v FROM {A} AS a, {B} AS b, {C} AS c WHERE a.k = b.k AND b.v = c.v AND c.k = a.v",
]
REWRITTEN = [
    # a chain whose query waits in the middle
    f"SELECT a.v AS va, b.v AS vb, d.v AS vd FROM {B} AS b, {A} AS a, {C} AS c, s1 [RANGE 2 SECONDS] AS d "
    "WHERE a.k = b.k AND b.v = c.v AND c.k = d.k AND d.v < 3 AND a.v < 8",
    f"SELECT a.k, b.v AS vb, c.k AS kc, answer_time FROM {A} AS a, {B} AS b, {C} AS c "
    "WHERE a.k = b.k AND a.v = c.v AND b.v + c.k > 3",
    f"SELECT a.k, c.v FROM {A} AS a, {B} AS b, {C} AS c WHERE a.k = b.k AND b.v = c.v AND c.k = a.v",
]


def restart_midway(engine: InProcessEngine, number: int) -> None:
    if number == 3:
        engine.restart()


@pytest.mark.parametrize("select", PIPELINED)
@pytest.mark.parametrize("direct_files", [False, True])
def test_a_pipeline_gives_the_oracles_answers_and_goes_on_after_a_stop(
    select: str, direct_files: bool
) -> None:
    query, batches = bind(select), random_batches(11, count=5)
    setup = Setup(routing="pipeline", direct_files=direct_files)
    steps = run_batches(query, batches, setup, before=restart_midway)
    assert any(name.startswith("combinations_level_2") for name in steps[0].metrics)
    check(query, batches, steps)


@pytest.mark.parametrize("select", REWRITTEN)
def test_rewriting_gives_the_oracles_answers_while_frequent_values_change(select: str) -> None:
    query, batches = bind(select), shifting_batches()
    steps = run_batches(query, batches, Setup(routing="rewrite"), before=restart_midway)
    names = [name for name in steps[0].metrics if name.startswith("went_")]
    went = {name: sum(step.metrics[name] for step in steps) for name in names}
    assert sum(count > 0 for count in went.values()) > 1, went
    check(query, batches, steps)


def shifting_batches() -> list[MicroBatch]:
    """Half of s2 has one k, half of s3 one v, others in every batch."""
    batches = random_batches(21, count=5, keys=8)
    for number, batch in enumerate(batches):
        for name, column in (("s2", "k"), ("s3", "v")):
            frequent = {column: (number + (name == "s3")) % 4}
            batch[name] = [  # type: ignore[index]
                Tuple(t.ts, {**t.values, **(frequent if n % 2 else {})}) for n, t in enumerate(batch[name])
            ]
    return batches


def test_a_pipeline_refuses_what_it_cannot_run() -> None:
    query = bind("SELECT a.v FROM s1 [ROWS 10] AS a, s2 [RANGE 3 SECONDS] AS b WHERE a.k = b.k")
    with pytest.raises(QueryError, match="ROWS"):
        plan_physical(query, 3, routing="pipeline")

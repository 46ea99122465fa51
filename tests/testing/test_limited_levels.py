"""A limit of memory over the levels of pipelines, rewriting and shared dataflows."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from benchmarks.shedding_levels import FOUR, STREAMS, THREE, Run, Workload, compare, run

from tests.testing.random_cases import DISTURBANCES, RandomCase, draw_case
from tests.testing.test_random_cases import Outcome, run_case
from tests.testing.test_tails import shared_case
from watersmeet.kernel import Shed, StateLimit
from watersmeet.oracle import oracle
from watersmeet.sql import bind_query
from watersmeet.testing import Setup

SHEDDING = (Shed.RANDOM, Shed.OLDEST, Shed.LEAST)
ROUTINGS = ("pipeline", "rewrite", "shared")
CASES = 9  # of each kind
LIMITS = (600, 1500, 3000)


def limited(case: RandomCase, limit: StateLimit) -> RandomCase:
    disturbance = DISTURBANCES[case.seed % len(DISTURBANCES)]
    return replace(case, setup=replace(case.setup, state_limit=limit), disturbance=disturbance)


def limited_case(seed: int, variant: str) -> RandomCase:
    """A case whose state hardly fits."""
    limit = StateLimit(LIMITS[seed % len(LIMITS)], SHEDDING[seed // len(LIMITS) % len(SHEDDING)])
    return limited(draw_case(seed, variant=variant), limit)


def check_within(case: RandomCase, outcome: Outcome) -> None:
    """State is at or under its limit after each step."""
    assert case.setup.state_limit is not None
    for step in outcome.steps:
        assert step.metrics.get("memory_bytes", 0) <= case.setup.state_limit.nbytes, case.pretty()


def has_shed(outcome: Outcome) -> bool:
    return any(value for step in outcome.steps for name, value in step.metrics.items() if "shed" in name)


@pytest.mark.parametrize("variant", ROUTINGS)
def test_answers_are_a_part_of_the_oracles_and_state_is_within_the_limit(
    variant: str, long_mode: bool
) -> None:
    answered, shed, found = 0, 0, 0
    cases = CASES * (20 if long_mode else 1)
    for seed in range(cases):
        case = limited_case(seed, variant)
        outcome = run_case(case)
        for name, expected in outcome.expected.items():
            assert outcome.found[name] <= expected, case.pretty()
        check_within(case, outcome)
        answered += any(outcome.expected.values())
        found += any(outcome.found.values())
        shed += has_shed(outcome)
    assert answered >= 0.7 * cases
    assert shed >= 0.4 * cases
    assert found >= 0.3 * cases


@pytest.mark.parametrize("variant", ROUTINGS)
def test_a_limit_that_is_not_reached_or_that_sheds_nothing_changes_nothing(
    variant: str, long_mode: bool
) -> None:
    answered = 0
    limits = [StateLimit(1000, Shed.NONE), *(StateLimit(10**9, shed) for shed in SHEDDING)]
    cases = len(limits) * (20 if long_mode else 1)
    for seed in range(cases):
        case = limited(draw_case(seed, variant=variant), limits[seed % len(limits)])
        outcome = run_case(case)
        assert outcome.found == outcome.expected, case.pretty()
        assert not has_shed(outcome)
        assert not any(step.metrics.get("missed_milli", 0) for step in outcome.steps)
        answered += any(outcome.expected.values())
    assert answered >= 0.7 * cases


def test_answers_that_wait_and_values_keep_within_the_limit_too(long_mode: bool) -> None:
    """Values are among those the query has; samples of a tick are grouped of those that are left."""
    answered, shed, left_out = 0, 0, 0
    cases = CASES * (20 if long_mode else 1)
    for seed in range(cases):
        limit = StateLimit(LIMITS[seed % len(LIMITS)], SHEDDING[seed // len(LIMITS) % len(SHEDDING)])
        case = limited(shared_case(seed), limit)
        outcome = run_case(case)
        check_within(case, outcome)
        for name, query in case.queries.items():
            if query.distinct:  # one whose presence is cut short may appear again
                every = oracle.run(replace(query, distinct=False), case.batches, flush=case.flush).rows
                assert outcome.found[name].keys() <= oracle.bag(every).keys(), case.pretty()
        answered += any(outcome.expected.values())
        shed += has_shed(outcome)
        left_out += any(step.metrics.get("values_left_out", 0) for step in outcome.steps)
    assert answered >= 0.7 * cases
    assert shed >= 0.4 * cases
    assert left_out


@pytest.mark.parametrize("variant", ROUTINGS)
def test_a_batch_that_is_done_again_sheds_the_same(variant: str, long_mode: bool) -> None:
    """In whatever order its rows come."""
    shed = 0
    cases = 4 * (20 if long_mode else 1)
    for seed in range(cases):
        case = replace(limited_case(seed, variant), disturbance="restored")
        again = replace(case, setup=replace(case.setup, seed=case.setup.seed + 1))
        first, second = run_case(case), run_case(again)
        assert first.found == second.found, case.pretty()
        assert [kept(each.metrics) for each in first.steps] == [kept(each.metrics) for each in second.steps]
        shed += has_shed(first)
    assert shed


def kept(metrics: Any) -> dict[str, int]:
    """What is in the state, and what a step has shed."""
    return {name: value for name, value in metrics.items() if "shed" in name or name == "state_rows"}


@pytest.mark.parametrize(
    ("text", "rows", "keys", "share", "shed"),
    [
        (THREE, 50, 80, 0.2, Shed.RANDOM),
        (THREE, 50, 80, 0.2, Shed.LEAST),
        pytest.param(FOUR, 30, 30, 0.2, Shed.OLDEST, marks=pytest.mark.variant),
        pytest.param(THREE, 50, 80, 0.2, Shed.OLDEST, marks=pytest.mark.variant),
        pytest.param(FOUR, 30, 30, 0.2, Shed.RANDOM, marks=pytest.mark.variant),
        pytest.param(FOUR, 30, 30, 0.2, Shed.LEAST, marks=pytest.mark.variant),
    ],
)
def test_what_is_estimated_over_levels_is_what_is_found(
    text: str, rows: int, keys: int, share: float, shed: Shed
) -> None:
    true, told = compare(text, rows, keys, share, shed)
    assert true < 0.9
    assert told == pytest.approx(true, abs=0.05)


def test_a_query_with_few_rows_is_not_starved_by_one_with_many() -> None:
    """Equal bytes for each relation, so one that needs less than its part keeps all it has."""
    few = (
        "SELECT d.v AS dv, c.v AS cv FROM d [RANGE 1 SECONDS], c [RANGE 1 SECONDS] "
        "WHERE d.x = c.x AND d.y = c.y"
    )
    many = "SELECT a.v AS av, b.v AS bv FROM a [RANGE 6 SECONDS], b [RANGE 6 SECONDS] WHERE a.x = b.x"
    queries = {"few": bind_query(few, STREAMS), "many": bind_query(many, STREAMS)}
    setup = Setup(partitions=2, seed=3)
    workload = Workload(queries, 80, 40, setup)
    whole = run(workload)
    limit = StateLimit(int(0.6 * whole.peak_bytes), Shed.RANDOM)
    part = run(replace(workload, setup=replace(setup, state_limit=limit)))

    def of(found: Run, name: str) -> Counter[object]:
        return Counter({row: n for (query, row), n in found.answers.items() if query == name})

    assert of(whole, "few")
    assert of(part, "few") == of(whole, "few")
    assert 0 < of(part, "many").total() < of(whole, "many").total()

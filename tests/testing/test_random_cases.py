"""Random queries over random micro-batches, in process: answers are exactly the oracle's."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import pytest

from tests.testing.random_cases import VARIANTS, RandomCase, draw_case
from watersmeet.kernel import Shed
from watersmeet.oracle import oracle
from watersmeet.testing import InProcessEngine, Step

pytestmark = pytest.mark.slow

CASES = 154  # eleven of each variant
CHUNKS = 11  # tests that share them, so that a failing one names a few cases
WITH_ANSWERS = 0.8  # of the cases, at the least


@dataclass(frozen=True)
class Outcome:
    """What a case gave, and what the oracle says, by query."""

    found: dict[str, Counter[object]]
    expected: dict[str, Counter[object]]
    steps: list[Step]


def run_case(case: RandomCase) -> Outcome:
    queries = case.queries if case.variant == "shared" else case.query
    with InProcessEngine(queries, case.setup) as engine:
        steps = []
        for number, batch in enumerate(case.batches):
            disturb(engine, case.disturbance, number)
            steps.append(engine.step(batch))
        if case.flush:
            disturb(engine, case.disturbance, len(steps))
            steps.append(engine.end())
    found = {
        name: oracle.bag(row for step in steps for row in step.by_query.get(name, ()))
        for name in case.queries
    }
    expected = {
        name: oracle.bag(oracle.run(query, case.batches, flush=case.flush).rows)
        for name, query in case.queries.items()
    }
    return Outcome(found, expected, steps)


def disturb(engine: InProcessEngine, disturbance: str, number: int) -> None:
    match disturbance:
        case "restored":
            engine.lose_caches()
        case "moved":
            engine.move()
        case "restarted":
            engine.restart()
        case "failing" if number % 2:
            engine.repeat_next_batch()
        case "failing":
            engine.fail_next_task(2)


def check_case(case: RandomCase) -> Outcome:
    """Runs a case and refuses what the oracle does not say; says how to run it again."""
    try:
        outcome = run_case(case)
    except Exception as error:
        pytest.fail(f"{type(error).__name__}: {error}\n{case.pretty()}")
    limit = case.setup.state_limit
    for name, expected in outcome.expected.items():
        found = outcome.found[name]
        if limit is not None and case.variant == "limit small":
            assert found <= expected, f"more than the oracle's\n{found - expected}\n{case.pretty()}"
        else:
            assert found == expected, (
                f"lacks {expected - found}\nhas beside {found - expected}\n{case.pretty()}"
            )
    if limit is not None and limit.shed is Shed.NONE:
        shed = [
            value
            for step in outcome.steps
            for name, value in step.metrics.items()
            if name.startswith("shed_")
        ]
        assert not any(shed), case.pretty()
    return outcome


@pytest.fixture(scope="module")
def outcomes() -> dict[int, Outcome]:
    """By seed, what the cases gave so far."""
    return {}


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_answers_are_the_oracles(
    chunk: int, outcomes: dict[int, Outcome], request: pytest.FixtureRequest, long_mode: bool
) -> None:
    chosen = request.config.getoption("--case-seed")
    seeds = range(chunk, CASES * (20 if long_mode else 1), CHUNKS) if chosen is None else [chosen]
    for seed in seeds:
        case = draw_case(seed)
        assert all(len(query.inputs) >= 2 for query in case.queries.values())
        outcomes[seed] = check_case(case)


def test_most_cases_have_answers(outcomes: dict[int, Outcome]) -> None:
    """A case without answers proves little; of every variant most have some."""
    if len(outcomes) < CASES:
        pytest.skip("only some cases were run")
    seeds = range(CASES)
    shares = {
        variant: _share([outcomes[seed] for seed in seeds if VARIANTS[seed % len(VARIANTS)] == variant])
        for variant in VARIANTS
    }
    assert _share([outcomes[seed] for seed in seeds]) >= WITH_ANSWERS, shares
    assert min(shares.values()) >= 0.5, shares


def test_cases_reach_what_they_are_about(outcomes: dict[int, Outcome]) -> None:
    """Values do get hot, tuples are late, limits do shed and leave something."""
    if len(outcomes) < CASES:
        pytest.skip("only some cases were run")

    def reached(variant: str, metric: str) -> int:
        own = [outcomes[seed] for seed in range(CASES) if VARIANTS[seed % len(VARIANTS)] == variant]
        return sum(
            any(
                value > 0
                for step in each.steps
                for name, value in step.metrics.items()
                if name.startswith(metric)
            )
            for each in own
        )

    assert reached("hot values", "hot_values") >= 9
    assert reached("hot files", "hot_values") >= 9
    assert reached("limit small", "shed_") >= 5
    assert sum(reached(variant, "late_") for variant in VARIANTS) >= CASES // 5
    found = [
        sum(outcomes[seed].found[""].values())
        for seed in range(CASES)
        if VARIANTS[seed % len(VARIANTS)] == "limit small"
    ]
    assert sum(count > 0 for count in found) >= 7


def _share(outcomes: list[Outcome]) -> float:
    return sum(any(bag for bag in outcome.expected.values()) for outcome in outcomes) / len(outcomes)


def test_a_case_is_its_seed() -> None:
    assert draw_case(5).pretty() == draw_case(5).pretty()
    assert "--case-seed 5" in draw_case(5).pretty()

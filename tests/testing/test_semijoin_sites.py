"""Semijoin plans across sites in process: each answer once, whatever the delays and the restarts."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.lab.compared import Case, Compared, tuples_of
from tests.lab.wan.semijoin.plans import model_of, random_plan
from tests.plan.sites.semijoin.multiway.test_at_site import until_all_has_left
from tests.sites.random_sites import draw_sites
from tests.strategies import TIME_WINDOWS, cases
from tests.testing.test_sites import Play, Streams, within_lateness
from watersmeet.lab.wan.feed import feeds_of
from watersmeet.lab.wan.semijoin.run import Settings, execute
from watersmeet.oracle.oracle import bag, run
from watersmeet.plan.sites.semijoin.cost import ALL_METHODS, Method
from watersmeet.plan.sites.semijoin.model import SemijoinModel
from watersmeet.plan.sites.semijoin.multiway.semijoin_program import semijoin_programs
from watersmeet.plan.sites.semijoin.plan import Ordering, SemijoinPlan
from watersmeet.query import Query, RangeWindow, TumbleWindow

orderings = st.sampled_from(["linear", "tree"])


def drawn(query: Query, ordering: Ordering, rng: random.Random) -> tuple[SemijoinPlan, SemijoinModel]:
    """Any plan over up to four sites, with many methods or few."""
    placed = [f"n{rng.randrange(4)}" for _ in query.inputs]
    model = model_of(query.graph, placed, rng.choice([1, 5, 20]))
    methods = (
        rng.sample(ALL_METHODS, rng.choice([1, 2, len(ALL_METHODS)])) if ordering == "linear" else ALL_METHODS
    )
    return random_plan(model, rng, ordering, methods), model


def test_every_semijoin_plan_gives_the_oracles_answers_across_sites(
    examples: Callable[[int], settings],
) -> None:
    """Any join graph, time windows, any types of values, any sites and methods, delays and restarts."""
    compared = Compared()
    used: set[Method] = set()

    @examples(5)
    @given(cases(2, 4, kinds=("plain",), windows=TIME_WINDOWS), orderings, st.integers(0, 10**6))
    def check(case: Case, ordering: Ordering, seed: int) -> None:
        query, batches = case
        rng = random.Random(seed)
        streams = tuples_of(query, batches)
        query = within_lateness(query, streams)
        plan, model = drawn(query, ordering, rng)
        programs, topics = semijoin_programs(query, plan, model), rng.random() < 0.5
        play = Play(query, programs, streams, rng, topics=topics)
        found = play.to_the_end()
        compared.same(found, run(query, [streams], flush=True).rows)
        if all(isinstance(item.window, RangeWindow | TumbleWindow) for item in query.inputs):
            assert all(site.state_rows == 0 for site in play.run.sites.values())
        used.update(step.method for step in plan.steps)

    check()
    compared.assert_answers(0.3)
    assert len(used) > 3


def test_the_bytes_on_links_are_the_simulators(examples: Callable[[int], settings]) -> None:
    """Of the content of all messages, by the statistics, whatever the links delay."""
    crossing = []

    @examples(3)
    @given(cases(2, 4, kinds=("plain",), windows=TIME_WINDOWS, payloads=()), orderings, st.integers(0, 10**6))
    def check(case: Case, ordering: Ordering, seed: int) -> None:
        query, batches = case
        rng = random.Random(seed)
        streams = tuples_of(query, batches)
        query = within_lateness(query, streams)
        plan, model = drawn(query, ordering, rng)
        play = Play(query, semijoin_programs(query, plan, model), streams, rng)
        play.to_the_end()
        shipped = simulated(query, plan, model, streams)
        assert {way: size for way, size in play.run.bytes_by_link.items() if size} == shipped
        crossing.append(bool(shipped))

    check()
    assert sum(crossing) > 0.3 * len(crossing)


@pytest.mark.parametrize("method", ALL_METHODS)
def test_each_method_alone_is_exact_at_the_simulators_bytes(method: Method, tmp_path: Path) -> None:
    """Three streams at three sites, of which every step ships by this method."""
    case, rng = draw_sites(tmp_path, 8, "plain", 3), random.Random(1)
    model = model_of(case.query.graph, ("n0", "n1", "n2"), 500_000)
    plan = random_plan(model, rng, "linear", [method])
    play = Play(case.query, semijoin_programs(case.query, plan, model), case.streams, rng)
    found = play.to_the_end()
    assert bag(found) == bag(case.expected)
    assert len(found) > 20
    shipped = simulated(case.query, plan, model, case.streams)
    assert {way: size for way, size in play.run.bytes_by_link.items() if size} == shipped
    assert sum(shipped.values()) > 1000


def simulated(
    query: Query, plan: SemijoinPlan, model: SemijoinModel, streams: Streams
) -> dict[tuple[str, str], float]:
    """The bytes that the simulator ships over each link."""
    feeds = until_all_has_left(feeds_of(query, streams), model)
    crossed = execute(plan, model, feeds, Settings(heartbeats=True, delay_us=0)).ledger.crossed
    return {way: spent.bytes for way, spent in crossed.items() if spent.bytes}

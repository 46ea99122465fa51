"""SELECT DISTINCT and aggregates across sites in process: what comes together at one site is the oracle's."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.lab.compared import Case, Compared, tuples_of
from tests.lab.wan.pmjoin.test_pmjoin import drawn_plan
from tests.strategies import TIME_WINDOWS, answered_at_end, cases
from tests.testing.test_semijoin_sites import drawn
from tests.testing.test_sites import Play, within_lateness
from watersmeet.oracle.oracle import run
from watersmeet.plan.sites.placement import place
from watersmeet.plan.sites.plan_tree import MJoin, PlanNode, StreamLeaf
from watersmeet.plan.sites.semijoin.multiway.semijoin_program import SemijoinProgram, semijoin_programs
from watersmeet.plan.sites.site_program import SiteProgram, site_programs
from watersmeet.query import Query
from watersmeet.sql import bind_query
from watersmeet.testing import declare
from watersmeet.testing.sites import SitesInProcess

Programs = Mapping[str, SiteProgram | SemijoinProgram]


def with_answers_at_one_site(query: Query, rng: random.Random) -> Programs:
    """Any plan, of joins at sites or of semijoins, that finds all answers at one site."""
    while True:
        if rng.random() < 0.5:
            plan, model = drawn(query, rng.choice(["linear", "tree"]), rng)
            if len(plan.answer_sites) == 1:
                return semijoin_programs(query, plan, model)
        else:
            placement = place(query, drawn_plan(query, rng))
            if len({join.site for join in placement.joins if join.route is None}) == 1:
                return site_programs(query, placement)


def test_values_and_groups_are_the_oracles(examples: Callable[[int], settings]) -> None:
    """Any query and plan, whatever links delay, with restarts; no answer is kept at the end."""
    compared, kinds, crossing = Compared(), set(), []

    @examples(8)
    @given(cases(2, 3, kinds=("distinct", "aggregate"), windows=TIME_WINDOWS), st.integers(0, 10**6))
    def check(case: Case, seed: int) -> None:
        query, batches = case
        rng = random.Random(seed)
        if query.aggregate is not None and rng.random() < 0.3:
            query = answered_at_end(query)
        streams = tuples_of(query, batches)
        query = within_lateness(query, streams)
        programs = with_answers_at_one_site(query, rng)
        play = Play(query, programs, streams, rng, topics=rng.random() < 0.5)
        found = play.to_the_end()
        expected = run(query, [streams], flush=True).rows
        compared.same(found, expected)
        if expected:
            kinds.add((query.distinct, isinstance(next(iter(programs.values())), SemijoinProgram)))
            crossing.append(bool(play.run.links))
        if all(item.window.is_bounded for item in query.inputs):
            assert all(site.state_rows == 0 for site in play.run.sites.values())

    check()
    compared.assert_answers(0.3)
    assert {is_distinct for is_distinct, _ in kinds} == {True, False}
    assert {is_semijoin for _, is_semijoin in kinds} == {True, False}
    assert sum(crossing) > 0.3 * len(crossing)


def at_oslo(text: str) -> SitesInProcess:
    """Paris sends all its tuples to oslo."""
    streams = [declare(name, "k BIGINT, ts TIMESTAMP", event_time="ts") for name in "ab"]
    leaves = (StreamLeaf("a", "paris", 1.0, 8.0), StreamLeaf("b", "oslo", 1.0, 8.0))
    plan: PlanNode = MJoin(leaves, "oslo", 1.0, 16.0)
    return SitesInProcess(bind_query(text, streams), plan)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT DISTINCT a.k FROM a [RANGE 10 SECONDS], b [RANGE 10 SECONDS] WHERE a.k = b.k", [(1,)]),
        (
            "SELECT count(*) AS n FROM a [RANGE 10 SECONDS], b [RANGE 10 SECONDS] WHERE a.k = b.k "
            "EMIT EVERY 5 SECONDS",
            [(2,), (2,), (2,)],
        ),
    ],
)
def test_they_wait_for_what_a_link_may_still_bring(text: str, expected: list[tuple[int]]) -> None:
    """Oslo is a minute ahead: answers come out when a file of paris says that no earlier one can."""
    sites = at_oslo(text)
    paris, oslo = sites.sites["paris"], sites.sites["oslo"]
    paris.step({"a": [(1, "00:00:20"), (1, "00:00:20")]})
    oslo.step({"b": [(1, "00:00:20")]})
    assert oslo.step({"b": [(7, "00:01:20")]}, {"paris": [0]}).answers == []
    paris.step({"a": [(2, "00:00:31")]})
    oslo.restart()
    assert oslo.step({}, {"paris": [1]}).answers == expected
    assert oslo.state_rows > 0


def test_a_value_that_is_present_is_remembered() -> None:
    """A second answer of a value lets nothing out while the first one holds, not after a restart either."""
    sites = at_oslo("SELECT DISTINCT a.k FROM a [RANGE 10 SECONDS], b [RANGE 10 SECONDS] WHERE a.k = b.k")
    paris, oslo = sites.sites["paris"], sites.sites["oslo"]
    for key, time in ((1, "00:00:20"), (2, "00:00:22"), (3, "00:00:30")):
        paris.step({"a": [(key, time)]})
    oslo.step({"b": [(1, "00:00:20")]})
    assert oslo.step({"b": [(1, "00:00:23")]}, {"paris": [0, 1]}).answers == [(1,)]
    oslo.restart()
    assert oslo.step({"b": [(9, "00:00:31")]}, {"paris": [2]}).answers == []

"""From one plan across sites to another while answers come: each answer once, from one of them."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.lab.compared import Case, Compared, tuples_of
from tests.lab.wan.pmjoin.test_pmjoin import drawn_plan
from tests.strategies import cases
from tests.testing.test_semijoin_sites import drawn
from tests.testing.test_sites import Play, Streams, within_lateness
from watersmeet.errors import QueryError
from watersmeet.oracle.oracle import Row, Tuple, run
from watersmeet.plan.sites.change_over import EVER, Tenure, taken_over
from watersmeet.plan.sites.plan_tree import PlanNode
from watersmeet.plan.sites.semijoin.multiway.semijoin_program import SemijoinProgram, semijoin_programs
from watersmeet.plan.sites.semijoin.plan import Ordering
from watersmeet.query import BEGINNING, NEVER, Query
from watersmeet.query.window import RangeWindow, TumbleWindow
from watersmeet.sql import bind_query
from watersmeet.testing import declare

ORDERINGS: tuple[Ordering, ...] = ("linear", "tree")


class Changing(Play):
    """Plays streams to the sites of a plan, up to any point or to the end of its tenure."""

    seen_us = BEGINNING

    def _take(self, site: str, stream: str) -> list[Tuple]:
        taken = super()._take(site, stream)
        self.seen_us = max([self.seen_us, *(one.ts for one in taken)])
        return taken

    def some(self, steps: int) -> None:
        """So many micro-batches, at any sites."""
        for _ in range(steps):
            self.batch(self.rng.choice(list(self.run.sites.values())))

    def hand_over(self, tenure: Tenure) -> None:
        """All sites are stopped; resumed, they give the answers of this tenure alone."""
        self.run.tenure = tenure
        for site in self.run.sites.values():
            site.restart(workers_stay=False)

    def to_the_end_of_tenure(self) -> list[Row]:
        """All answers, once each site has found that nothing more of its own can come, and has stopped."""
        while left := [site for site in self.run.sites.values() if not (site.is_over or site.has_ended)]:
            self.batch(self.rng.choice(left))
        return self.found


def again_and_again(streams: Streams, times: int = 6) -> Streams:
    """The same tuples several times, one time after the other: for so long that windows are short."""
    every = [one.ts for own in streams.values() for one in own]
    span = max(every, default=0) - min(every, default=0) + 1
    return {
        name: [replace(one, ts=one.ts + n * span) for n in range(times) for one in own]
        for name, own in streams.items()
    }


def any_plan(query: Query, rng: random.Random) -> PlanNode | dict[str, SemijoinProgram]:
    """A plan of joins at sites, or one of semijoins."""
    if rng.random() < 0.5:
        return drawn_plan(query, rng)
    return semijoin_programs(query, *drawn(query, rng.choice(ORDERINGS), rng))


def test_a_plan_that_takes_over_loses_and_repeats_nothing(examples: Callable[[int], settings]) -> None:
    """Any plans, one after another, at any point; the old one stops at each site as soon as it can."""
    compared, shared = Compared(), []

    @examples(6)
    @given(cases(2, 3, kinds=("plain",), windows=(RangeWindow, TumbleWindow)), st.integers(0, 10**6))
    def check(case: Case, seed: int) -> None:
        query, batches = case
        rng = random.Random(seed)
        streams = again_and_again(tuples_of(query, batches))
        if rng.random() < 0.7:  # otherwise most of it has been read when the plan changes
            streams = {name: sorted(own, key=lambda one: one.ts) for name, own in streams.items()}
        query = within_lateness(query, streams)
        play = Changing(query, any_plan(query, rng), streams, rng)
        play.most = 5
        play.some(rng.randint(0, 12))
        by_plan = []
        for _ in range(rng.choice([1, 1, 2])):
            if play.seen_us == BEGINNING:
                break
            tenure = taken_over(query, play.seen_us)
            if tenure.since_us < play.run.tenure.since_us:
                break  # the plan before has not taken over yet
            play.hand_over(play.run.tenure.until(tenure.since_us))
            new = Changing(query, any_plan(query, rng), streams, rng, tenure=tenure)
            new.most = 5
            new.some(rng.randint(0, 12))
            by_plan.append(play.to_the_end_of_tenure())
            play = new
        by_plan.append(play.to_the_end_of_tenure())
        found = [row for rows in by_plan for row in rows]
        compared.same(found, run(query, [streams], flush=True).rows)
        shared.append(sum(bool(rows) for rows in by_plan) > 1)

    check()
    compared.assert_answers(0.2)
    assert sum(shared) > 0.05 * len(shared), "answers of both plans"


def test_what_the_new_plan_gives_starts_a_window_after_what_was_read() -> None:
    streams = [declare(name, "k BIGINT, ts TIMESTAMP", event_time="ts") for name in "ab"]
    query = bind_query("SELECT a.k FROM a [RANGE 10 SECONDS], b [TUMBLE 1 MINUTE] WHERE a.k = b.k", streams)
    tenure = taken_over(query, 1_000_000)
    assert tenure == Tenure(since_us=61_000_001, after_us=1_000_000)
    assert EVER.until(tenure.since_us).until_us == tenure.since_us
    assert (EVER.is_first, tenure.is_first) == (True, False)
    assert (tenure.is_replaced, EVER.until(tenure.since_us).is_replaced) == (False, True)


def test_a_plan_is_over_once_all_marks_are_past_its_end() -> None:
    tenure = Tenure(until_us=100)
    assert not tenure.is_over({})
    assert not tenure.is_over({"a": NEVER, "b": 99})
    assert tenure.is_over({"a": NEVER, "b": 100})
    assert not EVER.is_over({"a": 100})


def test_unbounded_windows_are_refused() -> None:
    streams = [declare(name, "k BIGINT, ts TIMESTAMP", event_time="ts") for name in "ab"]
    query = bind_query("SELECT a.k FROM a [RANGE 10 SECONDS], b [UNBOUNDED] WHERE a.k = b.k", streams)
    with pytest.raises(QueryError, match=r"b .*has no end, so the plan cannot change while the query runs"):
        taken_over(query, 0)

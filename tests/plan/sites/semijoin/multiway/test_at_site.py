"""Semijoin plans at their sites, in pure Python: exact answers and the lab's bytes, whatever the delays."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.lab.compared import Case, Compared, tuples_of
from tests.lab.wan.semijoin.plans import model_of, random_plan
from tests.strategies import TIME_WINDOWS, cases
from watersmeet.lab.wan.feed import Feed, feeds_of
from watersmeet.lab.wan.semijoin.run import SemijoinRun, Settings, execute
from watersmeet.oracle import oracle
from watersmeet.plan.sites.semijoin.cost import ALL_METHODS, Method
from watersmeet.plan.sites.semijoin.model import SemijoinModel
from watersmeet.plan.sites.semijoin.multiway.at_site import Mail, Posted, SiteLane, interval_mark
from watersmeet.plan.sites.semijoin.multiway.semijoin_program import SemijoinProgram, semijoin_programs
from watersmeet.plan.sites.semijoin.oneway.items import Item, Member
from watersmeet.plan.sites.semijoin.plan import Ordering, SemijoinPlan
from watersmeet.query import NEVER, Query, RangeWindow, TumbleWindow

Way = tuple[str, str]

orderings = st.sampled_from(["linear", "tree"])
joins = cases(min_inputs=2, max_inputs=4, kinds=("plain",), payloads=(), windows=TIME_WINDOWS)


class Sites:
    """All lanes of all sites, with links as slow as they like."""

    def __init__(self, query: Query, plan: SemijoinPlan, model: SemijoinModel, rng: random.Random) -> None:
        self.query, self.rng = query, rng
        self.programs = semijoin_programs(query, plan, model)
        windows = {item.alias: item.window for item in query.inputs}
        self.lanes = {
            (site, lane): SiteLane(program, query.graph, windows)
            for site, program in self.programs.items()
            for lane in range(program.lanes)
        }
        self.mail: dict[tuple[Way, int], list[Mail]] = {}
        self.posted: dict[Way, list[Posted]] = {}
        self.answers: list[Item] = []

    def play(self, feeds: Mapping[str, Feed]) -> None:
        """Everything arrives, in any order that keeps each stream and each link in order."""
        for lane in self.lanes:
            self._run(lane)
        moves: list[Callable[[], bool]] = [
            self._arrivals(lane, alias, feeds[alias])
            for lane in self.lanes
            for alias in self.programs[lane[0]].aliases
        ]
        while moves or any(self.mail.values()):
            if moves and self.rng.random() < 0.5:
                move = self.rng.choice(moves)
                if not move():
                    moves.remove(move)
            elif any(self.mail.values()):
                way, lane = self.rng.choice([key for key, mail in self.mail.items() if mail])
                for _ in range(self.rng.randint(1, len(self.mail[way, lane]))):
                    self.lanes[way[1], lane].receive(self.mail[way, lane].pop(0))
                    self._run((way[1], lane))

    def _arrivals(self, lane: tuple[str, int], alias: str, feed: Feed) -> Callable[[], bool]:
        """Closes some more intervals of an input at each call, until there are none."""
        program = self.programs[lane[0]]
        batches: dict[int, list[Member]] = {}
        for member in feed.members:
            if lane_of(program, member) == lane[1]:
                batches.setdefault(member.ts // program.interval_us, []).append(member)
        left = sorted(batches)

        def move() -> bool:
            count = self.rng.choice([1, 2, len(left)])
            due = {interval: batches[interval] for interval in left[:count]}
            del left[:count]
            bound = (max(due) + 1) * program.interval_us if left and due else NEVER
            self.lanes[lane].close(alias, interval_mark(bound, program.interval_us), due)
            self._run(lane)
            return bool(left)

        return move

    def _run(self, lane: tuple[str, int]) -> None:
        mails, answers = self.lanes[lane].run()
        self.answers += answers
        for site, mail in mails.items():
            self.mail.setdefault(((lane[0], site), lane[1]), []).append(mail)
            self.posted.setdefault((lane[0], site), []).extend(mail.posted)

    def heard_all(self) -> bool:
        return all(
            lane.heard_from(other) == NEVER
            for (site, _), lane in self.lanes.items()
            for other in self.programs[site].sources
        )


def lane_of(program: SemijoinProgram, member: Member) -> int:
    return 0 if program.lane_class is None else hash(member.keys[program.lane_class]) % program.lanes


def drawn(case: Case, ordering: Ordering, seed: int) -> tuple[Query, SemijoinPlan, SemijoinModel]:
    query, _ = case
    rng = random.Random(seed)
    placed = [f"n{rng.randrange(4)}" for _ in query.inputs]
    model = model_of(query.graph, placed, rng.choice([1, 5, 20]))
    # With few methods steps share more; a tree's levels need one for either end.
    chosen = rng.sample(ALL_METHODS, rng.choice([1, 2, len(ALL_METHODS)]))
    return query, random_plan(model, rng, ordering, chosen if ordering == "linear" else ALL_METHODS), model


def rows_of(query: Query, plan: SemijoinPlan, found: list[Item], sites: Sites) -> list[tuple[object, ...]]:
    run = SemijoinRun(plan=plan, wan=None, ledger=None, delay_us=None)  # type: ignore[arg-type]
    run.answers = [item.members for item in found]
    return run.rows(query)


def test_any_plan_gives_the_oracles_answers_whatever_the_delays(examples: Callable[[int], settings]) -> None:
    """Every method, linear and tree, two to four inputs at up to four sites; nothing is kept at the end."""
    compared = Compared()
    used: set[Method] = set()

    @examples(40)
    @given(case=joins, ordering=orderings, seed=st.integers(0, 10**6))
    def check(case: Case, ordering: Ordering, seed: int) -> None:
        query, plan, model = drawn(case, ordering, seed)
        streams = tuples_of(query, case[1])
        sites = Sites(query, plan, model, random.Random(seed + 1))
        sites.play(feeds_of(query, streams))
        compared.same(rows_of(query, plan, sites.answers, sites), oracle.emitted(query, streams))
        assert sites.heard_all()
        assert all(lane.complete == NEVER for lane in sites.lanes.values())
        if all(isinstance(item.window, RangeWindow | TumbleWindow) for item in query.inputs):
            assert all(lane.held == 0 for lane in sites.lanes.values())
        used.update(step.method for step in plan.steps)

    check()
    compared.assert_answers(0.3)
    assert used == set(ALL_METHODS)


def test_delays_change_not_a_byte(examples: Callable[[int], settings]) -> None:
    """What crosses each link is what the simulator ships over links that delay nothing, content only."""
    crossing = []

    @examples(25)
    @given(case=joins, ordering=orderings, seed=st.integers(0, 10**6))
    def check(case: Case, ordering: Ordering, seed: int) -> None:
        query, plan, model = drawn(case, ordering, seed)
        feeds = feeds_of(query, tuples_of(query, case[1]))
        sites = Sites(query, plan, model, random.Random(seed + 1))
        sites.play(feeds)
        run = execute(plan, model, until_all_has_left(feeds, model), Settings(heartbeats=True, delay_us=0))
        shipped = {way: spent.bytes for way, spent in run.ledger.crossed.items() if spent.bytes}
        found = {way: sum(one.bytes for one in posted) for way, posted in sites.posted.items()}
        assert {way: size for way, size in found.items() if size} == shipped
        crossing.append(bool(shipped))

    check()
    assert sum(crossing) > 0.3 * len(crossing)


def until_all_has_left(feeds: Mapping[str, Feed], model: SemijoinModel) -> dict[str, Feed]:
    """The same tuples, and intervals until the last of them has left its window."""
    ends = [member.end for feed in feeds.values() for member in feed.members if member.end != NEVER]
    ends += [ts for feed in feeds.values() for ts in feed.times]
    last = max(ends, default=0) + round(2e6 * model.interval_s)
    return {alias: replace(feed, times=(*feed.times, last)) for alias, feed in feeds.items()}

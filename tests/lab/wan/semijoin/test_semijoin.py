"""Semijoin plans on a WAN (Tran and Lee 2010) against the oracle; tests name the section they check."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.lab.compared import Case, Compared, tuples_of
from tests.lab.wan.semijoin.plans import model_of, random_plan
from tests.strategies import cases
from watersmeet.errors import ConfigurationError
from watersmeet.lab.wan.feed import Feed, feed_of, feeds_of
from watersmeet.lab.wan.semijoin.run import Execution, SemijoinRun, Settings, execute
from watersmeet.oracle import oracle
from watersmeet.oracle.oracle import Tuple
from watersmeet.plan.sites.semijoin.cost import ALL_METHODS, Method
from watersmeet.plan.sites.semijoin.model import Reading, SemijoinModel
from watersmeet.plan.sites.semijoin.multiway.steps import Running
from watersmeet.plan.sites.semijoin.multiway.tree_level import Level
from watersmeet.plan.sites.semijoin.oneway.items import Item, Member
from watersmeet.plan.sites.semijoin.oneway.messages import Ship, Tuples
from watersmeet.plan.sites.semijoin.plan import Ordering, SemijoinPlan
from watersmeet.plan.sites.semijoin.semijoin import optimize_semijoin
from watersmeet.plan.statistics.statistics import Link
from watersmeet.query import (
    NEVER,
    Attribute,
    AttributeClass,
    Column,
    Expr,
    Input,
    JoinGraph,
    Output,
    Query,
    Stream,
    Window,
    column_expr,
    range_us,
    rows,
)

orderings = st.sampled_from(["linear", "tree"])
readings = st.sampled_from(["printed", "shipped", "shipped"])
joins = cases(min_inputs=2, max_inputs=4, kinds=("plain",), payloads=(), key_types=("bigint", "string"))


def simulate(
    case: Case,
    ordering: Ordering,
    seed: int,
    sites: int,
    options: Settings,
    methods: Sequence[Method] = ALL_METHODS,
    reading: Reading = "shipped",
) -> tuple[SemijoinRun, list[Any], list[Any]]:
    """A random plan for a case, run; with its rows and the oracle's."""
    query, batches = case
    rng = random.Random(seed)
    placed = [f"n{rng.randrange(sites)}" for _ in query.inputs]
    link = Link(latency_s=rng.choice([0, 3, 11]) / 1e6)
    model = model_of(query.graph, placed, rng.choice([1, 5, 20]), link, reading=reading)
    streams = tuples_of(query, batches)
    # With few methods steps share more; a tree's levels need one for either end.
    chosen = rng.sample(methods, rng.choice([1, 2, len(methods)])) if ordering == "linear" else methods
    run = execute(random_plan(model, rng, ordering, chosen), model, feeds_of(query, streams), options)
    return run, run.rows(query), oracle.emitted(query, streams)


def test_any_plan_returns_the_oracles_bag_under_random_delays(examples: Callable[[int], settings]) -> None:
    """Appendix A, claim 1: all plans are equivalent; here for every window, time and rows."""
    compared = Compared()

    @examples(20)
    @given(
        case=joins, ordering=orderings, seed=st.integers(0, 10**6), sites=st.integers(1, 4), reading=readings
    )
    def check(case: Case, ordering: Ordering, seed: int, sites: int, reading: Reading) -> None:
        options = Settings(delay_us=24, jitter_us=13, seed=seed)
        run, found, expected = simulate(case, ordering, seed, sites, options, reading=reading)
        assert run.wan.delay_bound_us() <= 24
        compared.same(found, expected)

    check()
    compared.assert_answers(0.3)


def test_with_heartbeats_no_delay_makes_an_answer_wrong(examples: Callable[[int], settings]) -> None:
    """Section 7's future work: delays far above the bound are seen, and nothing wrong comes out."""
    compared = Compared()

    @examples(15)
    @given(
        case=joins, ordering=orderings, seed=st.integers(0, 10**6), sites=st.integers(1, 4), reading=readings
    )
    def check(case: Case, ordering: Ordering, seed: int, sites: int, reading: Reading) -> None:
        options = Settings(delay_us=11, jitter_us=150, heartbeats=True, seed=seed)
        run, found, expected = simulate(case, ordering, seed, sites, options, reading=reading)
        compared.same(found, expected)
        assert (run.late > 0) == (run.wan.delay_bound_us() > 11)

    check()
    compared.assert_answers(0.3)


def test_a_level_closes_its_intervals_in_order_when_a_later_one_is_complete_first() -> None:
    """Section 4.2 with heartbeats: a batch that waits for its tuples must not be overtaken by the next."""
    level = Level(("a", "b"), "n0", (), 20)
    one = [Item(t, NEVER, 0, (Member(0, t, NEVER, (1,)), Member(0, t, NEVER, (1,)))) for t in (20, 21)]
    for interval in (21, 20):
        assert not level.is_complete
        level.add(interval, [one[interval - 20]])
        level.note_received(interval, "step 0")
        level.note_received(interval, "step 1")
    closed = []
    while level.is_complete:
        interval = level.next_interval
        closed.append((interval, [item.t for item in level.close()[0]]))
    assert closed == [(20, [20]), (21, [21])]


def test_a_late_message_finds_what_a_slow_level_joined() -> None:
    """A run that lost its answer while a level's interval 21 could close before its interval 20.

    Lifetimes: a [20, 22), b and c [21, 23), d [11, 22): all four overlap at 21.
    """
    query, batches = late_level_case()
    streams = tuples_of(query, batches)
    expected = oracle.bag(oracle.emitted(query, streams))
    assert sum(expected.values()) == 1
    for seed in (124_000, *range(30)):
        options = Settings(delay_us=11, jitter_us=150, heartbeats=True, seed=seed)
        assert oracle.bag(simulate((query, batches), "tree", seed, 3, options)[1]) == expected


def late_level_case() -> tuple[Query, list[Any]]:
    """a.k = b.k (twice), b.k = c.k, c.k = d.k, with short lifetimes."""
    pairs = [(("a", "k0"), ("b", "k0")), (("a", "k1"), ("b", "k1")), (("b", "k2"), ("c", "k2"))]
    pairs.append((("c", "k3"), ("d", "k3")))
    graph = JoinGraph(
        tuple("abcd"),
        tuple(
            AttributeClass(
                tuple(Attribute(alias, column_expr(alias, name, "bigint")) for alias, name in pair)
            )
            for pair in pairs
        ),
    )
    columns = tuple(Column(f"k{n}", "bigint") for n in range(4))
    sizes = {"a": ("s1", 1), "b": ("s2", 1), "c": ("s2", 1), "d": ("s3", 10)}
    inputs = tuple(Input(alias, Stream(name, columns), range_us(us)) for alias, (name, us) in sizes.items())
    answer_time = Expr("answer_time", (), None, True)
    times = {"s1": [20], "s2": [0] * 5 + [21], "s3": [11]}
    ones = {column.name: 1 for column in columns}
    batch = {name: [Tuple(ts, ones) for ts in every] for name, every in times.items()}
    return Query(inputs, graph, (Output("t", answer_time),)), [batch]


def pair_graph() -> JoinGraph:
    """S1.a = S2.a."""
    members = tuple(Attribute(alias, column_expr(alias, "a")) for alias in ("S1", "S2"))
    return JoinGraph(("S1", "S2"), (AttributeClass(members),))


def two_feeds(
    seed: int, window: Window, count: int = 300, values: tuple[int, int] = (8, 8), period_us: int = 10
) -> dict[str, Feed]:
    """Two streams of random values, a tuple of each every period."""
    rng = random.Random(seed)
    return {
        alias: feed_of(window, [(n * period_us + offset, (rng.randrange(d),)) for n in range(count)])
        for offset, (alias, d) in enumerate(zip(("S1", "S2"), values, strict=True))
    }


def pairs_of(feeds: dict[str, Feed]) -> Counter[tuple[int, int]]:
    """Which positions of S1 and S2 match within both lifetimes, naively."""
    found: Counter[tuple[int, int]] = Counter()
    ends = {
        alias: [
            (
                member,
                feed.times[successor]
                if feed.window.counts_rows
                and (successor := feed.window.successor(member.position)) < len(feed.times)
                else member.end,
            )
            for member in feed.members
        ]
        for alias, feed in feeds.items()
    }
    for one, end in ends["S1"]:
        for other, other_end in ends["S2"]:
            if one.keys == other.keys and max(one.ts, other.ts) < min(end, other_end):
                found[one.position, other.position] += 1
    return found


def plan_by(model: SemijoinModel, method: Method) -> SemijoinPlan:
    return random_plan(model, random.Random(0), "linear", [method])


class Recorded(Execution):
    """An execution that keeps every shipment."""

    def run(self) -> SemijoinRun:
        self.shipped: list[tuple[int, Ship]] = []
        return super().run()

    def _perform(self, step: Running, half: Any, actions: Any) -> None:
        self.shipped += [(step.number, action) for action in actions if isinstance(action, Ship)]
        super()._perform(step, half, actions)


@pytest.mark.parametrize("method", ALL_METHODS, ids=lambda method: method.value)
@pytest.mark.parametrize("window", [range_us(300), rows(25)], ids=["time", "rows"])
def test_nothing_is_shipped_twice(method: Method, window: Window) -> None:
    """Sections 3.1 and 3.2: a full tuple crosses a link at most once in a one-way join, and joins right."""
    feeds = two_feeds(3, window, values=(8, 12))
    model = model_of(pair_graph(), ("N1", "N2"), 50, Link(latency_s=20e-6))
    execution = Recorded(plan_by(model, method), model, feeds, Settings(delay_us=30, jitter_us=10))
    run = execution.run()
    full: Counter[tuple[int, str, int]] = Counter()
    for step, shipment in execution.shipped:
        tuples: Sequence[Item] = ()
        if isinstance(shipment.message, Tuples):
            tuples = shipment.message.items
        elif getattr(shipment.message, "update", None):
            tuples = shipment.message.update.full  # type: ignore[attr-defined]
        full.update((step, shipment.term in ("ship B1", "ship B'1"), item.number) for item in tuples)  # type: ignore[misc]
    assert full
    assert max(full.values()) == 1
    assert Counter((a.position, b.position) for a, b in run.answers) == pairs_of(feeds)


@pytest.mark.parametrize("method", ALL_METHODS, ids=lambda method: method.value)
def test_a_delay_above_the_bound_loses_answers_silently_without_heartbeats_only(method: Method) -> None:
    """Section 2.2's own warning, and what punctuation does about it."""
    feeds = two_feeds(5, rows(6), count=200, values=(3, 3))
    model = model_of(pair_graph(), ("N1", "N2"), 20, Link(latency_s=400e-6))
    plan, expected = plan_by(model, method), pairs_of(feeds)

    def found(options: Settings) -> tuple[SemijoinRun, Counter[tuple[int, int]]]:
        run = execute(plan, model, feeds, options)
        return run, Counter((a.position, b.position) for a, b in run.answers)

    assert found(Settings(delay_us=400))[1] == expected
    assert found(Settings(delay_us=5))[1] != expected
    run, answers = found(Settings(delay_us=5, heartbeats=True))
    assert answers == expected
    assert run.late > 0
    assert found(Settings(delay_us=400, heartbeats=True))[0].late == 0


def test_the_filter_lets_some_tuples_pass_in_vain_and_the_answers_are_exact() -> None:
    """SM-B: false positives are shipped, counted, and join nothing."""
    feeds = two_feeds(7, range_us(200), count=400, values=(400, 20))
    model = model_of(pair_graph(), ("N1", "N2"), 50, Link(latency_s=20e-6), values=20)
    run = execute(plan_by(model, Method.SM_B), model, feeds, Settings(delay_us=20))
    simple = execute(plan_by(model, Method.SP_D), model, feeds, Settings(delay_us=20))
    assert Counter(run.answers) == Counter(simple.answers)
    assert 0 < run.wasted < 100
    assert run.ledger.spent[0, "ship B'1"].bytes < simple.ledger.spent[0, "ship B1"].bytes / 4


def test_the_ledger_prices_what_crossed_the_links() -> None:
    """With queues, every byte, message and second of transfer that the WAN saw is in the ledger."""
    feeds = two_feeds(9, range_us(30_000), period_us=1000)
    model = model_of(pair_graph(), ("N1", "N2"), 5000, Link(bytes_per_s=1_000_000, latency_s=0.002))
    for method in ALL_METHODS:
        run = execute(plan_by(model, method), model, feeds)  # the bound is measured
        assert run.delay_us is not None
        assert run.wan.delay_bound_us() <= run.delay_us
        assert run.ledger.bytes == pytest.approx(run.wan.total_bytes)
        assert run.ledger.messages == run.wan.total_messages
        shipped = sum(spent.seconds for (_, term), spent in run.ledger.spent.items() if "ship" in term)
        assert shipped == pytest.approx(run.wan.transmission_us / 1e6, rel=1e-3)
        assert Counter((a.position, b.position) for a, b in run.answers) == pairs_of(feeds)


def test_the_optimizers_plans_run_as_they_are(examples: Callable[[int], settings]) -> None:
    """Definition 1 and section 4.2: plans of both searches, SM-B among the methods."""
    compared = Compared()

    @examples(10)
    @given(case=joins, ordering=orderings, seed=st.integers(0, 10**6))
    def check(case: Case, ordering: Ordering, seed: int) -> None:
        query, batches = case
        model = model_of(query.graph, [f"n{n}" for n in range(len(query.inputs))], 7, Link(1e6, 5e-6))
        model = replace(model, methods=ALL_METHODS)
        streams = tuples_of(query, batches)
        for search in ("greedy", "exhaustive"):
            plan = optimize_semijoin(model, ordering=ordering, search=search)  # type: ignore[arg-type]
            run = execute(plan, model, feeds_of(query, streams), Settings(heartbeats=True, seed=seed))
            compared.same(run.rows(query), oracle.emitted(query, streams))

    check()
    compared.assert_answers(0.3)


def test_answers_can_be_counted_without_being_kept() -> None:
    feeds = two_feeds(1, range_us(300))
    model = model_of(pair_graph(), ("N1", "N2"), 50)
    plan = plan_by(model, Method.SM_D2)
    whole = execute(plan, model, feeds, Settings(delay_us=0))
    counted = execute(plan, model, feeds, Settings(delay_us=0, count_only=True))
    assert counted.count == whole.count == len(whole.answers)
    assert counted.answers == []


def test_missing_streams_are_refused() -> None:
    model = model_of(pair_graph(), ("N1", "N2"), 50)
    with pytest.raises(ConfigurationError, match="no tuples are given for the inputs S2"):
        execute(plan_by(model, Method.SP_S), model, {"S1": two_feeds(0, rows(1))["S1"]})

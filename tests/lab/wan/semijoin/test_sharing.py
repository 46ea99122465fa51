"""Steps that need the same copy of a window or of its values share it; whole batches cross a link once."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from tests.lab.wan.semijoin.plans import model_of, random_plan
from tests.plan.joins import join_graph
from watersmeet.lab.wan.feed import feeds_of
from watersmeet.lab.wan.semijoin.run import SemijoinRun, Settings, execute
from watersmeet.oracle import oracle
from watersmeet.oracle.oracle import Tuple
from watersmeet.plan.sites.semijoin.cost import Method
from watersmeet.plan.sites.semijoin.model import Reading
from watersmeet.plan.sites.semijoin.multiway.steps import shared_copies
from watersmeet.plan.sites.semijoin.plan import SemijoinPlan
from watersmeet.plan.statistics.statistics import Link
from watersmeet.query import (
    Column,
    Input,
    Output,
    Query,
    Stream,
    Window,
    column_expr,
    range_us,
    rows,
    tumble_us,
)

COPIES = (Method.SP_S, Method.SM_S1, Method.SM_S2, Method.SM_D1, Method.SM_B)
WINDOWS = {"range": range_us(60), "tumble": tumble_us(80), "rows": rows(7)}
INTERVAL_US = 10


def one_key(window: Window) -> Query:
    """r.k = s.k = t.k; answers tell which tuples they are of."""
    aliases = ("r", "s", "t")
    columns = (Column("c0", "bigint"), Column("n", "bigint"))
    inputs = tuple(Input(alias, Stream(alias, columns, event_time="at"), window) for alias in aliases)
    select = tuple(Output(alias, column_expr(alias, "n")) for alias in aliases)
    return Query(inputs, join_graph(aliases, [aliases]), select)


def tuples(seed: int) -> dict[str, list[Tuple]]:
    """A tuple of each stream every few microseconds, of few values."""
    rng = random.Random(seed)
    times = {alias: sorted(rng.randrange(400) for _ in range(90)) for alias in ("r", "s", "t")}
    return {
        alias: [Tuple(ts, {"c0": rng.randrange(5), "n": n, "at": ts}) for n, ts in enumerate(every)]
        for alias, every in times.items()
    }


def plan_and_run(
    method: Method, window: Window, options: Settings, reading: Reading = "shipped"
) -> tuple[SemijoinPlan, SemijoinRun, Query]:
    """r and s at one site probe t at another by the same method, in sequences that begin r, t and s, t."""
    query = one_key(window)
    model = model_of(query.graph, ("n0", "n0", "n1"), INTERVAL_US, Link(latency_s=7e-6), reading=reading)
    for seed in range(200):
        plan = random_plan(model, random.Random(seed), "linear", [method])
        begins = {head: plan.sequence(head)[0].target for head in "rs"}
        if begins == {"r": ("t",), "s": ("t",)}:
            return plan, execute(plan, model, feeds_of(query, tuples(3)), options), query
    raise AssertionError("no such plan was drawn")


@pytest.mark.parametrize("heartbeats", [False, True], ids=["bound", "heartbeats"])
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("method", COPIES, ids=lambda method: method.value)
def test_a_shared_copy_gives_the_oracles_answers(method: Method, window: str, heartbeats: bool) -> None:
    delays = Settings(delay_us=40, jitter_us=33, heartbeats=heartbeats, seed=5)
    plan, run, query = plan_and_run(method, WINDOWS[window], delays)
    assert any(len(served) > 1 for served in shared_copies(plan))
    expected = oracle.emitted(query, tuples(3))
    assert len(expected) >= 20
    assert Counter(run.rows(query)) == oracle.bag(expected)


@pytest.mark.parametrize(
    ("method", "term"),
    [
        (Method.SP_S, "ship B2"),
        (Method.SM_S1, "ship dW'2"),
        (Method.SM_S2, "ship vC vJ sF"),
        (Method.SM_D1, "ship vC vJ"),
        (Method.SM_B, "ship flips"),
    ],
)
def test_what_keeps_a_copy_up_to_date_crosses_once(method: Method, term: str) -> None:
    """What the copy of t that r and s probe is made of is shipped for one of them, hardly more for both."""
    plan, run, _ = plan_and_run(method, WINDOWS["range"], Settings(heartbeats=True))
    steps = [number for number, step in enumerate(plan.steps) if step.target == ("t",)]
    shipped = [
        run.ledger.spent[number, term].bytes for number in steps if plan.steps[number].source_site == "n0"
    ]
    first, *later = sorted(shipped, reverse=True)
    assert first > 0
    assert sum(later) <= (first / 2 if method is Method.SM_S1 else 0)


@pytest.mark.parametrize("method", [Method.SP_S, Method.SP_D], ids=lambda method: method.value)
def test_a_whole_batch_crosses_a_link_once_whoever_needs_it(method: Method) -> None:
    """Each stream of 90 tuples of 100 bytes goes to the other site at most once."""
    run = plan_and_run(method, WINDOWS["range"], Settings(heartbeats=True))[1]
    batches = sum(
        spent.bytes for (_, term), spent in run.ledger.spent.items() if term in ("ship B1", "ship B2")
    )
    results = sum(
        spent.bytes
        for (step, term), spent in run.ledger.spent.items()
        if term == "ship B1" and len(run.plan.steps[step].source) > 1
    )
    assert 0 < batches - results <= 3 * 90 * 100

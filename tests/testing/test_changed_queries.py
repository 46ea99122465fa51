"""Random pairs of queries, the second on the state of the first: each answer once, from one of the two."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import pytest

from tests.testing.random_cases import RandomCase, draw_case
from tests.testing.test_random_cases import disturb
from watersmeet.oracle import oracle
from watersmeet.oracle.oracle import Row
from watersmeet.plan.take_over import Gap
from watersmeet.query import (
    BEGINNING,
    UNBOUNDED,
    ColumnRef,
    Expr,
    Input,
    Output,
    Query,
    column_expr,
    range_us,
    tumble_us,
)
from watersmeet.sql import bind_query
from watersmeet.testing import InProcessEngine, Setup, declare

CASES = 60
VARIANTS = ("rows", "files", "late columns", "hot values", "limit large")
KINDS = ("SELECT", "condition", "filter", "window", "column", "everything")
TIME = Output("answer_time", Expr("answer_time", uses_answer_time=True))


@dataclass(frozen=True)
class Tenure:
    """What came of a query until it was changed, what is due of it, and what was said to be missing."""

    found: list[Row]
    due: Counter[Hashable]
    gaps: tuple[Gap, ...] = ()
    on_request: tuple[str, ...] = ()


def change_query(query: Query, kind: str, rng: random.Random, *, windows: bool = True) -> Query:
    """Another query of the same joins."""
    if kind in ("filter", "everything"):
        query = replace(query, inputs=tuple(_other_filter(item, rng) for item in query.inputs))
    if kind in ("window", "everything") and windows:
        sizes = [3, 5, 10, 20, 40]
        some = [range_us(rng.choice(sizes)), tumble_us(rng.choice(sizes)), UNBOUNDED]
        inputs = [
            replace(item, window=rng.choice(some)) if rng.random() < 0.6 else item for item in query.inputs
        ]
        query = replace(query, inputs=tuple(inputs))
    if kind in ("condition", "everything"):
        first, last = query.inputs[0].alias, query.inputs[-1].alias
        refs = (ColumnRef(first, "v"), ColumnRef(last, "v"))
        sql = rng.choice([f"{first}.v <= {last}.v", f"{first}.v + {last}.v > 3"])
        query = replace(query, residual=rng.choice([(), (Expr(sql, refs, "boolean"),)]))
    if kind in ("SELECT", "everything"):
        query = replace(query, select=_other_select(query, rng))
    if kind == "column":
        query = replace(query, select=(*_columns_not_kept(query)[:1], *query.select))
    return replace(query, text=query.pretty())


def _other_filter(item: Input, rng: random.Random) -> Input:
    alias, refs = item.alias, (ColumnRef(item.alias, "v"),)
    texts = rng.sample(
        [f"{alias}.v > {rng.randrange(3)}", f"{alias}.v < {rng.randint(3, 6)}"], rng.randrange(3)
    )
    return replace(item, filters=tuple(Expr(text, refs, "boolean") for text in texts))


def _other_select(query: Query, rng: random.Random) -> tuple[Output, ...]:
    """Some of the columns, in another order, with keys and computed columns; now and then one more."""
    kept = [each for each in query.select if each.name != TIME.name]
    found = [replace(each, name=f"{each.name}_x") for each in rng.sample(kept, rng.randint(1, len(kept)))]
    item = rng.choice(query.inputs)
    v = ColumnRef(item.alias, "v")
    found.append(Output("more", Expr(f"{item.alias}.v + 2", (v,), "bigint")))
    found += [
        Output(f"key_{name}", column_expr(item.alias, name)) for name in query.bare_keys(item.alias).values()
    ]
    unique = {each.name: each for each in found}
    return (*unique.values(), TIME)


def _columns_not_kept(query: Query) -> list[Output]:
    """Columns that the state of a query does not have."""
    return [
        Output(f"added_{item.alias}_{column.name}", column_expr(item.alias, column.name))
        for item in query.inputs
        for column in item.stream.columns
        if column.name not in (item.stream.event_time, *query.payload(item.alias))
        and column.name not in query.bare_keys(item.alias).values()
    ]


def run_changes(case: RandomCase, queries: Sequence[Query], cuts: Sequence[int]) -> list[Tenure]:
    """The first query up to a batch, then the next on its state, and so on."""
    tenures = []
    with InProcessEngine(queries[0], case.setup) as engine:
        for number, (query, (first, end)) in enumerate(zip(queries, pairwise(cuts), strict=True)):
            gaps: tuple[Gap, ...] = ()
            on_request: tuple[str, ...] = ()
            if number:
                progress = engine.progress
                taken = engine.change(query, workers_stay=case.seed % 2 == 0)
                gaps, on_request = taken.gaps(progress), taken.on_request
            found = []
            for batch in range(first, end):
                disturb(engine, case.disturbance, batch)
                found += engine.step(case.batches[batch]).answers
            due = oracle.bag(oracle.run(query, case.batches[:end]).rows)
            due -= oracle.bag(oracle.run(query, case.batches[:first]).rows)
            tenures.append(Tenure(found, due, gaps, on_request))
    return tenures


def check_changes(seed: int) -> list[Tenure]:
    """A case of one change, or of two: the second may lead back to the first query."""
    rng = random.Random(seed)
    variant, kind = VARIANTS[seed % len(VARIANTS)], KINDS[seed // len(VARIANTS) % len(KINDS)]
    case = draw_case(seed, variant=variant)
    if kind == "column" or rng.random() < 0.3:  # the first query keeps few columns
        case = replace(case, queries={"": replace(case.query, select=(*case.query.select[:1], TIME))})
    windows = variant != "hot values"
    queries = [case.query, change_query(case.query, kind, rng, windows=windows)]
    if len(case.batches) > 2 and rng.random() < 0.5:
        again = change_query(queries[1], rng.choice(KINDS), rng, windows=windows)
        queries.append(rng.choice([case.query, again]))
    cuts = sorted(rng.sample(range(1, len(case.batches)), len(queries) - 1))
    tenures = run_changes(case, queries, [0, *cuts, len(case.batches)])
    until = BEGINNING
    for number, tenure in enumerate(tenures):
        said = f"query {number} of {cuts}, {kind}\n{queries[number].pretty()}\n{tenure.gaps}\n{case.pretty()}"
        until = max([until, *(gap.until_us for gap in tenure.gaps)])
        found = oracle.bag(tenure.found)
        assert not found - tenure.due, f"beside: {found - tenure.due}\n{said}"
        for row in (tenure.due - found).elements():
            assert row[-1] < until, f"lacks {row}\n{said}"
    return tenures


@pytest.mark.slow
def test_each_answer_comes_once_from_one_of_the_queries(long_mode: bool) -> None:
    cases = [check_changes(seed) for seed in range(CASES * (40 if long_mode else 1))]
    both = [case for case in cases if case[0].found and case[1].due]
    assert len(both) > len(cases) // 2, "cases without answers on both sides prove nothing"
    later = [tenure for case in both for tenure in case[1:]]
    assert any(not each.on_request for each in later), "no change was free"
    assert any(each.on_request and not each.gaps for each in later), "no filter or window came without a gap"
    lacking = [each for each in later if each.gaps and each.due - oracle.bag(each.found)]
    assert lacking, "no gap showed"
    assert any("not kept" in gap.why for each in lacking for gap in each.gaps), "nothing was forgotten"


STREAMS = [
    declare("s1", "k BIGINT, v BIGINT, note STRING, ts TIMESTAMP", event_time="ts", lateness="1 minute"),
    declare("s2", "k BIGINT, v BIGINT, note STRING, ts TIMESTAMP", event_time="ts", lateness="1 minute"),
]
PLAIN = "SELECT a.v, b.v AS bv FROM s1 [RANGE 1 HOUR] AS a, s2 [RANGE 1 HOUR] AS b WHERE a.k = b.k"
NOTED = PLAIN.replace("a.v,", "a.v, a.note,")


def _bound(select: str) -> Query:
    return bind_query(select, STREAMS)


def test_what_a_worker_holds_of_a_query_from_before_two_changes_does_not_count() -> None:
    """Tuples that the second query has forgotten are in an old bucket of the first, in the same worker."""
    with InProcessEngine(_bound(PLAIN), Setup(partitions=1, workers=1)) as engine:
        assert not engine.step({"s1": [(1, 10, "x", "12:00:00"), (2, 20, "y", "12:00:01")]}).answers
        engine.change(_bound(NOTED), workers_stay=True)
        assert not engine.step({"s1": [(1, 11, "z", "12:00:02")]}).answers
        engine.change(_bound(PLAIN), workers_stay=True)
        step = engine.step({"s2": [(1, 1, "w", "12:00:03"), (2, 2, "w", "12:00:03")]})
    assert step.answers == [(11, 1)]


def test_a_bucket_that_had_no_row_under_a_query_is_still_as_the_one_before_left_it() -> None:
    with InProcessEngine(_bound(PLAIN), Setup(partitions=1)) as engine:
        assert not engine.step({"s1": [(1, 10, "x", "12:00:00")]}).answers
        engine.change(_bound(PLAIN.replace("a.v, ", "")))
        assert not engine.step({}).answers  # no row in the whole batch: no task touches the state
        engine.change(_bound(PLAIN.replace("b.v AS bv", "b.v + 1 AS more").replace("a.v, ", "")))
        step = engine.step({"s2": [(1, 1, "w", "12:00:03")]})
    assert step.answers == [(2,)]

"""Queries run by rewriting: whichever way each partial result goes, the answers are the oracle's."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.kernel.multiquery.feeding import DataflowRun, run_dataflow
from tests.plan.joins import TOPOLOGIES, edges, join_query
from tests.strategies import TIME_WINDOWS, cases, microbatches, queries
from watersmeet.errors import QueryError
from watersmeet.kernel import LiveValues
from watersmeet.oracle import oracle
from watersmeet.oracle.oracle import MicroBatch, Tuple
from watersmeet.plan.explain import explain_plan
from watersmeet.plan.physical import plan_physical
from watersmeet.plan.routing import rewriting
from watersmeet.plan.routing.rewriting import plan_rewriting
from watersmeet.plan.routing.routing import Rewrite
from watersmeet.plan.statistics.statistics import Statistics, StreamStatistics
from watersmeet.query import Column, Query, Stream, rows
from watersmeet.query.shared_dataflow import Expected, Way
from watersmeet.query.shared_dataflow_json import dataflow_from_json, dataflow_to_json
from watersmeet.sql import bind_query

TRIES = 6  # to draw tuples that give answers
Case = tuple[Query, list[MicroBatch]]
PLAIN: dict[str, Any] = {"kinds": ("plain",), "windows": TIME_WINDOWS, "key_expressions": True}


class Whim(LiveValues):
    """Lets every result go by chance."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        object.__setattr__(self, "rng", np.random.default_rng(seed))

    def choose(
        self, ways: Sequence[Way], routes: Sequence[pa.Array], expected: Mapping[str, Expected]
    ) -> npt.NDArray[np.int64]:
        rng: np.random.Generator = vars(self)["rng"]
        return rng.integers(0, len(ways), len(routes[0]))


def unfiltered(query: Query) -> Query:
    """Filters are applied where feeds are read, so the queries here have none."""
    return replace(query, inputs=tuple(replace(item, filters=()) for item in query.inputs))


@st.composite
def cases_with_choices(draw: st.DrawFn) -> Case:
    """A query some of whose partial results have a choice, and micro-batches, most of them with answers."""
    query = unfiltered(draw(queries(min_inputs=3, **PLAIN)))
    assume(any(join.ways for join in plan_rewriting(query).joins))
    for _ in range(TRIES):
        batches = draw(microbatches(query))
        if oracle.run(query, batches, flush=True).rows:
            break
    return query, batches


def test_whatever_is_chosen_the_answers_are_the_oracles(examples: Callable[[int], settings]) -> None:
    """By chance, and by what is observed, as a resumed query would have it from its checkpoint."""
    with_answers: list[bool] = []
    ways: set[str] = set()

    @examples(12)
    @given(cases_with_choices(), st.integers(1, 3), st.integers(0, 1 << 16), st.booleans())
    def holds(case: Case, buckets: int, seed: int, restore: bool) -> None:
        query, batches = case
        dataflow = plan_rewriting(query)
        expected = oracle.bag(oracle.run(query, batches, flush=True).rows)
        whims = [Whim(seed + number) for number in range(len(batches))]
        by_chance = run_dataflow(
            lambda _: dataflow,
            {"": query},
            batches,
            buckets,
            restore=restore,
            live_in_batch=whims.__getitem__,
        )
        assert oracle.bag(by_chance.rows[""]) == expected
        stored = dataflow_from_json(json.loads(json.dumps(dataflow_to_json(dataflow))))
        resumed = replace(stored, tails=dataflow.tails)
        observed = run_dataflow(lambda _: resumed, {"": query}, batches, buckets, restore=restore)
        assert oracle.bag(observed.rows[""]) == expected
        with_answers.append(bool(expected))
        ways.update(name for batch in by_chance.counts for one in batch.values() for name in one.went)

    holds()
    assert sum(with_answers) > len(with_answers) / 2
    assert len(ways) > 4  # else nothing was chosen at all


def test_queries_without_a_choice_are_answered_too(examples: Callable[[int], settings]) -> None:
    """Down to one input, which is only passed on."""
    inputs: list[int] = []

    @examples(10)
    @given(cases(max_inputs=3, **PLAIN), st.integers(1, 3))
    def holds(case: Case, buckets: int) -> None:
        query, batches = unfiltered(case[0]), case[1]
        dataflow = plan_rewriting(query)
        outcome = run_dataflow(lambda _: dataflow, {"": query}, batches, buckets)
        expected = oracle.bag(oracle.run(query, batches, flush=True).rows)
        assert oracle.bag(outcome.rows[""]) == expected
        inputs.extend([len(query.inputs)] if expected else [])

    holds()
    assert {1, 2} <= set(inputs)


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_every_path_asks_every_equality_and_every_result_has_its_ways(topology: str) -> None:
    query = join_query("rstu", edges(topology, "rstu"))
    dataflow = plan_rewriting(query)
    joins = {join.name: join for join in dataflow.joins}
    for ending in dataflow.tails:
        assert set(joins[ending.join].slots) == set("rstu")
    sources = [one.source for one in dataflow.relations if one.slot is None]
    for join in dataflow.joins:
        assert join.name in sources or join.name in {ending.join for ending in dataflow.tails}
        assert len(join.ways) == (sources.count(join.name) if sources.count(join.name) > 1 else 0)
    assert dataflow_from_json(json.loads(json.dumps(dataflow_to_json(dataflow)))).joins == dataflow.joins


def test_the_query_waits_where_the_rate_is_lowest() -> None:
    query = join_query("rst", [("r", "s"), ("s", "t")])
    rates = {"r": 50.0, "s": 5.0, "t": 500.0}
    statistics = Statistics({name: StreamStatistics(rate_per_s=rate) for name, rate in rates.items()})
    dataflow = plan_rewriting(query, statistics)
    assert [join.slots for join in dataflow.joins if join.level == 1] == [("s",)]
    (first,) = (join for join in dataflow.joins if join.ways)
    assert {way.meets for way in first.ways} == {("r by c0",), ("t by c1",)}
    # From an end of the chain there is only one way.
    from_end = plan_rewriting(query, Statistics({"r": StreamStatistics(rate_per_s=1.0)}))
    assert not any(join.ways for join in from_end.joins)
    assert from_end.levels == 2


def test_attributes_that_bind_the_same_inputs_are_no_choice() -> None:
    dataflow = plan_rewriting(join_query("rs", [("r", "s"), ("r", "s")]))
    (join,) = dataflow.joins
    assert len(join.equalities) == 2
    assert not join.ways


def test_many_orders_are_cut_down_to_the_most_promising(monkeypatch: pytest.MonkeyPatch) -> None:
    query = join_query("rstuvw", edges("star", "rstuvw"))
    assert 0 < len(plan_rewriting(query).joins) <= rewriting.MOST_JOINS + 1
    assert any(join.ways for join in plan_rewriting(query).joins)
    monkeypatch.setattr(rewriting, "MOST_JOINS", 10)
    dataflow = plan_rewriting(query)
    assert len(dataflow.joins) == 5
    assert not any(join.ways for join in dataflow.joins)


COLUMNS = (Column("x", "bigint"), Column("y", "bigint"), Column("v", "bigint"), Column("ts", "timestamp"))
STAR = bind_query(
    "SELECT a.v AS av, b.v AS bv, c.v AS cv FROM a [RANGE 5 US], b [RANGE 5 US], c [RANGE 5 US] "
    "WHERE a.x = b.x AND a.y = c.y",
    [Stream(name, COLUMNS, "ts") for name in "abc"],
)


def star_batch(start: int, frequent: int) -> MicroBatch:
    """Of b nine in ten have one value of x, of c nine in ten the other value of y; a has both of each."""

    def made(n: int, x: int, y: int) -> Tuple:
        return Tuple(start + n // 2, {"x": x, "y": y, "v": n})

    return {
        "a": [made(n, n % 2, n % 2) for n in range(4)],
        "b": [made(n, frequent if n else 1 - frequent, 0) for n in range(10)],
        "c": [made(n, 0, 1 - frequent if n else frequent) for n in range(10)],
    }


def test_each_value_goes_first_where_it_is_rare_and_follows_a_change() -> None:
    """x = 1 is frequent in b, y = 1 is rare in c, so (1, 1) meets c first, and (0, 0) b; then the reverse."""
    dataflow = plan_rewriting(STAR)
    batches = [star_batch(5 * n, frequent=1 if n < 5 else 0) for n in range(10)]
    observing = run_dataflow(lambda _: dataflow, {"": STAR}, batches, 2)
    blind = run_dataflow(lambda _: dataflow, {"": STAR}, batches, 2, live_in_batch=lambda _: LiveValues())
    expected = oracle.bag(oracle.run(STAR, batches, flush=True).rows)
    assert oracle.bag(observing.rows[""]) == oracle.bag(blind.rows[""]) == expected
    for settled in (range(1, 5), range(7, 10)):
        found, otherwise = (_stored(run, settled) for run in (observing, blind))
        assert found < 0.6 * otherwise


def _stored(run: DataflowRun, batches: range) -> int:
    """Partial results of two tuples that were sent on."""
    counts = [run.counts[n][3, bucket] for n in batches for bucket in range(2)]
    return sum(one.stored for one in counts)


def test_a_plan_says_what_would_be_chosen_by_what() -> None:
    query = join_query("rst", edges("star", "rst"))
    statistics = Statistics({"s": StreamStatistics(rate_per_s=2000.0), "t": StreamStatistics(3000.0)})
    plan = plan_physical(query, 4, statistics, "rewrite")
    assert isinstance(plan.routing, Rewrite)
    text = "r goes on by r.c0, meeting 2 of s, or by r.c1, meeting 3 of t; frequent values as observed"
    assert text in explain_plan(plan)
    first = plan.identity.state["routing"]["joins"][0]
    assert first == {
        "level": 1,
        "members": [["r", "__spread"]],
        "equal": [],
        "on": [[2, "r.c0"], [2, "r.c1"]],
    }
    assert plan.identity.routing == "rewrite"
    assert "meet" not in plan.fingerprint
    assert "s: s.c0, event time, in 2 copies" in explain_plan(plan)


def test_what_a_pipeline_cannot_run_is_not_rewritten_either() -> None:
    with pytest.raises(QueryError, match=r"not run by rewriting: r \[ROWS 5\] counts rows"):
        plan_rewriting(join_query("rs", [("r", "s")], {"r": rows(5)}))

"""DISTINCT and aggregates behind any join: pipelines, rewriting, and queries that share a dataflow."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from tests.testing.random_cases import DISTURBANCES, RandomCase, draw_case
from tests.testing.test_random_cases import check_case
from watersmeet.oracle import oracle
from watersmeet.oracle.oracle import MicroBatch, Row, Tuple
from watersmeet.plan.multiquery import Registered, plan_dataflow
from watersmeet.query import NEVER, Aggregate, Expr, Output, Query
from watersmeet.query.shared_dataflow import SharedDataflow
from watersmeet.sql import bind_query
from watersmeet.testing import declare
from watersmeet.testing.cluster import Cluster
from watersmeet.testing.setup import Setup, queries_dataflow
from watersmeet.testing.sources import Arrived

ROUTINGS = ("pipeline", "rewrite")
CASES = 4  # of each kind, and twice as many that share


def answered_as(query: Query, kind: str, rng: random.Random) -> Query:
    """A query with the answers of another kind: grouped, or distinct values."""
    columns = [output for output in query.select if output.expr.is_column]
    if kind == "distinct":
        chosen = rng.sample(columns, min(2, len(columns)))
        if rng.random() < 0.5:  # left to Spark
            value = rng.choice(columns).expr
            chosen.append(Output("half", Expr(f"{value.sql} % 2", value.columns, "bigint")))
        if rng.random() < 0.3:
            chosen.append(Output("at", Expr("answer_time", uses_answer_time=True)))
        return replace(query, distinct=True, select=tuple(chosen[-2:]))
    value = columns[-1].expr
    grouped = rng.choice([[], columns[:1]])
    counted = Expr(f"count(DISTINCT {value.sql})", value.columns, "bigint")
    select = (
        *grouped,
        Output("n", Expr("count(*)", type="bigint")),
        Output("total", Expr(f"sum({value.sql})", value.columns, "bigint")),
        Output("kinds", counted),
        Output("tick", Expr("answer_time", uses_answer_time=True)),
    )
    having = Expr("count(*) > 1") if rng.random() < 0.3 else None
    by = tuple(output.expr for output in grouped)
    return replace(query, select=select, aggregate=Aggregate(by, rng.randint(1, 9), having))


def shared_case(seed: int) -> RandomCase:
    """Queries that share a dataflow, most of them with DISTINCT or aggregates."""
    rng, case = random.Random(seed), draw_case(seed, variant="shared")
    queries = {}
    for name, query in case.queries.items():
        kind = rng.choice(["distinct", "aggregate", "aggregate", "plain"])
        if kind == "aggregate" and not any(item.window.is_bounded for item in query.inputs):
            kind = "distinct"
        queries[name] = query if kind == "plain" else answered_as(query, kind, rng)
    return replace(case, queries=queries, disturbance=DISTURBANCES[seed % len(DISTURBANCES)])


@pytest.mark.parametrize(
    "variant", ["numbered distinct", pytest.param("numbered aggregate", marks=pytest.mark.variant)]
)
def test_answers_whose_tuples_end_later_are_the_oracles(variant: str, long_mode: bool) -> None:
    """Under ROWS windows, of which an answer does not know when its tuples leave."""
    answered, cases = 0, 2 * CASES * (20 if long_mode else 1)
    for seed in range(cases):
        case = replace(draw_case(seed, variant=variant), disturbance=DISTURBANCES[seed % len(DISTURBANCES)])
        answered += any(check_case(case).expected.values())
    assert answered >= 0.7 * cases


@pytest.mark.parametrize("variant", ["distinct", "aggregate"])
@pytest.mark.parametrize("routing", ROUTINGS)
def test_answers_of_pipelines_are_the_oracles(variant: str, routing: str, long_mode: bool) -> None:
    answered = 0
    cases = CASES * (20 if long_mode else 1)
    for seed in range(cases):
        case = draw_case(seed, variant=variant)
        disturbance = DISTURBANCES[seed % len(DISTURBANCES)]
        case = replace(case, setup=replace(case.setup, routing=routing), disturbance=disturbance)
        answered += any(check_case(case).expected.values())
    assert answered >= 0.7 * cases


def test_answers_of_a_shared_dataflow_are_the_oracles(long_mode: bool) -> None:
    cases = 2 * CASES * (20 if long_mode else 1)
    answered = {"distinct": 0, "aggregate": 0}
    for seed in range(cases):
        case = shared_case(seed)
        outcome = check_case(case)
        for name, query in case.queries.items():
            kind = "aggregate" if query.aggregate else "distinct" if query.distinct else "plain"
            if kind in answered and outcome.expected[name]:
                answered[kind] += 1
    assert min(answered.values()) >= 0.3 * cases, answered


STREAMS = [declare(f"s{n}", "dest BIGINT, size BIGINT, ts TIMESTAMP", event_time="ts") for n in (1, 2, 3)]
JOINED = (
    "FROM s1 [RANGE 40 US] AS a, s2 [RANGE 40 US] AS b, s3 [RANGE 40 US] AS c "
    "WHERE a.dest = b.dest AND b.dest = c.dest"
)
# The micro-batches [since, until) of each query.
COMING = {
    "sums": (f"SELECT sum(a.size) AS total, answer_time AS tick {JOINED} EMIT EVERY 5 US", 0, NEVER),
    "values": (f"SELECT DISTINCT a.size {JOINED}", 0, NEVER),
    "large": (f"SELECT sum(a.size) AS total {JOINED} AND a.size > 3 EMIT EVERY 5 US", 2, NEVER),
    "larger": (f"SELECT sum(a.size) AS total {JOINED} AND a.size > 4 EMIT EVERY 5 US", 0, 4),
    "few": (f"SELECT DISTINCT a.size {JOINED} AND c.size = 3", 2, NEVER),
    "others": (f"SELECT DISTINCT a.size {JOINED} AND c.size = 4", 0, 5),
    "thirds": (f"SELECT DISTINCT a.size % 3 AS third {JOINED} AND a.size + b.size > 9", 0, NEVER),
    "odd": (f"SELECT DISTINCT b.size {JOINED} AND c.size % 2 = 1", 3, 6),
    "plain": (f"SELECT a.size, b.size AS b, c.size AS c {JOINED}", 1, 6),
}
BATCHES = 7


def ordered_batches(rng: random.Random) -> list[MicroBatch]:
    """Tuples in the order of time, so that none is late, whoever sees them."""
    return [
        {
            stream.name: [
                Tuple(20 * number + 2 * n, {"dest": rng.choice([1, 1, 2, 3]), "size": rng.randrange(7)})
                for n in range(10)
            ]
            for stream in STREAMS
        }
        for number in range(BATCHES)
    ]


def seen(batches: list[MicroBatch], since: int, until: int) -> list[MicroBatch]:
    """What a query sees of the micro-batches."""
    return [batch if number >= since else {} for number, batch in enumerate(batches) if number < until]


@pytest.mark.parametrize("workers_stay", [False, pytest.param(True, marks=pytest.mark.variant)])
def test_queries_with_tails_come_and_go(workers_stay: bool) -> None:
    queries = {
        number: (name, bind_query(text, STREAMS), since, until)
        for number, (name, (text, since, until)) in enumerate(COMING.items())
    }
    batches = ordered_batches(random.Random(5))
    found: dict[str, list[Row]] = {name: [] for name in COMING}
    cluster, setup = Cluster(2, seed=1), Setup(partitions=3)
    kept: SharedDataflow | None = None
    for number, batch in enumerate(batches):
        # What is dropped stays in the dataflow until its last batch is committed.
        there = {n: each for n, each in queries.items() if each[2] <= number <= each[3]}
        registered = [Registered(each[0], n, *each[1:]) for n, each in there.items()]
        dataflow = plan_dataflow(registered, STREAMS, 2, kept=kept)
        kept = dataflow
        running = queries_dataflow(dataflow, {n: each[1] for n, each in there.items()}, STREAMS, setup)
        rows = {name: [{**t.values, "ts": t.ts} for t in tuples] for name, tuples in batch.items()}
        arrived = Arrived({stream.name: stream for stream in STREAMS}, rows, 0)
        for name, answers in running.run(cluster, arrived, is_end=False).answers.items():
            found[name] += answers
        cluster.commit()
        if not workers_stay:
            cluster.lose_caches()
        assert len(dataflow.joins) == 1, "all share it"
    for name, query, since, until in queries.values():
        expected = oracle.run(query, seen(batches, since, until)).rows
        assert expected, f"{name} without answers proves nothing"
        assert oracle.bag(found[name]) == oracle.bag(expected), name

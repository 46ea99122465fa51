"""Streams of answers in process: queries over answers of queries, however far readers are behind."""

from __future__ import annotations

import datetime as dt
from random import Random

import pytest

from watersmeet.errors import ConfigurationError
from watersmeet.oracle import oracle
from watersmeet.oracle.oracle import MicroBatch, Tuple
from watersmeet.query import Stream
from watersmeet.sql import bind_answers, bind_query, bind_stream
from watersmeet.testing import Setup, declare, run_query
from watersmeet.testing.chain import ChainEngine

S = 1_000_000
CASES = 6
STREAMS = [
    declare(name, "k BIGINT, v BIGINT, ts TIMESTAMP", event_time="ts", lateness=f"{lateness} seconds")
    for name, lateness in (("s1", 2), ("s2", 5))
]
WINDOWS = ("RANGE 4 SECONDS", "RANGE 9 SECONDS", "TUMBLE 6 SECONDS")


def random_select(random: Random, known: list[Stream], *, is_last: bool, plain: bool) -> str:
    """A join of two or three of the known streams, the last of them first; a plain one is an inner join."""
    read = [known[-1], *random.choices(known, k=random.choice((1, 1, 2)))]
    counts = not plain and random.random() < 0.25
    kind = (
        "JOIN"
        if counts or plain
        else random.choice(("JOIN", "JOIN", "LEFT JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN"))
    )
    windows = [
        random.choice((*WINDOWS, "ROWS 6", "PARTITION BY k ROWS 2") if counts else WINDOWS) for _ in read
    ]
    seen = 1 if kind in ("LEFT SEMI JOIN", "LEFT ANTI JOIN") else len(read)
    selected = [f"q{n}.{'k' if n == 0 else 'v'} AS {'k' if n == 0 else f'v{n}'}" for n in range(seen)]
    value = random.choice((f"q{seen - 1}.v", "q0.v", "q0.v", "q0.v + 1"))
    distinct = "DISTINCT " if kind == "JOIN" and not counts and not plain and random.random() < 0.2 else ""
    tables = f"{read[0].name} [{windows[0]}] AS q0 "
    tables += " ".join(
        f"{kind} {stream.name} [{window}] AS q{n} ON q0.k = q{n}.k"
        for n, (stream, window) in enumerate(zip(read[1:], windows[1:], strict=True), start=1)
    )
    time = ", answer_time" if distinct or is_last or random.random() < 0.5 else ""
    where = (
        f" WHERE q0.v <= {random.choice(('q1.v', '60'))}" if kind == "JOIN" and random.random() < 0.5 else ""
    )
    if is_last and kind == "JOIN" and not plain and random.random() < 0.3:
        groups = "count(*) AS n, sum(q0.v) AS total, answer_time AS tick"
        return f"SELECT q0.k, {groups} FROM {tables}{where} GROUP BY q0.k EMIT EVERY 3 SECONDS"
    return f"SELECT {distinct}{', '.join(selected[:1])}, {value} AS v{time} FROM {tables}{where}"


def random_chain(random: Random, *, plain: bool) -> list[Stream]:
    """The declared streams, then streams of answers and views, each over those before it."""
    known = list(STREAMS)
    for number in range(random.choice((1, 1, 2))):
        known.append(
            bind_answers(f"j{number}", random_select(random, known, is_last=False, plain=plain), known)
        )
        if random.random() < 0.3:
            select = f"SELECT v % 4 AS k, v, answer_time AS at FROM j{number} WHERE v % 3 <> 1"
            known.append(bind_stream(f"view{number}", select, known))
    return known


def random_batches(random: Random, *, most_late_s: int) -> list[MicroBatch]:
    def tuples(start_s: int) -> list[Tuple]:
        drawn = [random.randint(start_s * S - most_late_s * S, (start_s + 4) * S) for _ in range(4)]
        return [Tuple(ts, {"k": random.randint(0, 6), "v": random.randint(0, 90)}) for ts in drawn]

    return [{stream.name: tuples(start_s) for stream in STREAMS} for start_s in range(0, 20, 4)]


@pytest.mark.parametrize("routing", ["shares", "pipeline"])
def test_answers_are_those_of_queries_over_all_answers_of_queries(routing: str, long_mode: bool) -> None:
    """Readers lag behind by chance, tuples come late, and all is stopped in the middle and resumed."""
    cases = CASES * 60 if long_mode else CASES
    answered = late = deep = 0
    for seed in range(cases):
        random = Random(f"{routing} {seed}")
        known = random_chain(random, plain=routing != "shares")
        sql = random_select(random, known, is_last=True, plain=routing != "shares")
        query = bind_query(sql, known)
        batches = random_batches(random, most_late_s=random.choice((1, 12)))
        setup = Setup(
            routing=routing,
            partitions=random.choice((1, 3)),
            hot_values=random.random() < 0.5,
            hot_min_rows=8,
        )
        with ChainEngine(query, setup, Random(seed)) as engine:
            read = [stream.name for stream in engine.streams]
            batches = [{name: batch[name] for name in read} for batch in batches]
            rows = [row for batch in batches[:3] for row in engine.step(batch).answers]
            engine.restart()
            rows += [row for batch in batches[3:] for row in engine.step(batch).answers]
            rows += engine.end().answers
            arrived = engine.arrived(flush=True)
            expected = oracle.run(query, arrived, flush=True, clock=engine.clock)
            for name, log in engine.logs.items():
                reached = oracle.BEGINNING
                for tuples, mark in log.batches:
                    assert all(tuple_.ts >= reached for tuple_ in tuples), (seed, name)
                    reached = mark
        assert oracle.bag(rows) == oracle.bag(expected.rows), (seed, sql)
        answered += bool(expected.rows)
        late += bool(expected.rows) and any(expected.late.values())
        deep += bool(expected.rows) and len(query.answer_streams) > 1
    assert answered >= 0.4 * cases
    assert deep >= 0.1 * cases
    assert late >= 0.05 * cases or cases == CASES


PIPELINE = """
CREATE STREAM s1 (k BIGINT, v BIGINT, ts TIMESTAMP) WITH (format = 'json', path = 'a', event_time = 'ts');
CREATE STREAM s2 (k BIGINT, v BIGINT, ts TIMESTAMP) WITH (format = 'json', path = 'b', event_time = 'ts');
CREATE STREAM j AS SELECT a.k, a.v, b.v AS w, a.ts AS at
FROM s1 [RANGE 5 SECONDS] AS a {join} s2 [RANGE 5 SECONDS] AS b ON a.k = b.k;
SELECT {select} FROM j [RANGE 1 MINUTE], s2 [RANGE 1 MINUTE] AS c WHERE j.k = c.k
"""


def test_a_row_without_a_match_is_no_late_tuple() -> None:
    """It leaves when the watermark is past 12:00:05, with an answer_time of 12:00:00."""
    batches = [
        {"s1": [(1, 10, "12:00:00"), (2, 20, "12:00:01")], "s2": [(2, 7, "12:00:01")]},
        {"s1": [(3, 30, "12:00:09")], "s2": [(4, 8, "12:00:09")]},
        {"s1": [(3, 30, "12:00:10")], "s2": [(1, 9, "12:00:10")]},
    ]
    result = run_query(PIPELINE.format(join="LEFT JOIN", select="j.v, j.w, c.v AS x, j.at"), batches)
    assert result.rows == [(20, 7, 7, moment("12:00:01")), (10, None, 9, moment("12:00:00"))]
    assert result.matches_oracle()


def test_answers_wait_for_nothing_but_the_watermark_of_their_query() -> None:
    """DISTINCT lets a value out in the very batch in which the watermark of the inner query passes it."""
    batches = [
        {"s1": [(1, 10, "12:00:00")], "s2": [(1, 7, "12:00:00")]},
        {"s1": [(3, 30, "12:00:01")], "s2": [(3, 8, "12:00:01")]},
    ]
    result = run_query(PIPELINE.format(join="JOIN", select="DISTINCT j.w"), batches)
    assert [step.answers for step in result.steps] == [[], [(7,)]]
    assert result.matches_oracle()


def test_tuples_of_a_stream_of_answers_are_not_for_a_script_to_give() -> None:
    with pytest.raises(ConfigurationError, match="tuples of j, which is not a declared stream here: s1, s2"):
        run_query(PIPELINE.format(join="JOIN", select="j.w"), [{"J": [(1, 2, 3)]}])


def moment(time: str) -> dt.datetime:
    return dt.datetime.fromisoformat(f"1970-01-01T{time}+00:00")

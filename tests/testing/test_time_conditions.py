"""Joins whose windows follow from conditions on event times: answers stay the same, and state is bounded."""

from __future__ import annotations

from random import Random

from tests.testing.running import rows_of
from watersmeet.oracle import oracle
from watersmeet.oracle.oracle import MicroBatch, Tuple
from watersmeet.query import Query
from watersmeet.sql import bind_query
from watersmeet.testing import InProcessEngine, Setup, declare

S = 1_000_000
CASES = 16
STREAMS = [
    declare(name, "k BIGINT, v BIGINT, ts TIMESTAMP", event_time="ts", lateness="4 seconds")
    for name in "abcd"
]


def random_condition(random: Random, one: str, other: str) -> str:
    """One or two bounds on two event times, in some way of writing them."""
    low, high = sorted(random.sample(range(-6, 13), 2))
    one_ts, other_ts, unit = f"{one}.ts", f"{other}.ts", "SECONDS"
    match random.randrange(5):
        case 0:
            ends = f"{other_ts} + INTERVAL {low} {unit} AND {other_ts} + INTERVAL {high} {unit}"
            return f"{one_ts} BETWEEN {ends}"
        case 1:
            return f"{one_ts} > {other_ts} - INTERVAL '{high}' SECOND AND {one_ts} <= {other_ts}"
        case 2:
            least = f"{one_ts} - {other_ts} >= INTERVAL {low} {unit}"
            return f"{other_ts} + INTERVAL {high} {unit} >= {one_ts} AND {least}"
        case 3:
            return f"{one_ts} <= {other_ts} + INTERVAL {high} {unit}"
        case _:
            most = f"{one_ts} < INTERVAL {high} {unit} + {other_ts}"
            return f"INTERVAL {abs(low)} {unit} + {one_ts} >= {other_ts} AND {most}"


def random_query(random: Random) -> Query:
    aliases = "abcd"[: random.choice((2, 2, 3, 3, 4))]
    windows = ["" if random.random() < 0.8 else f" [RANGE {random.randint(1, 8)} SECONDS]" for _ in aliases]
    inputs = ", ".join(alias + window for alias, window in zip(aliases, windows, strict=True))
    links = [(random.choice(aliases[:number]), aliases[number]) for number in range(1, len(aliases))]
    joins = [f"{one}.k = {other}.k" for one, other in links]
    times = [random_condition(random, *random.sample(pair, 2)) for pair in links if random.random() < 0.9]
    selected = ", ".join(f"{alias}.v AS {alias}_v" for alias in aliases)
    return bind_query(f"SELECT {selected} FROM {inputs} WHERE {' AND '.join(joins + times)}", STREAMS)


def random_batches(random: Random, query: Query) -> list[MicroBatch]:
    names, serial = [stream.name for stream in query.streams], iter(range(10_000))

    def tuples(start_s: int) -> list[Tuple]:
        many = 24 // len(names)
        drawn = sorted(random.randint(start_s - 5, start_s + 10) for _ in range(many))
        random.shuffle(drawn)
        return [Tuple(ts * S, {"k": random.randint(0, 3), "v": next(serial), "ts": ts * S}) for ts in drawn]

    return [{name: tuples(start_s) for name in names} for start_s in range(0, 40, 10)]


def test_answers_are_those_of_the_query_without_windows(long_mode: bool) -> None:
    """The oracle knows nothing of derived windows: it keeps every tuple, and checks the conditions."""
    cases = CASES * 20 if long_mode else CASES
    answered, derived = 0, 0
    for seed in range(cases):
        random = Random(seed)
        query = random_query(random)
        batches = random_batches(random, query)
        expected = oracle.run(query, batches, flush=True).rows
        with InProcessEngine(query, Setup(routing=("shares", "pipeline")[seed % 2])) as engine:
            steps = [*(engine.step(batch) for batch in batches), engine.end()]
        assert oracle.bag(rows_of(steps)) == oracle.bag(expected), seed
        has_derived = any(item.is_derived for item in query.inputs)
        answered += bool(expected) and has_derived
        derived += has_derived
    assert derived >= 0.7 * cases
    assert answered >= 0.6 * cases


def test_state_is_bounded_by_what_the_conditions_need() -> None:
    query = bind_query(
        "SELECT a.v FROM a, b WHERE a.k = b.k AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 20 SECONDS", STREAMS
    )
    rows = {}
    for name, each in (("derived", query), ("written", query.as_written())):
        with InProcessEngine(each) as engine:
            for start_s in range(0, 200, 10):
                tuples = [
                    Tuple(ts * S, {"k": ts, "v": ts, "ts": ts * S}) for ts in range(start_s, start_s + 10)
                ]
                step = engine.step({"a": tuples, "b": tuples})
        rows[name] = step.metrics["state_rows"]
    assert rows["written"] == 400
    assert rows["derived"] < 100

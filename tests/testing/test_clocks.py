"""The batch's own time: tuples from the future, streams that fall idle, and the time a query is stopped."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from typing import Any

import pytest

from watersmeet.errors import SqlError
from watersmeet.oracle import oracle
from watersmeet.oracle.oracle import MicroBatch, Tuple
from watersmeet.query import DAY_US, Query, Stream
from watersmeet.sql import bind_query, parse_pipeline
from watersmeet.testing import InProcessEngine, Setup, declare, run_query

SECOND_US = 1_000_000
COLUMNS = "k BIGINT, v BIGINT, ts TIMESTAMP"
LEFT, RIGHT = (declare(name, COLUMNS, event_time="ts") for name in ("l", "r"))
YEAR_3000 = "3000-01-01 00:00:00"
JOINED = "SELECT l.v AS vl, r.v AS vr FROM l [RANGE 1 MINUTE] AS l, r [RANGE 1 MINUTE] AS r WHERE l.k = r.k"
OF_ROWS = JOINED.replace("r [RANGE 1 MINUTE]", "r [ROWS 5]")
VALUES = JOINED.replace("SELECT", "SELECT DISTINCT")

HOW = {
    "rows": Setup(),
    "files": Setup(direct_files=True),
    "packed files": Setup(direct_files=True, partitions=8),
    "hot values": Setup(hot_values=True, hot_min_rows=1),
    "pipeline": Setup(routing="pipeline"),
    "pipeline of files": Setup(routing="pipeline", direct_files=True),
}

# A broken clock in the second batch, of both streams, and then business as usual.
BROKEN: list[dict[str, Any]] = [
    {"l": [(1, 1, "2024-05-01 12:00:00")], "r": [(1, 10, "2024-05-01 12:00:01")]},
    {"l": [(1, 2, YEAR_3000), (1, 3, "2024-05-01 12:00:10")], "r": [(1, 20, YEAR_3000)]},
    {"l": [(1, 4, "2024-05-01 12:00:20")], "r": [(1, 30, "2024-05-01 12:00:21")]},
]
NOW = "2024-05-01 12:00:30"


@pytest.mark.parametrize("how", HOW)
def test_a_tuple_of_the_year_3000_makes_no_other_late(how: str) -> None:
    with InProcessEngine(bind_query(JOINED, [LEFT, RIGHT]), HOW[how]) as engine:
        steps = [engine.step(batch, now=NOW) for batch in BROKEN]
    answers = {row for step in steps for row in step.answers}
    assert answers == {(v, w) for v in (1, 3, 4) for w in (10, 30)}
    assert [step.metrics["ahead_l"] for step in steps] == [0, 1, 0]
    assert [step.metrics["ahead_r"] for step in steps] == [0, 1, 0]
    assert sum(step.metrics["late_l"] + step.metrics["late_r"] for step in steps) == 0


@pytest.mark.parametrize("select", [OF_ROWS, VALUES])
def test_nor_does_it_let_out_answers_that_wait(select: str) -> None:
    """Batch by batch the answers are those of the other tuples."""
    usual = [{name: [row for row in rows if row[2] != YEAR_3000] for name, rows in b.items()} for b in BROKEN]
    found = []
    for batches in (usual, BROKEN):
        with InProcessEngine(bind_query(select, [LEFT, RIGHT])) as engine:
            found.append([engine.step(batch, now=NOW) for batch in batches])
    assert [sorted(step.answers) for step in found[0]] == [[], [], [(1, 10), (3, 10)]]
    assert [sorted(step.answers) for step in found[1]] == [sorted(step.answers) for step in found[0]]
    assert sum(step.metrics["ahead_l"] for step in found[1]) == 1


def test_it_takes_no_part_in_a_shared_dataflow_either() -> None:
    queries = {name: bind_query(JOINED, [LEFT, RIGHT]) for name in ("one", "two")}
    with InProcessEngine(queries) as engine:
        steps = [engine.step(batch, now=NOW) for batch in BROKEN]
    for name in queries:
        answers = {row for step in steps for row in step.by_query[name]}
        assert answers == {(v, w) for v in (1, 3, 4) for w in (10, 30)}
    assert sum(step.metrics["ahead_l"] for step in steps) == 1
    assert sum(step.metrics["late_l"] for step in steps) == 0


def test_the_bound_itself_is_still_in_time() -> None:
    streams = [declare(name, COLUMNS, event_time="ts", max_ahead="10 seconds") for name in ("l", "r")]
    batch = {"l": [(1, 1, "12:00:10")], "r": [(1, 10, "12:00:10"), (1, 11, 43_210_000_001)]}
    with InProcessEngine(bind_query(JOINED, streams)) as engine:
        step = engine.step(batch, now="12:00:00")
        assert (step.answers, step.metrics["ahead_r"]) == ([(1, 10)], 1)


def test_a_stream_may_be_declared_to_run_ahead_as_far_as_it_likes() -> None:
    streams = [declare(name, COLUMNS, event_time="ts", max_ahead="none") for name in ("l", "r")]
    batch = {"l": [(1, 1, YEAR_3000)], "r": [(1, 10, YEAR_3000)]}
    with InProcessEngine(bind_query(JOINED, streams)) as engine:
        assert engine.step(batch, now="2024-05-01 12:00:00").answers == [(1, 10)]


def test_a_script_without_a_clock_judges_nothing_by_it() -> None:
    batch = {"l": [(1, 1, YEAR_3000)], "r": [(1, 10, YEAR_3000)]}
    result = run_query(JOINED, [batch], streams=[LEFT, RIGHT])
    assert (result.answers, result.ahead) == ([(1, 10)], {"l": 0, "r": 0})


def test_a_pipeline_file_says_how_far_ahead_a_stream_may_be() -> None:
    text = "CREATE STREAM s (ts TIMESTAMP) WITH (format = 'json', path = 'p', event_time = 'ts'{});"
    found = [
        parse_pipeline(text.format(given)).streams[0].max_ahead_us
        for given in ("", ", max_ahead = '2 hours'", ", max_ahead = 'NONE'")
    ]
    assert found == [DAY_US, 7200 * SECOND_US, None]
    with pytest.raises(SqlError, match="'soon' is not a duration"):
        parse_pipeline(text.format(", max_ahead = 'soon'"))
    without = "CREATE STREAM s (ts TIMESTAMP) WITH (format = 'json', path = 'p', max_ahead = '1 day')"
    with pytest.raises(SqlError, match="stream s has a max_ahead but no event_time"):
        parse_pipeline(without)


def quiet(idle_after: str = "1 minute") -> list[Stream]:
    return [LEFT, declare("r", COLUMNS, event_time="ts", idle_after=idle_after)]


@pytest.mark.parametrize("how", ["rows", "files", "pipeline"])
@pytest.mark.parametrize("workers_stay", [False, True])
def test_the_time_a_query_is_stopped_is_not_silence(how: str, workers_stay: bool) -> None:
    """After the stop `l` is read first, and the backlog of `r` is an hour old."""
    with InProcessEngine(bind_query(JOINED, quiet()), HOW[how]) as engine:
        engine.step({"l": [(1, 1, "12:00:00")], "r": [(1, 10, "12:00:00")]}, now="12:00:00")
        engine.restart(workers_stay=workers_stay, now="13:00:00")
        engine.step({"l": [(1, 2, "12:00:30"), (1, 3, "12:59:00")]}, now="13:00:01")
        after = engine.step({"r": [(1, 20, "12:00:20")]}, now="13:00:02")
    assert after.answers == [(1, 20), (2, 20)] or after.answers == [(2, 20), (1, 20)]
    assert after.metrics["late_r"] == 0


@pytest.mark.parametrize("how", ["rows", "pipeline"])
def test_silence_before_and_after_a_stop_adds_up(how: str) -> None:
    with InProcessEngine(bind_query(JOINED, quiet()), HOW[how]) as engine:
        engine.step({"l": [(1, 1, "12:00:00")], "r": [(1, 10, "12:00:00")]}, now="12:00:00")
        engine.step({"l": [(1, 1, "12:00:40")]}, now="12:00:40")
        engine.restart(now="13:00:00")
        engine.step({"l": [(1, 2, "12:01:00")]}, now="13:00:20")  # a minute of silence, and no more
        in_time = engine.step({"r": [(1, 20, "12:00:20")]}, now="13:00:21")
        assert (len(in_time.answers), in_time.metrics["late_r"]) == (3, 0)
        engine.step({"l": [(1, 3, "12:02:00")]}, now="13:01:22")  # a minute and a second
        late = engine.step({"r": [(1, 30, "12:00:30")]}, now="13:01:23")
        assert (late.answers, late.metrics["late_r"]) == ([], 1)


@pytest.mark.parametrize("how", ["rows", "pipeline"])
def test_a_changed_lateness_counts_from_the_next_batch_on_whatever_workers_hold(how: str) -> None:
    before, after = (
        bind_query(JOINED, [declare(name, COLUMNS, event_time="ts", lateness=given) for name in ("l", "r")])
        for given in ("0", "1 minute")
    )
    with InProcessEngine(before, HOW[how]) as engine:
        engine.step({"l": [(1, 1, "12:00:00")], "r": [(1, 10, "12:00:00")]})
        engine._queries = after
        engine.restart(HOW[how], workers_stay=True)
        engine.step({"l": [(1, 2, "12:00:30")], "r": [(1, 20, "12:00:30")]})
        assert engine.step({"r": [(1, 30, "12:00:10")]}).metrics["late_r"] == 0


def test_a_stream_that_sends_what_cannot_be_used_is_not_silent() -> None:
    with InProcessEngine(bind_query(JOINED, quiet("10 seconds"))) as engine:
        engine.step({"l": [(1, 1, "12:00:00")], "r": [(1, 10, "12:00:00")]}, now="12:00:00")
        for second in range(5, 40, 5):
            given = {"l": [(1, 2, f"12:00:{second:02}")], "r": [(1, 20, YEAR_3000), (1, 20, None)]}
            engine.step(given, now=f"12:00:{second:02}")
        last = engine.step({"r": [(1, 30, "12:00:01")]}, now="12:00:41")
        assert last.metrics["late_r"] == 0


def test_an_idle_stream_is_not_carried_along_by_streams_a_query_never_reads() -> None:
    """`far` is read by another query; once `r` is back, it is waited for as if `far` were not there."""
    far = declare("far", COLUMNS, event_time="ts")
    streams = [*quiet("10 seconds"), far]
    other = (
        "SELECT far.v, l.v AS vl FROM far [RANGE 1 MINUTE] AS far, l [RANGE 1 MINUTE] AS l WHERE far.k = l.k"
    )
    queries = {"near": bind_query(JOINED, streams), "other": bind_query(other, streams)}
    script: list[tuple[str, dict[str, Any]]] = [
        ("12:00:00", {"l": [(1, 1, "12:00:00")], "r": [(1, 10, "12:00:00")], "far": [(1, 1, "12:59:00")]}),
        ("12:00:20", {"l": [(1, 2, "12:00:20")]}),  # r is idle now
        ("12:00:21", {"r": [(1, 20, "12:00:20")]}),
        ("12:00:22", {"l": [(1, 3, "12:00:50")]}),
        ("12:00:23", {"r": [(1, 30, "12:00:30")]}),
    ]
    with InProcessEngine(queries) as together, InProcessEngine(queries["near"]) as alone:
        for now, batch in script:
            shared = together.step(batch, now=now)
            own = alone.step({name: rows for name, rows in batch.items() if name != "far"}, now=now)
            assert oracle.bag(shared.by_query["near"]) == oracle.bag(own.answers)
    assert sorted(own.answers) == [(1, 30), (2, 30), (3, 30)]


SHARED_STREAMS = 4


def random_streams(draw: random.Random) -> list[Stream]:
    return [
        declare(
            f"s{number}",
            COLUMNS,
            event_time="ts",
            lateness=f"{draw.choice([0, 2, 5])} seconds",
            idle_after=draw.choice([None, "2 seconds", "3 seconds", "6 seconds"]),
        )
        for number in range(SHARED_STREAMS)
    ]


def random_query(draw: random.Random, streams: list[Stream]) -> Query:
    chosen = draw.sample(streams, draw.choice([2, 2, 3]))
    windows = [
        draw.choice(["RANGE 6 SECONDS", "RANGE 15 SECONDS", "TUMBLE 20 SECONDS", "UNBOUNDED"]) for _ in chosen
    ]
    aliases = "abc"[: len(chosen)]
    named = zip(chosen, windows, aliases, strict=True)
    sources = ", ".join(f"{one.name} [{window}] AS {alias}" for one, window, alias in named)
    columns = [("k", "k"), ("v", "v"), ("k", "v")]
    pairs = itertools.pairwise(aliases)
    equal = [f"{a}.{x} = {b}.{y}" for a, b in pairs for x, y in [draw.choice(columns)]]
    answer = ", ".join(f"{alias}.v AS v{alias}, {alias}.ts AS t{alias}" for alias in aliases)
    joined = f"FROM {sources} WHERE {' AND '.join(equal)}"
    kinds = [f"SELECT {answer} {joined}", f"SELECT DISTINCT a.v, b.v AS w {joined}"]
    if set(windows) != {"UNBOUNDED"}:
        kinds.append(f"SELECT a.k, sum(b.v) AS total, answer_time {joined} GROUP BY a.k EMIT EVERY 2 SECONDS")
    return bind_query(draw.choice([kinds[0], *kinds]), streams)


def random_clocked_batches(draw: random.Random) -> tuple[list[MicroBatch], list[int], dict[int, int]]:
    """Micro-batches, their times, and before which the query is stopped, and resumed when."""
    now, batches, times, stops = 100, [], [], {}
    silent_until = dict.fromkeys(range(SHARED_STREAMS), 0)
    for number in range(14):
        if number and draw.random() < 0.12:
            stops[number] = (now := now + draw.choice([1, 30, 1000])) * SECOND_US
        now += draw.choice([1, 2, 4])
        batch = {}
        for stream, until in silent_until.items():
            if draw.random() < 0.2:
                silent_until[stream] = now + draw.choice([6, 12, 20])
            if until > now or draw.random() < 0.2:
                continue
            ages = draw.choices([0, 1, 2, 4, 9, 12, 20], k=draw.randint(1, 4))
            values = [{"k": draw.randint(0, 2), "v": draw.randint(0, 2)} for _ in ages]
            pairs = zip(ages, values, strict=True)
            batch[f"s{stream}"] = [Tuple((now - age) * SECOND_US, value) for age, value in pairs]
        batches.append(batch)
        times.append(now * SECOND_US)
    return batches, times, stops


def run_clocked(
    queries: Query | dict[str, Query], case: tuple[list[MicroBatch], list[int], dict[int, int]], setup: Setup
) -> tuple[list[Any], oracle.Clock]:
    """The steps, and the clock as the oracle takes it."""
    batches, times, stops = case
    with InProcessEngine(queries, setup) as engine:
        known = {stream.name for stream in engine.streams}
        steps = []
        for number, batch in enumerate(batches):
            if number in stops:
                engine.restart(now=stops[number])
            own = {name: rows for name, rows in batch.items() if name in known}
            steps.append(engine.step(own, now=times[number]))
        return steps, engine.clock


def test_each_query_of_a_dataflow_is_late_as_if_it_ran_alone(request: pytest.FixtureRequest) -> None:
    """Streams that fall idle, out of order, over stops: in one dataflow, alone, and by the oracle."""
    answered = swayed = 0
    for seed in range(100 if request.config.getoption("--long") else 4):
        draw = random.Random(seed)
        streams = random_streams(draw)
        queries = {f"q{number}": random_query(draw, streams) for number in range(3)}
        case = random_clocked_batches(draw)
        together, clock = run_clocked(
            queries, case, Setup(partitions=2, direct_files=seed % 3 == 0, seed=seed)
        )
        for name, query in queries.items():
            expected = oracle.run(query, case[0], clock=clock)
            routing = draw.choice(["shares", "pipeline"])
            alone, _ = run_clocked(query, case, Setup(partitions=2, routing=routing, seed=seed))
            shared = [row for step in together for row in step.by_query[name]]
            assert oracle.bag(row for step in alone for row in step.answers) == oracle.bag(expected.rows), (
                f"seed {seed}, {name} alone by {routing}: {query.text}"
            )
            assert oracle.bag(shared) == oracle.bag(expected.rows), f"seed {seed}, {name}: {query.text}"
            answered += bool(expected.rows)
            inputs = tuple(
                replace(item, stream=replace(item.stream, idle_after_us=None)) for item in query.inputs
            )
            patient = oracle.run(replace(query, inputs=inputs), case[0], clock=clock)
            swayed += oracle.bag(patient.rows) != oracle.bag(expected.rows)
    assert answered > 8, "cases without answers prove nothing"
    assert swayed > 3, "in some cases it must matter that a stream fell idle"

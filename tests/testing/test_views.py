"""Views: streams made of others, one tuple at a time, read through the engine as any stream is."""

from __future__ import annotations

from random import Random

import pytest

from tests.testing.running import rows_of
from watersmeet.errors import ConfigurationError, QueryError
from watersmeet.oracle import oracle
from watersmeet.oracle.oracle import MicroBatch, Tuple
from watersmeet.plan.sites.site_dataflow import why_not_across_sites
from watersmeet.query import Column, Stream, Table
from watersmeet.sql import bind_query, bind_stream
from watersmeet.testing import Batch, InProcessEngine, Setup, declare, run_query

S = 1_000_000
CASES = 24
COLUMNS = "k BIGINT, v BIGINT, list ARRAY<BIGINT>, ts TIMESTAMP"
STREAMS = [
    declare(name, COLUMNS, event_time="ts", lateness=f"{lateness} seconds")
    for name, lateness in (("s1", 2), ("s2", 6))
]


def random_select(random: Random, of: str) -> str:
    """A SELECT of k, v and the event time, and of an array where nothing is exploded."""
    where = random.choice(("", "", f" WHERE v % {random.randint(2, 4)} = 0", " WHERE k <> 1 AND v > 4"))
    match random.randrange(4):
        case 0:
            return f"SELECT v AS k, k AS v, list, ts FROM {of}{where}"
        case 1:
            return f"SELECT k + {random.randint(0, 1)} AS k, v * 2 AS v, list, x.ts FROM {of} AS x{where}"
        case 2:
            kind = random.choice(("explode", "explode_outer"))
            return f"SELECT {kind}(list) AS k, v, CAST(NULL AS ARRAY<BIGINT>) AS list, ts FROM {of}{where}"
        case _:
            outer = random.choice(("", "OUTER "))
            lateral = f"{of} AS y LATERAL VIEW {outer}explode(y.list) e AS one"
            condition = random.choice(("", " WHERE e.one < 3 OR e.one IS NULL"))
            return f"SELECT k, one AS v, list, y.ts FROM {lateral}{condition}"


def random_views(random: Random) -> list[Stream]:
    """Some streams and views, later ones over earlier ones."""
    known = list(STREAMS)
    for name in ("v1", "v2", "v3"):
        parts = [random_select(random, random.choice(known).name) for _ in range(random.choice((1, 1, 2)))]
        known.append(bind_stream(name, " UNION ALL ".join(parts), known))
    return known


def random_batches(random: Random) -> list[MicroBatch]:
    serial = iter(range(10_000))

    def tuples(start_s: int) -> list[Tuple]:
        drawn = [random.randint(start_s - 4, start_s + 8) for _ in range(5)]
        return [
            Tuple(
                ts * S,
                {
                    "k": random.choice((0, 1, 2, None)),
                    "v": next(serial) % 9,
                    "list": random.choice(([], None, [1, 2], [0, None, 3])),
                },
            )
            for ts in drawn
        ]

    return [{stream.name: tuples(start_s) for stream in STREAMS} for start_s in range(0, 32, 8)]


@pytest.mark.parametrize("routing", ["shares", "pipeline", "rewrite"])
def test_every_routing_answers_as_the_oracle(routing: str, long_mode: bool) -> None:
    cases = CASES * 10 if long_mode else CASES // 3
    answered = united = 0
    for seed in range(cases):
        random = Random(f"{routing} {seed}")
        known = random_views(random)
        kinds = ["RANGE 5 SECONDS", "TUMBLE 10 SECONDS", "RANGE 9 SECONDS"]
        kinds += ["ROWS 4"] if routing == "shares" else []
        inputs = [(random.choice(known[1:]), random.choice(kinds)) for _ in range(random.choice((2, 2, 3)))]
        tables = ", ".join(f"{view.name} [{kind}] AS q{n}" for n, (view, kind) in enumerate(inputs))
        joins = " AND ".join(f"q0.k = q{n}.{random.choice('kkv')}" for n in range(1, len(inputs)))
        selected = ", ".join(f"q{n}.v AS v{n}" for n in range(len(inputs)))
        query = bind_query(f"SELECT {selected}, answer_time FROM {tables} WHERE {joins}", known)
        read = [stream.name for stream in query.streams]
        batches = [{name: batch[name] for name in read} for batch in random_batches(random)]
        expected = oracle.run(query, batches, flush=True).rows
        with InProcessEngine(query, Setup(routing=routing)) as engine:
            steps = [engine.step(batch) for batch in batches[:2]]
            engine.restart()
            steps += [*(engine.step(batch) for batch in batches[2:]), engine.end()]
        assert oracle.bag(rows_of(steps)) == oracle.bag(expected), seed
        answered += bool(expected)
        united += bool(expected) and any(len(view.view) > 1 for view, _ in inputs)
    assert answered >= 0.6 * cases
    assert united >= 0.1 * cases


def test_views_and_tables_stand_in_outer_joins(long_mode: bool) -> None:
    """Also one view as several inputs, of which one is joined with a table: their columns differ."""
    columns = (Column("id", "bigint"), Column("name", "string"))
    kinds = Stream("kinds", columns, table=Table(rows=((1, "one"), (2, "two"), (2, "deux"))))
    cases, answered = 200 if long_mode else 6, 0
    for seed in range(cases):
        random = Random(seed)
        known = [*random_views(random), kinds]
        a, b = (random.choice(known[2:-1]).name for _ in range(2))
        join = ("LEFT JOIN", "JOIN", "FULL JOIN", "LEFT ANTI JOIN", "LEFT SEMI JOIN", "RIGHT JOIN")[seed % 6]
        has_table, is_half = join in ("LEFT JOIN", "JOIN"), join.split()[1:2] in (["SEMI"], ["ANTI"])
        table = " LEFT JOIN kinds AS t ON t.id = a.v" if has_table else ""
        selected = f"a.v{'' if is_half else ', b.v AS w'}{', t.name' if has_table else ''}"
        tables = f"{a} [RANGE 5 SECONDS] AS a {join} {b} [RANGE 5 SECONDS] AS b ON a.k = b.k{table}"
        query = bind_query(f"SELECT {selected} FROM {tables}", known)
        read = [stream.name for stream in query.streams]
        batches = [{name: batch[name] for name in read} for batch in random_batches(random)]
        expected = oracle.run(query, batches, flush=True).rows
        with InProcessEngine(query) as engine:
            steps = [*(engine.step(batch) for batch in batches), engine.end()]
        assert oracle.bag(rows_of(steps)) == oracle.bag(expected), seed
        answered += bool(expected)
    assert answered >= 0.7 * cases


def test_tuples_that_a_view_leaves_out_still_say_how_far_their_stream_has_come() -> None:
    """Nothing in the view is newer than 12:00:00, and the tuple of 12:00:01 is late all the same."""
    rare = bind_stream("rare", "SELECT k, v FROM s1 WHERE v > 5", STREAMS)
    result = run_query(
        "SELECT a.v, b.v AS w FROM rare [RANGE 1 MINUTE] AS a, s2 [RANGE 1 MINUTE] AS b WHERE a.k = b.k",
        [
            {"s1": [(1, 9, None, "12:00:00"), (1, 0, None, "12:00:30")], "s2": [(1, 1, None, "12:00:30")]},
            {"s1": [(1, 8, None, "12:00:01"), (1, 7, None, "12:00:29")]},
        ],
        streams=[*STREAMS, rare],
    )
    assert sorted(result.rows) == [(7, 1), (9, 1)]
    assert result.late == {"rare": 1, "s2": 0}
    assert result.matches_oracle()


def test_each_stream_of_a_union_keeps_its_own_watermark() -> None:
    """s1 is an hour ahead of s2: its tuples make none of s2's late."""
    both = bind_stream("both", "SELECT k, v, ts FROM s1 UNION ALL SELECT k, -v, ts FROM s2", STREAMS)
    result = run_query(
        "SELECT a.v, b.v AS w FROM both [RANGE 1 MINUTE] AS a, both [RANGE 1 MINUTE] AS b "
        "WHERE a.k = b.k AND a.v < b.v",
        [
            {"s1": [(1, 1, None, "13:00:00")], "s2": [(1, 1, None, "12:00:00")]},
            {"s1": [(1, 2, None, "13:00:10")], "s2": [(1, 2, None, "12:00:05"), (1, 3, None, "11:59:50")]},
        ],
        streams=[*STREAMS, both],
    )
    assert sorted(result.rows) == [(-2, -1), (1, 2)]  # 11:59:50 is more than s2's 6 seconds late
    assert result.matches_oracle()


def test_what_a_condition_guards_against_is_never_computed() -> None:
    guarded = bind_stream("guarded", "SELECT k, CAST(10 / v AS BIGINT) AS v FROM s1 WHERE v <> 0", STREAMS)
    query = "SELECT a.v FROM guarded [RANGE 1 MINUTE] AS a, s2 [RANGE 1 MINUTE] AS b WHERE a.k = b.k"
    rows = [(1, 0, None, "12:00:00"), (1, 5, None, "12:00:00")]
    result = run_query(query, [{"s1": rows, "s2": [(1, 1, None, "12:00:00")]}], streams=[*STREAMS, guarded])
    assert result.rows == [(2,)]


def test_a_view_that_renames_columns_is_read_from_its_files_directly() -> None:
    streams = [declare(name, "k BIGINT, v BIGINT, ts TIMESTAMP", event_time="ts") for name in ("a", "b")]
    view = bind_stream("view", "SELECT at, v AS k, w FROM (SELECT ts AS at, k AS w, v FROM a) AS x", streams)
    sql = "SELECT w, b.v FROM view [RANGE 1 MINUTE], b [RANGE 1 MINUTE] WHERE view.k = b.k"
    query = bind_query(sql, [*streams, view])
    for routing in ("shares", "pipeline"):
        setup = Setup(direct_files=True, routing=routing, partitions=2)
        with InProcessEngine(query, setup) as engine:
            inputs = engine._dataflow.tasks.join.inputs  # type: ignore[union-attr]
            assert not any("PackRows" in type(task).__name__ for task in inputs)
            assert not any("PackFeeds" in type(task).__name__ for task in inputs if routing == "shares")
            step = engine.step({"a": [(7, 1, "12:00:00")], "b": [(1, 5, "12:00:01"), (7, 6, "12:00:01")]})
            assert step.answers == [(7, 5)]


def test_a_stream_far_ahead_is_judged_by_its_own_declaration_in_a_view() -> None:
    near = declare("near", "k BIGINT, ts TIMESTAMP", event_time="ts", max_ahead="1 minute")
    far = declare("far", "k BIGINT, ts TIMESTAMP", event_time="ts", max_ahead="none")
    both = bind_stream("both", "SELECT k, ts FROM near UNION ALL SELECT k, ts FROM far", [near, far])
    result = run_query(
        "SELECT a.k FROM both [RANGE 1 DAY] AS a, far [RANGE 1 DAY] AS b WHERE a.k = b.k",
        [Batch({"near": [(1, "12:30:00"), (1, "12:00:30")], "far": [(1, "12:30:00")]}, now="12:00:00")],
        streams=[near, far, both],
    )
    assert result.rows == [(1,), (1,)]
    assert result.matches_oracle()


@pytest.mark.parametrize("routing", ["shares", "pipeline"])
def test_a_view_joins_tuples_with_a_table(routing: str) -> None:
    columns = (Column("id", "bigint"), Column("name", "string"))
    kinds = Stream("kinds", columns, table=Table(rows=((1, "one"), (2, "two"), (2, "deux"))))
    known = [*STREAMS, kinds]
    named = bind_stream("named", "SELECT s1.k, v, name FROM s1 JOIN kinds ON s1.v = kinds.id", known)
    maybe = bind_stream("maybe", "SELECT s2.*, name FROM s2 LEFT JOIN kinds AS t ON t.id = v", known)
    result = run_query(
        "SELECT a.name, b.name AS other FROM named [RANGE 1 MINUTE] AS a, maybe [RANGE 1 MINUTE] AS b "
        "WHERE a.k = b.k",
        [
            {"s1": [(1, 2, None, "12:00:00"), (1, 7, None, "12:00:30")], "s2": [(1, 1, None, "12:00:30")]},
            {"s1": [(1, 1, None, "12:00:01")], "s2": [(1, 7, None, "12:00:31")]},
        ],
        streams=[*known, named, maybe],
        routing=routing,
    )
    expected = [("deux", "one"), ("deux", None), ("two", "one"), ("two", None)]
    assert sorted(result.rows, key=str) == expected  # what joins no row of the table is late all the same
    assert result.matches_oracle()


@pytest.mark.parametrize("kind", ["JOIN", "LEFT JOIN"])
def test_a_table_in_from_gives_what_joining_the_answers_gives(kind: str) -> None:
    """Joined by hand with the answers of the query without it."""
    columns = (Column("id", "bigint"), Column("name", "string"))
    rows = ((1, "one"), (2, "two"), (2, "deux"), (None, "none"), (7, "seven"))
    kinds = Stream("kinds", columns, table=Table(rows=rows))
    joined = "FROM s1 [RANGE 9 SECONDS] AS a {} JOIN s2 [RANGE 9 SECONDS] AS b ON a.k = b.k"
    plain = bind_query(f"SELECT a.v, b.v AS w {joined.format('')}", STREAMS)
    table = f"{kind} kinds AS c ON c.id = a.v AND c.name > 'n'"
    sql = f"SELECT a.v, b.v AS w, c.name {joined.format(table)} WHERE c.name IS NULL OR c.name <> 'two'"
    batches = random_batches(Random(5))
    expected = []
    for v, w in oracle.run(plain, batches).rows:
        names = [name for key, name in rows if key == v and key is not None and name > "n"]
        if kind == "LEFT JOIN" and not names:
            names = [None]  # type: ignore[list-item]
        expected += [(v, w, name) for name in names if name != "two"]
    found = run_query(sql, batches, streams=[*STREAMS, kinds])
    assert oracle.bag(found.rows) == oracle.bag(expected)
    assert found.matches_oracle()
    assert len({name for _, _, name in expected}) == (2 if kind == "JOIN" else 3)
    assert len(expected) > 5


def test_a_shared_dataflow_serves_no_views() -> None:
    view = bind_stream("v", "SELECT k, ts FROM s1", STREAMS)
    query = bind_query(
        "SELECT a.k FROM v [RANGE 1 MINUTE] AS a, s2 [RANGE 1 MINUTE] AS b WHERE a.k = b.k", [*STREAMS, view]
    )
    with pytest.raises(QueryError, match="a is a view, and a shared dataflow serves streams"):
        InProcessEngine({"q": query})


def test_a_view_is_not_read_across_sites() -> None:
    view = bind_stream("v", "SELECT k, ts FROM s1", STREAMS)
    sql = "SELECT a.k FROM v [RANGE 1 MINUTE] AS a, s2 [RANGE 1 MINUTE] AS b WHERE a.k = b.k"
    reason = why_not_across_sites(bind_query(sql, [*STREAMS, view]))
    assert reason == "a is a view, or joined with a table"


def test_a_batch_brings_tuples_of_streams_not_of_views() -> None:
    view = bind_stream("v", "SELECT k, ts FROM s1", STREAMS)
    sql = "SELECT a.k FROM v [RANGE 1 MINUTE] AS a, s2 [RANGE 1 MINUTE] AS b WHERE a.k = b.k"
    with pytest.raises(ConfigurationError, match="tuples of v, which is not a stream here: s1, s2"):
        run_query(sql, [{"v": [(1, "12:00:00")]}], streams=[*STREAMS, view])

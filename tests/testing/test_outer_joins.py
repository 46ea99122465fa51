"""What outer, semi and anti joins promise, batch by batch; that the bag is right the random trees show."""

from __future__ import annotations

import pytest

from tests.testing.outer_queries import condition, leaf, node, query
from watersmeet.errors import ConfigurationError, QueryError
from watersmeet.kernel import Shed, StateLimit
from watersmeet.oracle import oracle
from watersmeet.oracle.oracle import Row, Tuple
from watersmeet.query import JoinKind, JoinNode, rows
from watersmeet.sql import parse_pipeline
from watersmeet.testing import InProcessEngine, Setup

A, B, C, D = map(leaf, "abcd")
AB = node(JoinKind.LEFT, A, B, ("a.k", "b.k"))


Batch = dict[str, list[tuple[int | None, ...]]]  # tuples (k, v, ts) by alias


def _steps(tree: JoinNode, *batches: Batch, partitions: int = 3) -> list[list[Row]]:
    """The answers of each batch."""
    with InProcessEngine(query(tree), Setup(partitions=partitions)) as engine:
        return [
            sorted(engine.step({f"s_{a}": own for a, own in batch.items()}).answers, key=str)
            for batch in batches
        ]


def test_a_row_without_a_match_leaves_as_soon_as_the_watermark_passes_its_end() -> None:
    found = _steps(
        AB,
        {"a": [(1, 10, 0), (2, 20, 3)], "b": [(7, 70, 0)]},
        {"a": [(9, 90, 10)], "b": [(7, 71, 10)]},  # up to 10 each: the first a ends at 11
        {"a": [(9, 91, 11)], "b": [(7, 72, 10)]},  # b is not there yet
        {"b": [(7, 73, 11)]},
        {"a": [(9, 92, 14)], "b": [(2, 21, 13)]},  # in time for the second, which ends at 14
        {"b": [(2, 22, 14)]},  # and this one is not
    )
    assert found == [[], [], [], [(10, None, 0)], [(20, 21, 13)], []]


def test_a_row_that_has_left_at_the_watermark_does_not_come_back_in_a_restart() -> None:
    """The first a ends at 11, exactly where the watermark stands; its chunk stays for the second."""
    batches = (
        {"s_a": [(1, 10, 0), (2, 20, 5)], "s_b": [(7, 70, 0)]},
        {"s_a": [(9, 90, 11)], "s_b": [(7, 71, 11)]},
        {"s_a": [(9, 91, 12)], "s_b": [(7, 72, 12)]},
    )
    with InProcessEngine(query(AB), Setup(partitions=1)) as engine:
        found = []
        for batch in batches:
            found.append(engine.step(batch).answers)
            engine.restart()
    assert found == [[], [(10, None, 0)], []]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (JoinKind.LEFT, [(None, None, 3), (10, 11, 1), (20, None, 0)]),
        (JoinKind.FULL, [(None, 33, 2), (None, None, 3), (10, 11, 1), (20, None, 0)]),
        (JoinKind.SEMI, [(10, 0)]),
        (JoinKind.ANTI, [(20, 0), (None, 3)]),
    ],
)
def test_null_keys_match_nothing_and_are_kept_where_their_side_is(
    kind: JoinKind, expected: list[Row]
) -> None:
    tree = node(kind, A, B, ("a.k", "b.k"))
    first = {"a": [(1, 10, 0), (2, 20, 0), (None, None, 3)], "b": [(1, 11, 1), (None, 33, 2)]}
    found = _steps(tree, first, {"a": [(8, 80, 20)], "b": [(9, 90, 20)]}, partitions=3)
    assert sorted(found[0] + found[1], key=str) == sorted(expected, key=str)


def test_a_semi_join_answers_at_the_first_match_and_once() -> None:
    tree = node(JoinKind.SEMI, A, B, ("a.k", "b.k"))
    found = _steps(
        tree, {"a": [(1, 10, 0)]}, {"b": [(1, 0, 2), (1, 0, 3)]}, {"b": [(1, 0, 4)], "a": [(1, 11, 4)]}
    )
    assert found == [[], [(10, 0)], [(11, 4)]]


def test_partners_are_kept_for_rows_that_come_late_from_a_join_below() -> None:
    """(a, NULL) has the lifetime [0, 11), so c at 5 is its match, though both are long past when it comes."""
    tree = node(JoinKind.LEFT, AB, C, ("a.k", "c.k"))
    found = _steps(
        tree,
        {"a": [(1, 10, 0)], "b": [(2, 0, 0)], "c": [(1, 55, 5)]},
        {"a": [(3, 30, 30)], "b": [(2, 0, 30)], "c": [(2, 0, 30)]},
    )
    assert found == [[], [(10, None, 55, 5)]]


def test_a_row_waits_for_late_partners_and_no_longer() -> None:
    """c at 0 may meet (a, NULL), which is not known before a at 8 has ended, at 19."""
    tree = node(JoinKind.LEFT, C, node(JoinKind.LEFT, A, B, ("a.k", "b.k")), ("c.k", "a.k"))

    def at(ts: int) -> Batch:
        return {alias: [(5, ts, ts)] for alias in "abc"}

    found = _steps(tree, {"a": [(1, 80, 8)], "c": [(1, 0, 0), (2, 2, 0)]}, at(18), at(19), partitions=1)
    assert found[0] == []
    assert (None, None, 2, 0) not in found[1], "a at 8 is not decided, and c at 0 has to wait for it"
    assert (None, None, 2, 0) in found[2]
    assert (80, None, 0, 8) in found[2]


def test_a_condition_in_on_decides_matches() -> None:
    on = condition("a.v < b.v", "a.v", "b.v")
    tree = node(JoinKind.LEFT, A, B, ("a.k", "b.k"), on=[on])
    found = _steps(
        tree,
        {"a": [(1, 10, 0), (1, 20, 0)], "b": [(1, 15, 1), (1, None, 1)]},
        {"a": [(3, 0, 30)], "b": [(4, 0, 30)]},
    )
    assert found == [[(10, 15, 1)], [(20, None, 0)]]


def test_without_an_equality_all_tuples_meet() -> None:
    on = condition("a.v < b.v", "a.v", "b.v")
    tree = node(JoinKind.ANTI, A, B, on=[on])
    found = _steps(
        tree,
        {"a": [(1, 10, 0), (2, 20, 0)], "b": [(3, 15, 1)]},
        {"a": [(3, 0, 30)], "b": [(4, 0, 30)]},
        partitions=3,
    )
    assert found == [[], [(20, 0)]]


def test_what_is_decided_is_forgotten() -> None:
    tree = node(JoinKind.FULL, AB, C, ("a.k", "c.k"))
    with InProcessEngine(query(tree), Setup(partitions=2)) as engine:
        kept, chunks = [], []
        for number in range(40):
            now = 30 * number
            batch = {f"s_{alias}": [(k, now + k, now + k) for k in range(8)] for alias in "abc"}
            step = engine.step(batch)
            kept.append(step.metrics["state_rows"])
            chunks.append(step.metrics["state_chunks"])
        assert kept[-1] == kept[3] > 0
        assert chunks[-1] <= chunks[3] + 2
        stored = sum(len(store.keys) for store in engine.cluster.stores.values())
        assert stored < 100


def test_the_key_of_every_join_spreads_the_work_over_buckets() -> None:
    with InProcessEngine(query(AB), Setup(partitions=3)) as engine:
        assert engine.step({"s_a": [(1, 1, 0)]}).metrics["buckets"] == 3
    other = node(JoinKind.LEFT, AB, C, ("b.v", "c.v"))
    with InProcessEngine(query(other), Setup(partitions=3)) as engine:
        assert engine.step({"s_a": [(1, 1, 0)]}).metrics["buckets"] == 1


STREAMS = """
CREATE STREAM a (k INT, v BIGINT, name STRING, ts TIMESTAMP)
  WITH (format = 'json', path = 'a', event_time = 'ts', lateness = '1 second');
CREATE STREAM b (k BIGINT, v INT, name STRING, ts TIMESTAMP)
  WITH (format = 'json', path = 'b', event_time = 'ts');
"""


@pytest.mark.parametrize(
    "joined",
    [
        "a [RANGE 1 MINUTE] LEFT JOIN b [RANGE 1 MINUTE] ON a.k = b.k",  # INT and BIGINT
        "a [RANGE 1 MINUTE] FULL JOIN b [RANGE 1 MINUTE] ON upper(a.name) = upper(b.name) AND a.v > b.v",
        "a [RANGE 1 MINUTE] LEFT JOIN b [RANGE 1 MINUTE] "
        "ON a.k = b.k AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 10 SECONDS",
        "a [RANGE 1 MINUTE] LEFT JOIN b [RANGE 1 MINUTE] ON a.k = b.k AND b.ts - a.ts < INTERVAL 5 SECONDS",
        "a [RANGE 1 MINUTE] LEFT JOIN b [RANGE 1 MINUTE] ON a.k = b.k AND abs(a.v - b.v) < 3",
        "a [RANGE 1 MINUTE] LEFT JOIN b [RANGE 1 MINUTE] ON a.k = b.k AND a.v IN (1, b.v) AND a.v * b.v > 2",
    ],
)
def test_conditions_of_sql_decide_as_the_oracle_says(joined: str) -> None:
    asked = parse_pipeline(f"{STREAMS}SELECT a.v AS av, b.v AS bv FROM {joined};").queries[0]
    names = ["x", "X", "y", None]
    batches = [
        {
            stream: [
                Tuple(
                    3_000_000 * n,
                    {"k": n % (8 - factor), "v": (n * factor) % 7, "name": names[n * factor % 4]},
                )
                for n in range(20 * batch, 20 * batch + 20)
            ]
            for stream, factor in (("a", 3), ("b", 5))
        }
        for batch in range(3)
    ]
    expected = oracle.bag(oracle.run(asked, batches, flush=True).rows)
    with InProcessEngine(asked, Setup(partitions=3)) as engine:
        found = [row for batch in batches for row in engine.step(batch).answers] + engine.end().answers
    assert oracle.bag(found) == expected
    assert any(None in row for row in found)
    assert any(None not in row for row in found)


def test_a_row_window_ends_a_lifetime_when_its_successor_is_past() -> None:
    tree, batches = (
        AB,
        [
            {"s_a": [(1, 10, 0)], "s_b": [(2, 0, 0)]},
            {"s_a": [(2, 20, 5)], "s_b": [(3, 0, 5)]},
            {"s_b": [(3, 0, 6)], "s_a": [(9, 90, 6)]},
        ],
    )
    with InProcessEngine(query(tree, {"a": rows(1), "b": rows(1)}), Setup()) as engine:
        assert [engine.step(batch).answers for batch in batches] == [[], [], [(10, None, 0)]]


def test_what_does_not_go_with_trees_is_refused_in_words() -> None:
    limit = StateLimit(1 << 20, Shed.NONE)
    with pytest.raises(ConfigurationError, match="limit of memory would lose rows"):
        InProcessEngine(query(AB), Setup(state_limit=limit))
    with pytest.raises(ConfigurationError, match="by shares or as a pipeline, not by rewrite"):
        InProcessEngine(query(AB), Setup(routing="rewrite"))


@pytest.mark.parametrize(
    ("sql", "columns", "why"),
    [
        ("greatest(a.v, b.v) > 1", ("b.v", "a.v"), "Bring what is of one input to one side"),
        ("a.v = lower(b.v)", ("a.v", "b.v"), "not comparable"),
        ("hash(a.v, b.v) > 0", ("a.v", "b.v"), "only calculates sums"),
    ],
)
def test_conditions_that_the_join_cannot_evaluate_are_refused(
    sql: str, columns: tuple[str, ...], why: str
) -> None:
    tree = node(JoinKind.LEFT, A, B, ("a.k", "b.k"), on=[condition(sql, *columns)])
    with pytest.raises(QueryError, match=why):
        InProcessEngine(query(tree), Setup())


def test_what_would_be_computed_of_a_missing_tuple_is_refused() -> None:
    on = condition("coalesce(b.v, 0) < c.v", "b.v", "c.v")
    tree = node(JoinKind.LEFT, AB, C, ("a.k", "c.k"), on=[on])
    with pytest.raises(QueryError, match="b may be missing there"):
        InProcessEngine(query(tree), Setup())

"""Windows derived from the conditions of outer, semi and anti joins change no answer."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.oracle.test_against_duckdb import assert_share, merged
from tests.sql.binding.joins.test_random_trees import sql
from tests.strategies import microbatches
from tests.tree_strategies import tree_queries
from watersmeet.errors import SqlError
from watersmeet.oracle.oracle import MicroBatch, bag, emitted
from watersmeet.query import Block, Column, ColumnRef, Expr, JoinNode, Query, Stream, Tree, range_us
from watersmeet.query.join_tree import visible_aliases
from watersmeet.sql import bind_query

LONG_US = 1_000_000  # longer than all event times are apart
WITHOUT = re.compile(r" \[RANGE [^]]*\]")


@st.composite
def bounded_cases(draw: st.DrawFn) -> tuple[Query, list[MicroBatch]]:
    """A tree whose joins all have a condition on event times, under windows that end after everything."""
    query = draw(tree_queries(max_inputs=4, residuals=False))
    inputs = tuple(replace(item, window=range_us(LONG_US), filters=()) for item in query.inputs)
    assert query.tree is not None
    tree = draw(_bounded(query.tree))
    assert isinstance(tree, JoinNode)
    asked = replace(query, inputs=inputs, tree=tree)
    return asked, draw(microbatches(asked))


@st.composite
def _bounded(draw: st.DrawFn, tree: Tree) -> Tree:
    if isinstance(tree, Block):
        pairs = list(zip(tree.aliases, tree.aliases[1:], strict=False))
        return replace(tree, residual=tuple(draw(_between(*pair)) for pair in pairs))
    left, right = draw(_bounded(tree.left)), draw(_bounded(tree.right))
    one = draw(st.sampled_from(visible_aliases(tree.left)))
    other = draw(st.sampled_from(visible_aliases(tree.right)))
    return replace(tree, left=left, right=right, residual=(draw(_between(one, other)),))


@st.composite
def _between(draw: st.DrawFn, one: str, other: str) -> Expr:
    before, after = (draw(st.sampled_from([0, 1, 5, 20])) for _ in range(2))
    return Expr(
        f"{other}.ts BETWEEN {one}.ts - INTERVAL '{before}' MICROSECONDS "
        f"AND {one}.ts + INTERVAL '{after}' MICROSECONDS",
        (ColumnRef(other, "ts"), ColumnRef(one, "ts")),
        "boolean",
    )


def test_a_derived_window_keeps_no_match_away(long_mode: bool) -> None:
    answered: list[bool] = []
    derived: list[bool] = []

    @settings(max_examples=3000 if long_mode else 25)
    @given(bounded_cases())
    def check(case: tuple[Query, list[MicroBatch]]) -> None:
        asked, batches = case
        try:
            bound = bind_query(WITHOUT.sub("", sql(asked)), asked.streams)
        except SqlError:  # a side that is kept has no window
            derived.append(False)
            return
        streams = merged(asked, batches)
        rows = emitted(asked, streams)
        assert bag(emitted(bound, streams)) == bag(rows), bound.pretty()
        answered.append(bool(rows))
        derived.append(any(item.is_derived for item in bound.inputs))

    check()
    assert_share(answered)
    assert_share(derived, 0.6)


A, B, C = (
    Stream(f"s_{name}", (Column("k", "int"), Column("ts", "timestamp")), event_time="ts") for name in "abc"
)


def within(one: str, other: str, length: str) -> str:
    return f"{one}.k = {other}.k AND {other}.ts BETWEEN {one}.ts AND {one}.ts + INTERVAL {length}"


@pytest.mark.parametrize(
    ("joins", "windows"),
    [
        (f"s_a a LEFT JOIN s_b b ON {within('a', 'b', '1 HOUR')}", ["1 H", "1 US"]),
        (f"s_b b RIGHT JOIN s_a a ON {within('a', 'b', '1 HOUR')}", ["1 US", "1 H"]),
        (f"s_a a FULL JOIN s_b b ON {within('a', 'b', '1 HOUR')}", ["1 H", "1 US"]),
        (f"s_a a WHERE EXISTS (SELECT 1 FROM s_b b WHERE {within('a', 'b', '1 HOUR')})", ["1 H", "1 US"]),
        (f"s_a a [RANGE 2 HOURS] LEFT ANTI JOIN s_b b ON {within('a', 'b', '1 HOUR')}", ["2 H", "1 US"]),
        (  # while c is there, it bounds how far a and b are apart; without it nothing does
            "s_a a [RANGE 1 DAY] LEFT JOIN s_b b ON a.k = b.k "
            f"LEFT JOIN s_c c ON {within('a', 'c', '1 HOUR')} AND b.ts >= c.ts",
            ["1 D", "UNBOUNDED", "1 D"],
        ),
        (  # an inner join above makes the outer one inner
            f"s_a a LEFT JOIN s_b b ON {within('a', 'b', '1 HOUR')} "
            f"JOIN s_c c ON {within('b', 'c', '1 HOUR')}",
            ["2 H", "1 H", "1 US"],
        ),
        (  # WHERE bounds what the outer join preserves
            f"s_a a JOIN s_c c ON a.k = c.k LEFT JOIN s_b b ON {within('a', 'b', '1 HOUR')} "
            "WHERE c.ts BETWEEN a.ts AND a.ts + INTERVAL 5 MINUTES",
            ["1 H", "1 H", "5 MIN"],
        ),
    ],
)
def test_windows_that_conditions_of_joins_imply(joins: str, windows: Sequence[str]) -> None:
    bound = bind_query(f"SELECT a.k FROM {joins}", [A, B, C])
    found = [item.window.pretty().strip("[]").removeprefix("RANGE ") for item in bound.inputs]
    assert found == windows


@pytest.mark.parametrize(("count", "is_derived"), [(8, True), (16, False)])
def test_many_outer_joins_are_bound_in_time_or_refused(count: int, is_derived: bool) -> None:
    """Each doubles what an answer may consist of."""
    streams = [replace(A, name=f"s{number}") for number in range(count)]
    joins = [f"LEFT JOIN s{n} ON {within('s0', f's{n}', '1 HOUR')}" for n in range(1, count)]
    text = f"SELECT s0.k FROM s0 {' '.join(joins)}"
    if is_derived:
        assert {item.window for item in bind_query(text, streams).inputs} == {range_us(3_600_000_000)}
    else:
        with pytest.raises(SqlError, match="for want of a window"):
            bind_query(text, streams)


def test_what_a_tuple_that_may_be_missing_bounds_is_not_bounded() -> None:
    """With b there, c is at most ten minutes later than b; without b, c may come at any time after a."""
    joins = f"s_a a LEFT JOIN s_b b [RANGE 10 MINUTES] ON {within('a', 'b', '1 HOUR')}"
    last = "JOIN s_c c ON a.k = c.k AND c.ts >= a.ts"
    with pytest.raises(SqlError, match="wait for ever for a match of a, "):
        bind_query(f"SELECT a.k FROM {joins} LEFT {last}", [A, B, C])
    inner = bind_query(f"SELECT a.k FROM {joins.replace('LEFT', '')} {last}", [A, B, C])
    assert inner.input("a").window == range_us(4_200_000_000)

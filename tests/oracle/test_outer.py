"""What outer, semi and anti joins answer, and from which watermark on it is certain."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings

from tests.tree_strategies import tree_cases
from watersmeet.oracle.oracle import MicroBatch, Row, Tuple, answers, bag, emitted, run, take_in
from watersmeet.query import (
    UNBOUNDED,
    Block,
    Column,
    Equality,
    Expr,
    Input,
    JoinGraph,
    JoinKind,
    JoinNode,
    Output,
    Query,
    RangeWindow,
    Stream,
    Tree,
    TumbleWindow,
    Window,
    column_expr,
    range_us,
    rows,
)
from watersmeet.query.join_tree import key_graph, latest_us

COLUMNS = (Column("k", "bigint"), Column("v", "string"), Column("ts", "timestamp"))
WINDOWS: Mapping[str, Window] = dict.fromkeys("abc", range_us(9))  # a tuple at t has the lifetime [t, t + 10)
T = Expr("answer_time", uses_answer_time=True)


def at(ts: int, key: int | None = 1) -> Tuple:
    return Tuple(ts, {"k": key, "v": f"at {ts}"})


def join(kind: JoinKind, left: Tree | str, right: Tree | str, keys: str) -> JoinNode:
    sides = [Block(JoinGraph((side,))) if isinstance(side, str) else side for side in (left, right)]
    one, other = (column_expr(alias, "k", "bigint") for alias in keys)
    return JoinNode(kind, sides[0], sides[1], (Equality(one, other, "bigint"),))


def query(tree: JoinNode, windows: Mapping[str, Window] = WINDOWS) -> Query:
    """Selects the v of every input, and the answer's time."""
    aliases = tuple(sorted(tree.aliases))
    return Query(
        inputs=tuple(Input(name, Stream(f"s_{name}", COLUMNS, "ts"), windows[name]) for name in aliases),
        graph=key_graph(aliases, tree),
        select=(*(Output(name, column_expr(name, "v")) for name in aliases), Output("t", T)),
        tree=tree,
    )


def answered(asked: Query, watermark: int | None = None, **streams: Sequence[Tuple]) -> Counter[Row]:
    return Counter(emitted(asked, {f"s_{name}": tuples for name, tuples in streams.items()}, watermark))


@pytest.mark.parametrize(
    ("kind", "found"),
    [
        (JoinKind.INNER, [("at 0", "at 9", 9)]),
        (JoinKind.LEFT, [("at 0", "at 9", 9), ("at 30", None, 30)]),
        (JoinKind.FULL, [("at 0", "at 9", 9), ("at 30", None, 30), (None, "at 20", 20)]),
        (JoinKind.SEMI, [("at 0", None, 0)]),
        (JoinKind.ANTI, [("at 30", None, 30)]),
    ],
)
def test_each_kind_of_join(kind: JoinKind, found: list[Row]) -> None:
    asked = query(join(kind, "a", "b", "ab"))
    assert answered(asked, a=[at(0), at(30)], b=[at(9), at(20)]) == Counter(found)


def test_a_semi_join_answers_once_however_many_matches_there_are() -> None:
    asked = query(join(JoinKind.SEMI, "a", "b", "ab"))
    assert answered(asked, a=[at(0), at(0)], b=[at(1), at(1), at(2)]) == Counter({("at 0", None, 0): 2})


def test_null_equals_nothing() -> None:
    asked = query(join(JoinKind.FULL, "a", "b", "ab"))
    assert answered(asked, a=[at(0, None)], b=[at(1, None)]) == Counter(
        [("at 0", None, 0), (None, "at 1", 1)]
    )


def test_a_row_of_nulls_is_certain_when_its_lifetime_has_ended() -> None:
    asked = query(join(JoinKind.LEFT, "a", "b", "ab"))
    streams = {"a": [at(0)], "b": [at(9, 2)]}
    assert not answered(asked, 9, **streams)
    assert answered(asked, 10, **streams) == Counter([("at 0", None, 0)])


def test_a_match_is_certain_at_once() -> None:
    for kind, found in ((JoinKind.LEFT, ("at 0", "at 9", 9)), (JoinKind.SEMI, ("at 0", None, 0))):
        assert answered(query(join(kind, "a", "b", "ab")), 0, a=[at(0)], b=[at(9)]) == Counter([found])


def test_a_partner_that_is_late_itself_makes_the_answer_late() -> None:
    """a waits for (b, NULL), which is known at the end of b's lifetime, after the end of a's own."""
    asked = query(join(JoinKind.LEFT, "a", join(JoinKind.LEFT, "b", "c", "bc"), "ab"))
    streams: dict[str, list[Tuple]] = {"a": [at(0)], "b": [at(9)], "c": []}
    assert not answered(asked, 18, **streams)
    assert answered(asked, 19, **streams) == Counter([("at 0", "at 9", None, 9)])


def test_under_an_upper_join_lifetimes_are_those_of_whole_combinations() -> None:
    """c overlaps a, and not the combination of a and b."""
    asked = query(
        join(JoinKind.LEFT, join(JoinKind.INNER, "a", "b", "ab"), "c", "ac"), {**WINDOWS, "b": range_us(1)}
    )
    assert answered(asked, a=[at(0)], b=[at(1)], c=[at(5)]) == Counter([("at 0", "at 1", None, 1)])


def test_rows_windows_wait_for_the_watermark() -> None:
    asked = query(join(JoinKind.LEFT, "a", "b", "ab"), {**WINDOWS, "a": rows(1)})
    streams = {"a": [at(0), at(5)], "b": [at(3), at(7)]}
    assert answered(asked, 3, **streams) == Counter()
    assert answered(asked, 4, **streams) == Counter([("at 0", "at 3", 3)])
    assert answered(asked, **streams) == Counter(
        [("at 0", "at 3", 3), ("at 5", "at 3", 5), ("at 5", "at 7", 7)]
    )


def test_a_tuple_without_end_is_answered_at_the_end_of_time() -> None:
    asked = query(join(JoinKind.ANTI, "a", "b", "ab"), {**WINDOWS, "a": UNBOUNDED})
    assert not answered(asked, 2**62, a=[at(0)], b=[])
    assert answered(asked, a=[at(0)], b=[]) == Counter([("at 0", None, 0)])


def test_a_derived_window_decides_when_nulls_come() -> None:
    asked = query(join(JoinKind.LEFT, "a", "b", "ab"))
    derived = replace(asked, inputs=tuple(replace(item, is_derived=True) for item in asked.inputs))
    assert derived.as_written() == derived
    assert answered(derived, 10, a=[at(0)], b=[at(20)]) == Counter([("at 0", None, 0)])


def test_nothing_that_was_certain_is_taken_back(long_mode: bool) -> None:
    """What is certain after some batches stays in the final answer, and in the end all of it is certain."""
    partly: list[bool] = []

    @settings(max_examples=1000 if long_mode else 20)
    @given(tree_cases(max_inputs=4))
    def check(case: tuple[Query, list[MicroBatch]]) -> None:
        asked, batches = case
        final = bag(run(asked, batches, flush=True).rows)
        said: list[int] = []
        for count in range(len(batches) + 1):
            known = bag(run(asked, batches[:count]).rows)
            assert known <= final
            said.append(known.total())
        assert said == sorted(said)
        partly.append(0 < said[-1] < final.total())

    check()
    assert sum(partly) >= 0.1 * len(partly)


def test_no_answer_is_later_than_its_tree_says(long_mode: bool) -> None:
    """The planner tells a person how far the watermark has to be past an answer's time, at most."""
    reached: list[bool] = []

    @settings(max_examples=1000 if long_mode else 20)
    @given(tree_cases(max_inputs=4, windows=(RangeWindow, TumbleWindow)))
    def check(case: tuple[Query, list[MicroBatch]]) -> None:
        asked, batches = case
        assert asked.tree is not None
        latest = latest_us(asked.tree, {item.alias: item.window for item in asked.inputs})
        assert latest is not None
        found = answers(asked, take_in(asked, batches).accepted)
        assert all(answer.certain_at <= answer.t + latest + 1 for answer in found)
        reached.append(any(answer.certain_at == answer.t + latest + 1 for answer in found))

    check()
    assert any(reached)


def test_what_is_certain_late_stays_so_above() -> None:
    """The left side of the upper join is itself a row of NULLs, certain after the end of its lifetime."""
    lower = join(JoinKind.LEFT, "a", join(JoinKind.LEFT, "b", "c", "bc"), "ab")
    asked = query(join(JoinKind.LEFT, lower, "d", "ad"), {**WINDOWS, "d": range_us(9)})
    streams: dict[str, list[Tuple]] = {"a": [at(0)], "b": [at(9)], "c": [], "d": []}
    assert not answered(asked, 18, **streams)
    assert answered(asked, 19, **streams) == Counter([("at 0", "at 9", None, None, 9)])

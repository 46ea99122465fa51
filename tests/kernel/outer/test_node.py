"""A node by itself: keys are compared by value, marks are kept, blocks are bounded."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest

from watersmeet.errors import DataError
from watersmeet.kernel import DEFAULT_TUNING, Tuning
from watersmeet.kernel.outer.marks import Marks
from watersmeet.kernel.outer.node import LEFT, RIGHT, JoinedSides, NodeJoin
from watersmeet.kernel.outer.side import Combinations, SideLayout
from watersmeet.kernel.outer.undecided import Undecided
from watersmeet.query import JoinKind, range_us

WINDOW = range_us(10)


def _node(kind: JoinKind, tuning: Tuning = DEFAULT_TUNING) -> NodeJoin:
    sides = {
        name: SideLayout(
            section=f"#0.{name}",
            columns=(f"{alias}.k",),
            keys=(f"{alias}.k",),
            read=(),
            window=WINDOW,
            positions={},
            keeps_unmatched=True,
            has_marks=True,
        )
        for name, alias in ((LEFT, "a"), (RIGHT, "b"))
    }
    return NodeJoin(JoinedSides(kind, sides, None, {LEFT: ("a.k",), RIGHT: ("b.k",)}), tuning)


def _tuples(alias: str, keys: Sequence[object], ts: int = 0) -> Combinations:
    times = np.full(len(keys), ts)
    return Combinations(times, WINDOW.end_us(times), {f"{alias}.k": pa.array(keys)})


def test_keys_of_which_the_hashes_agree_in_part_are_told_apart() -> None:
    node = _node(JoinKind.LEFT)
    assert not list(node.feed(LEFT, _tuples("a", range(20_000))))
    assert not list(node.feed(RIGHT, _tuples("b", range(20_000, 40_000))))
    (alone,) = node.close({LEFT: 11, RIGHT: 11})
    assert alone.columns["a.k"].to_pylist() == list(range(20_000))
    assert alone.columns["b.k"].null_count == 20_000


def test_what_leaves_comes_in_blocks_of_bounded_size() -> None:
    node = _node(JoinKind.LEFT, Tuning(block_bytes=4000))
    list(node.feed(LEFT, _tuples("a", [1] * 300)))
    pairs = list(node.feed(RIGHT, _tuples("b", [1] * 300)))
    assert sum(map(len, pairs)) == 300 * 300
    assert max(each.nbytes for each in pairs) <= 8000
    list(node.feed(LEFT, _tuples("a", range(2, 1000), ts=20)))
    alone = list(node.close({LEFT: 40, RIGHT: 40}))
    assert sum(map(len, alone)) == 998
    assert max(each.nbytes for each in alone) <= 4200  # with a bit for each NULL


def test_keys_of_different_types_are_refused() -> None:
    node = _node(JoinKind.INNER)
    list(node.feed(LEFT, _tuples("a", [1])))
    with pytest.raises(DataError, match=r"the key b\.k is int32, a\.k is int64: cast both to one type"):
        list(node.feed(RIGHT, Combinations(*_times(1), {"b.k": pa.array([1], pa.int32())})))


def _times(count: int) -> tuple[np.ndarray, np.ndarray]:
    return np.zeros(count, np.int64), np.full(count, 11)


def test_marks_are_new_once_and_gone_with_their_rows() -> None:
    marks = Marks("m", Tuning(merge_rows=4))
    assert sorted(marks.mark(np.array([3, 1, 3, 1])).tolist()) == [1, 3]
    assert marks.mark(np.array([1, 3, 4])).tolist() == [4]
    marks.settle(0)
    assert marks.mark(np.array([900])).tolist() == [900]
    marks.settle(4)
    assert marks.are_marked(np.array([4, 5, 900, 5000])).tolist() == [True, False, True, False]
    again = Marks("m")
    again.restore(marks.persisted(), marks.next_number)
    assert again.are_marked(np.array([4, 5, 900])).tolist() == [True, False, True]
    marks.settle(901)
    assert marks.persisted() == []


def test_undecided_rows_leave_in_the_order_of_their_ends() -> None:
    undecided = Undecided()
    undecided.add(np.array([0, 1, 2]), np.array([5, 1, 3]), np.array([30, 10, 20]))
    undecided.add(np.array([3]), np.array([12]), np.array([20]))
    assert (undecided.release(9).tolist(), undecided.least_ts) == ([], 1)
    assert (undecided.release(20).tolist(), undecided.least_ts) == ([1, 2, 3], 5)
    assert undecided.release(30).tolist() == [0]


@pytest.mark.parametrize("is_restored", [False, True])
def test_keys_of_two_types_are_refused_though_their_hashes_differ(is_restored: bool) -> None:
    node = _node(JoinKind.LEFT)
    list(node.feed(LEFT, _tuples("a", [1.0, 2.0])))
    if is_restored:
        kept, node = node, _node(JoinKind.LEFT)
        node.restore(kept.snapshot(), kept.persisted())
    with pytest.raises(DataError, match=r"the key b\.k is int64, a\.k is double: cast both"):
        list(node.feed(RIGHT, _tuples("b", [1, 2])))

"""However many tuples meet, combinations are made and answers leave in blocks of bounded size."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernel.answered import answers_in
from tests.kernel.feeding import SMALL, feed, output_rows
from tests.strategies import cases
from watersmeet.kernel import TS, Bucket, MultiwayJoin, Tuning
from watersmeet.kernel.columns.row_bytes import stretches, value_bytes
from watersmeet.kernel.join.combinations import PARTIAL_BYTES, ROW_BYTES
from watersmeet.kernel.layout import InputLayout, JoinLayout
from watersmeet.kernel.state import slice as slice_module
from watersmeet.oracle import oracle
from watersmeet.oracle.oracle import MicroBatch
from watersmeet.query import Query, Window, range_us

Case = tuple[Query, list[MicroBatch]]
Examples = Callable[[int], settings]

BOUND = 20_000
TIGHT = Tuning(block_bytes=BOUND)


def join_of(
    aliases: str, tuning: Tuning = TIGHT, payload: tuple[str, ...] = ("v",), window: Window | None = None
) -> MultiwayJoin:
    """A join of inputs by one key."""
    each = window or range_us(1_000_000)
    inputs = tuple(InputLayout(alias, each, ((0, "k"),), payload) for alias in aliases)
    return MultiwayJoin(JoinLayout(inputs, delayed=False), tuning=tuning)


def tuples(count: int, *, key: int = 7, start: int = 0) -> pa.RecordBatch:
    """Tuples of one key, told apart by their payload."""
    numbers = pa.array(np.arange(start, start + count))
    return pa.record_batch({TS: numbers, "k": pa.array(np.full(count, key)), "v": numbers})


def assert_blocks(tables: Sequence[pa.Table], bound: int = BOUND) -> None:
    assert max(table.nbytes for table in tables if table.num_rows > 1) <= bound
    assert len(tables) >= sum(table.nbytes for table in tables) / bound


def combinations(tables: Sequence[pa.Table], aliases: str) -> Counter[tuple[int, ...]]:
    found: Counter[tuple[int, ...]] = Counter()
    for table in tables:
        found.update(zip(*(table[f"{alias}.v"].to_pylist() for alias in aliases), strict=True))
    return found


@pytest.mark.parametrize("sizes", [(300, 200), (1, 5000), (5000, 1), (20, 30, 40), (1, 1, 4000)])
def test_a_hot_value_leaves_in_blocks_from_the_first_batch_on(sizes: tuple[int, ...]) -> None:
    aliases = "abc"[: len(sizes)]
    join = join_of(aliases)
    tables = list(join.step({a: tuples(n) for a, n in zip(aliases, sizes, strict=True)}, 0))
    assert_blocks(tables)
    expected = np.stack(np.meshgrid(*map(np.arange, sizes)), axis=-1).reshape(-1, len(sizes))
    assert combinations(tables, aliases) == Counter(map(tuple, expected.tolist()))
    assert join.counts.answers == np.prod(sizes)


def test_a_value_that_becomes_hot_leaves_in_blocks_whatever_was_learnt_before() -> None:
    join = join_of("abc")
    for number in range(10):  # tuples that meet one at a time
        list(join.step({alias: tuples(1, key=number, start=number) for alias in "abc"}, 0))
    tables = list(join.step({alias: tuples(30, key=99, start=100) for alias in "abc"}, 0))
    assert_blocks(tables)
    assert sum(table.num_rows for table in tables) == 30**3


def test_old_tuples_that_have_become_many_leave_in_blocks() -> None:
    join, tables = join_of("ab"), []
    for number in range(10):
        tables += list(join.step({"a": tuples(50, start=50 * number)}, 0))
    assert not tables
    tables = list(join.step({"b": tuples(40)}, 0))
    assert_blocks(tables)
    assert sum(table.num_rows for table in tables) == 500 * 40


def test_wide_values_are_few_in_a_block() -> None:
    """One wide tuple meets many, and most others are narrow."""
    join = join_of("ab", payload=("k", "v", "note"))
    notes = {"a": ["x" * 3000, *["y"] * 99], "b": ["z"] * 150}
    new = {
        alias: tuples(len(own)).append_column("note", pa.array(own, pa.string()))
        for alias, own in notes.items()
    }
    tables = list(join.step(new, 0))
    assert_blocks(tables)
    assert sum(table.num_rows for table in tables) == 100 * 150
    rows = [table.num_rows for table in tables]
    assert min(rows[:-1]) < 10
    assert max(rows) > 100, "narrow answers do not pay for wide ones"


def test_pairs_that_only_seem_to_match_are_bounded_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    overlapping = slice_module.overlapping_pairs

    def watched(pairs, *facts):  # type: ignore[no-untyped-def]
        seen.append(len(pairs[0]))
        return overlapping(pairs, *facts)

    monkeypatch.setattr(slice_module, "overlapping_pairs", watched)
    # All tuples of b are in one slice, and each meets only the tuples of a next to it.
    join = join_of("ab", replace(TIGHT, max_slices_per_append=1), window=range_us(1))
    assert sum(table.num_rows for table in join.step({"a": tuples(400), "b": tuples(400)}, 0)) == 3 * 400 - 2
    assert sum(seen) > 10_000
    assert max(seen) <= BOUND // (PARTIAL_BYTES + 2 * ROW_BYTES)


def test_answers_are_the_oracles_however_small_the_blocks(examples: Examples) -> None:
    with answers_in(0.5) as answered:

        @given(cases(kinds=("plain",)), st.sampled_from([1, 300, 1500]))
        @examples(25)
        def holds(case: Case, bound: int) -> None:
            query, batches = case
            bucket, found = Bucket(query, tuning=replace(SMALL, block_bytes=bound)), list[pa.Table]()
            for batch in [*batches, None]:
                found += feed(bucket, batch, flush=batch is None)
            expected = oracle.run(query, batches, flush=True).rows
            answered.count(expected)
            assert all(table.nbytes <= bound or table.num_rows == 1 for table in found)
            assert oracle.bag(output_rows(query, found)) == oracle.bag(expected)

        holds()


PEAK = """
import numpy as np, pyarrow as pa
from tests.kernel.join.test_blocks import join_of, tuples
from watersmeet.kernel import Tuning

def status(name):
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(name)) << 10

tuning = Tuning(block_bytes={bound})
sum(table.num_rows for table in join_of("ab", tuning).step({{"a": tuples(10), "b": tuples(10)}}, 0))
join, new, before = join_of("ab", tuning), {{"a": tuples(5000), "b": tuples(5000)}}, status("VmRSS")
print(sum(table.num_rows for table in join.step(new, 0)), status("VmHWM") - before)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads its peak memory from /proc")
def test_no_more_memory_is_taken_than_the_blocks_may() -> None:
    """Their answers would take 600 MB, with the combinations that they are made of 2 GB."""
    bound = 16 << 20
    root = Path(__file__).parents[3]
    command = [sys.executable, "-c", PEAK.format(bound=bound)]
    said = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout.split()
    answers, taken = map(int, said)
    assert answers == 5000 * 5000
    assert taken < 3 * bound, f"{taken >> 20} MB"  # of combinations, of answers, and small change


def test_the_bytes_of_values_are_those_of_their_buffers() -> None:
    nested = pa.array([{"x": 1, "l": "abc"}, None, {"x": 2, "l": None}])
    lists = pa.array([["red", None], [], None, ["blue"]], pa.list_(pa.string()))
    maps = pa.array([[("a", 1)], None, [("bc", 2), ("d", 3)]], pa.map_(pa.string(), pa.int64()))
    assert value_bytes(pa.array([1, 2])) == 8
    assert value_bytes(pa.array([None, None])) == 0
    assert np.asarray(value_bytes(pa.array(["", None, "abc"]))).tolist() == [4, 4, 7]
    assert np.asarray(value_bytes(nested)).tolist() == [15, 12, 12]
    assert np.asarray(value_bytes(lists)).tolist() == [4 + 7 + 4, 4, 4, 4 + 8]
    assert np.asarray(value_bytes(lists.slice(1))).tolist() == [4, 4, 4 + 8]
    assert np.asarray(value_bytes(maps)).tolist() == [4 + 13, 4, 4 + 14 + 13]


@given(st.lists(st.integers(0, 50), max_size=40), st.integers(0, 120))
def test_stretches_are_all_rows_in_order_and_none_is_too_wide(sizes: list[int], nbytes: int) -> None:
    each = np.array(sizes, np.int64)
    widest = max(sizes, default=0)
    parts = list(stretches(len(sizes), nbytes, widest, lambda: each))
    assert [n for part in parts for n in range(part.start, part.stop)] == list(range(len(sizes)))
    assert all(each[part].sum() <= nbytes or part.stop - part.start == 1 for part in parts)
    assert all(each[part.start : part.stop + 1].sum() > nbytes for part in parts[:-1]), (
        "a stretch that could be longer"
    )

"""A slice finds what a loop over all its tuples finds, however it came to hold them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernel.feeding import SMALL
from watersmeet.kernel import Tuning
from watersmeet.kernel.columns.hash_index import Longs
from watersmeet.kernel.columns.hashing import Hashes
from watersmeet.kernel.state.arrivals import Arrivals
from watersmeet.kernel.state.slice import SHORT_SPAN, Slice, concat_matches
from watersmeet.query import range_us

Examples = Callable[[int], settings]
Found = list[tuple[int, int, int, int]]

SPAN_US = 10
# Hashes that agree in one half only, in the bits that pick a head or stand in a word, or in all.
HALVES = st.sampled_from([0, 1, 16, 256, 1 << 31, (1 << 32) - 1])
HASHES = st.builds(lambda upper, lower: (upper << 32) | lower, HALVES, HALVES)
TUPLES = st.lists(st.tuples(HASHES, st.integers(0, 30)), min_size=1, max_size=60)


@dataclass
class Rows:
    """Keys of rows, of which some may be gone; the hash of a second class is that of the first, inverted."""

    first_row: int = 0
    keys: list[int] = field(default_factory=list)
    since: int = 0

    def holds(self, rows: Longs) -> npt.NDArray[np.bool_]:
        return rows >= self.since

    def hashes(self, cls: int, rows: Longs) -> Hashes:
        assert (rows >= self.since).all()
        hashes = np.array(self.keys, np.uint64)[rows - self.first_row]
        return ~hashes if cls else hashes


def naive(held: list[tuple[int, int]], first_row: int, probers: list[tuple[int, int]]) -> Found:
    """(prober, row, event time, end) of one hash whose lifetimes overlap."""
    return sorted(
        (number, first_row + row, ts, ts + SPAN_US + 1)
        for number, (wanted, at) in enumerate(probers)
        for row, (hash_, ts) in enumerate(held)
        if hash_ == wanted and ts < at + SPAN_US + 1 and at < ts + SPAN_US + 1
    )


def add(piece: Slice, rows: Rows, part: list[tuple[int, int]]) -> None:
    ts: Longs = np.array([at for _, at in part], np.int64)
    first = rows.first_row + len(rows.keys)
    rows.keys += [hash_ for hash_, _ in part]
    numbers = np.arange(first, first + len(part), dtype=np.int64)
    hashes = {cls: rows.hashes(cls, numbers) for cls in (0, 1)}
    piece.append(Arrivals(ts, ts + SPAN_US + 1, numbers, hashes), rows)


def held(
    appends: list[list[tuple[int, int]]],
    first_row: int,
    base: int | None,
    since: int = 0,
    tuning: Tuning = SMALL,
) -> tuple[Slice, Rows]:
    """A slice of all of these, of which the last are added when the rows before `since` are gone."""
    rows = Rows(first_row)
    piece = Slice(
        window=range_us(SPAN_US),
        indexed={(0,)},
        capacity=1,
        first_row=first_row,
        base=base,
        tuning=tuning,
    )
    for number, part in enumerate(appends):
        if number == len(appends) - 1:
            rows.since = since
        add(piece, rows, part)
    return piece, rows


def found_by(
    piece: Slice, rows: Rows, probers: list[tuple[int, int]], *, cls: int = 0, most: int = 1000
) -> Found:
    """What is found by the hash of a class, without what only seems to agree, in blocks of so many pairs."""
    at: Longs = np.array([at for _, at in probers], np.int64)
    wanted = np.array([hash_ for hash_, _ in probers], np.uint64)
    blocks = list(piece.probe((cls,), ~wanted if cls else wanted, at, at + SPAN_US + 1, rows, most))
    assert all(1 <= len(block.probers) <= most for block in blocks)
    if not blocks:
        return []
    found = concat_matches(blocks)
    same = np.array(rows.keys, np.uint64)[found.rows - rows.first_row] == wanted[found.probers]
    columns = (found.probers, found.rows, found.ts, found.ends)
    return sorted(zip(*(values[same].tolist() for values in columns), strict=True))


@pytest.mark.parametrize("link_bits", [24, 3])  # with 3, no slice is small enough for short links
def test_a_slice_that_grew_finds_what_a_loop_finds(link_bits: int, examples: Examples) -> None:
    tuning = replace(SMALL, short_link_bits=link_bits)

    @given(
        st.lists(TUPLES, min_size=1, max_size=6),
        TUPLES,
        st.sampled_from([0, 1 << 31, 7 << 31]),
        st.sampled_from([None, 0, 31 - SHORT_SPAN]),
        st.sampled_from([0, 1]),
        st.sampled_from([1, 2, 7, 1000]),
    )
    @examples(75)
    def holds(
        appends: list[list[tuple[int, int]]],
        probers: list[tuple[int, int]],
        first_row: int,
        base: int | None,
        cls: int,
        most: int,
    ) -> None:
        everything = [one for part in appends for one in part]
        piece, rows = held(appends, first_row, base, tuning=tuning)
        assert found_by(piece, rows, probers, cls=cls, most=most) == naive(everything, first_row, probers)

    holds()


def test_rows_that_are_gone_hinder_neither_growth_nor_a_new_index(examples: Examples) -> None:
    @given(st.lists(TUPLES, min_size=2, max_size=6), TUPLES, st.integers(0, 400), st.sampled_from([0, 1]))
    @examples(75)
    def holds(
        appends: list[list[tuple[int, int]]], probers: list[tuple[int, int]], gone: int, cls: int
    ) -> None:
        everything = [one for part in appends for one in part]
        since = min(gone, len(everything) - len(appends[-1]))
        piece, rows = held(appends, 0, 0, since)
        expected = naive(everything, 0, probers)
        found = found_by(piece, rows, probers, cls=cls)
        assert [one for one in found if one[1] >= since] == [one for one in expected if one[1] >= since]
        assert set(found) <= set(expected)

    holds()


def test_a_trimmed_slice_finds_all_that_is_live(examples: Examples) -> None:
    @given(
        st.lists(TUPLES, min_size=1, max_size=6),
        TUPLES,
        st.lists(st.tuples(st.integers(0, 45), TUPLES), min_size=1, max_size=5),
    )
    @examples(75)
    def holds(
        appends: list[list[tuple[int, int]]],
        probers: list[tuple[int, int]],
        steps: list[tuple[int, list[tuple[int, int]]]],
    ) -> None:
        piece, rows = held(appends, 0, 0)
        everything = [one for part in appends for one in part]
        for watermark, more in sorted(steps, key=lambda step: step[0]):
            piece.trim(watermark, rows)
            later = [(hash_, max(at, watermark)) for hash_, at in probers]
            assert found_by(piece, rows, later) == naive(everything, 0, later)
            new = [(hash_, max(at, watermark)) for hash_, at in more]
            add(piece, rows, new)
            everything += new

    holds()


def test_expired_tuples_are_trimmed_a_few_times_in_a_window() -> None:
    ts: Longs = np.arange(10_000)
    random = np.random.default_rng(1)
    rows = Rows(0, random.integers(0, 1 << 64, len(ts), np.uint64).tolist())
    piece = Slice(window=range_us(10_000), indexed={(0,)}, capacity=len(ts), base=0)
    piece.append(Arrivals(ts, ts + 10_001, ts, {0: rows.hashes(0, ts)}), rows)
    assert piece.used_bytes == 13 * len(ts) + 16  # and one run of rows
    counts = []
    for watermark in range(10_000, 20_000, 500):
        piece.trim(watermark, rows)
        counts.append(piece.count)
        assert 20_000 - watermark <= piece.count <= 22_500 - watermark
    assert len(set(counts)) <= 5


def test_few_pairs_are_found_by_accident() -> None:
    random = np.random.default_rng(2)
    rows = Rows(0, random.integers(0, 1 << 64, 50_000, np.uint64).tolist())
    numbers = np.arange(len(rows.keys))
    piece = Slice(window=range_us(SPAN_US), indexed={(0,)}, capacity=len(numbers), base=0)
    none = np.zeros(len(numbers), np.int64)
    piece.append(Arrivals(none, none + SPAN_US + 1, numbers, {0: rows.hashes(0, numbers)}), rows)
    wanted = random.integers(0, 1 << 64, len(numbers), np.uint64)
    found = piece.probe((0,), wanted, none, none + SPAN_US + 1, rows, most=len(wanted))
    assert sum(len(block.probers) for block in found) < len(wanted) / 256

"""A slice finds what a loop over all its tuples finds, however it came to hold them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from watersmeet.kernel.slice import Longs, Slice
from watersmeet.query import range_us

Examples = Callable[[int], settings]

SPAN_US = 10
# Hashes that agree in one half only, in the bits that pick a head, or in all.
HALVES = st.sampled_from([0, 1, 16, 1 << 31, (1 << 32) - 1])
HASHES = st.builds(lambda upper, lower: (upper << 32) | lower, HALVES, HALVES)
TUPLES = st.lists(st.tuples(HASHES, st.integers(0, 30)), min_size=1, max_size=60)


def naive(
    held: list[tuple[int, int]], first_row: int, probers: list[tuple[int, int]]
) -> list[tuple[int, int, int, int]]:
    """(prober, row, event time, end) of one hash whose lives overlap."""
    return sorted(
        (number, first_row + place, ts, ts + SPAN_US + 1)
        for number, (wanted, at) in enumerate(probers)
        for place, (hash_, ts) in enumerate(held)
        if hash_ == wanted and ts < at + SPAN_US + 1 and at < ts + SPAN_US + 1
    )


def test_a_slice_that_grew_finds_what_a_loop_finds(examples: Examples) -> None:
    @given(st.lists(TUPLES, min_size=1, max_size=6), TUPLES, st.sampled_from([0, 1 << 31, 7 << 31]))
    @examples(150)
    def holds(appends: list[list[tuple[int, int]]], probers: list[tuple[int, int]], first_row: int) -> None:
        piece, row = Slice(range_us(SPAN_US), (0,), 1, first_row), first_row
        for part in appends:
            ts: Longs = np.array([at for _, at in part], np.int64)
            hashes = np.array([hash_ for hash_, _ in part], np.uint64)
            rows = np.arange(row, row + len(part), dtype=np.int64)
            piece.append(ts, rows, {0: hashes}, ts + SPAN_US + 1, None)
            row += len(part)
        at: Longs = np.array([at for _, at in probers], np.int64)
        wanted = np.array([hash_ for hash_, _ in probers], np.uint64)
        found = piece.probe((0,), wanted, at, at + SPAN_US + 1)
        columns = (found.probers, found.rows, found.ts, found.ends)
        got = sorted(zip(*(values.tolist() for values in columns), strict=True))
        assert got == naive([one for part in appends for one in part], first_row, probers)

    holds()

"""A slice finds what a loop over all its tuples finds, however it came to hold them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from watersmeet.kernel.hash_index import SHORT_SPAN, Longs
from watersmeet.kernel.slice import Slice
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


def held(
    appends: list[list[tuple[int, int]]], first_row: int, base: int | None, classes: tuple[int, ...] = (0,)
) -> Slice:
    """A slice of all of these; its tuples have the same hash in every class."""
    piece, row = Slice(range_us(SPAN_US), classes, 1, first_row, base), first_row
    for part in appends:
        ts: Longs = np.array([at for _, at in part], np.int64)
        hashes = np.array([hash_ for hash_, _ in part], np.uint64)
        rows = np.arange(row, row + len(part), dtype=np.int64)
        piece.append(ts, rows, dict.fromkeys(classes, hashes), ts + SPAN_US + 1, None)
        row += len(part)
    return piece


def found_by(piece: Slice, probers: list[tuple[int, int]]) -> list[tuple[int, int, int, int]]:
    at: Longs = np.array([at for _, at in probers], np.int64)
    wanted = np.array([hash_ for hash_, _ in probers], np.uint64)
    found = piece.probe((0,), wanted, at, at + SPAN_US + 1)
    columns = (found.probers, found.rows, found.ts, found.ends)
    return sorted(zip(*(values.tolist() for values in columns), strict=True))


def test_a_slice_that_grew_finds_what_a_loop_finds(examples: Examples) -> None:
    @given(
        st.lists(TUPLES, min_size=1, max_size=6),
        TUPLES,
        st.sampled_from([0, 1 << 31, 7 << 31]),
        st.sampled_from([None, 0, 31 - SHORT_SPAN]),
    )
    @examples(150)
    def holds(
        appends: list[list[tuple[int, int]]],
        probers: list[tuple[int, int]],
        first_row: int,
        base: int | None,
    ) -> None:
        everything = [one for part in appends for one in part]
        assert found_by(held(appends, first_row, base), probers) == naive(everything, first_row, probers)

    holds()


def test_a_trimmed_slice_finds_all_that_is_live(examples: Examples) -> None:
    @given(
        st.lists(TUPLES, min_size=1, max_size=6),
        TUPLES,
        st.lists(st.integers(0, 45), min_size=1, max_size=5),
        st.sampled_from([(0,), (0, 1)]),
    )
    @examples(150)
    def holds(
        appends: list[list[tuple[int, int]]],
        probers: list[tuple[int, int]],
        watermarks: list[int],
        classes: tuple[int, ...],
    ) -> None:
        piece = held(appends, 0, 0, classes)
        everything = [one for part in appends for one in part]
        for watermark in sorted(watermarks):
            piece = piece.trimmed(watermark)
            later = [(hash_, max(at, watermark)) for hash_, at in probers]
            assert found_by(piece, later) == naive(everything, 0, later)

    holds()


def test_a_slice_that_is_half_over_is_halved() -> None:
    ts: Longs = np.arange(10_000)
    piece = Slice(range_us(10_000), (0,), len(ts), 0, 0)
    hashes = np.random.default_rng(1).integers(0, 1 << 62, len(ts)).astype(np.uint64)
    piece.append(ts, ts, {0: hashes}, ts + 10_001, None)
    assert piece.used_bytes == 25 * len(ts)
    counts = []
    for watermark in range(10_000, 20_000, 500):
        piece = piece.trimmed(watermark)
        counts.append(piece.count)
        assert piece.count >= 20_000 - watermark
    assert sorted({count // 1000 for count in counts}, reverse=True) == [10, 4, 2, 0]

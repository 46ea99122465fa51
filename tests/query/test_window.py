"""Windows: when a tuple leaves, and which sizes make sense."""

from __future__ import annotations

import pytest

from watersmeet.query import NEVER, UNBOUNDED, Window, WindowKind, range_us, rows, tumble_rows, tumble_us


@pytest.mark.parametrize(
    ("window", "ts", "end"),
    [
        (range_us(10), 5, 16),
        (range_us(10), -5, 6),
        (tumble_us(10), 0, 10),
        (tumble_us(10), 9, 10),
        (tumble_us(10), 10, 20),
        (tumble_us(10), -1, 0),
        (tumble_us(10), -10, 0),
        (UNBOUNDED, 5, NEVER),
    ],
)
def test_the_end_of_a_tuple_by_its_event_time(window: Window, ts: int, end: int) -> None:
    assert window.end_us(ts) == end


@pytest.mark.parametrize(
    ("window", "successors"),
    [(rows(3), [3, 4, 5, 6, 7]), (tumble_rows(3), [3, 3, 3, 6, 6]), (tumble_rows(1), [1, 2, 3, 4, 5])],
)
def test_the_tuple_that_ends_a_tuple_by_its_place(window: Window, successors: list[int]) -> None:
    assert [window.successor(place) for place in range(5)] == successors


def test_a_rows_window_cannot_tell_from_ts_alone_nor_a_time_window_from_places() -> None:
    with pytest.raises(ValueError, match="depends on its successors"):
        rows(3).end_us(0)
    with pytest.raises(ValueError, match="only ROWS windows count places"):
        range_us(3).successor(0)


@pytest.mark.parametrize("kind", [kind for kind in WindowKind if kind is not WindowKind.UNBOUNDED])
@pytest.mark.parametrize("size", [0, -1])
def test_a_bounded_window_has_a_positive_size(kind: WindowKind, size: int) -> None:
    with pytest.raises(ValueError, match=f"a {kind.value} window cannot have size {size}"):
        Window(kind, size)


def test_an_unbounded_window_has_no_size() -> None:
    with pytest.raises(ValueError, match="UNBOUNDED"):
        Window(WindowKind.UNBOUNDED, 5)


def test_what_a_window_counts() -> None:
    kinds = [range_us(7), tumble_us(7), rows(7), tumble_rows(7), UNBOUNDED]
    assert [window.counts_rows for window in kinds] == [False, False, True, True, False]
    assert [window.duration_us for window in kinds] == [7, 7, None, None, None]
    assert [window.is_bounded for window in kinds] == [True, True, True, True, False]


def test_windows_print_as_they_are_written() -> None:
    kinds = [range_us(600_000_000), tumble_us(90_000_000), rows(100), tumble_rows(100), UNBOUNDED]
    assert [window.pretty() for window in kinds] == [
        "[RANGE 10 MIN]",
        "[TUMBLE 90 S]",
        "[ROWS 100]",
        "[TUMBLE 100 ROWS]",
        "[UNBOUNDED]",
    ]

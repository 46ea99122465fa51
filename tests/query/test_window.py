"""Windows: when a tuple leaves, when it may be forgotten, and which sizes make sense."""

from __future__ import annotations

import numpy as np
import pytest

from watersmeet.query import (
    NEVER,
    UNBOUNDED,
    WINDOW_KINDS,
    PartitionRowsWindow,
    UnboundedWindow,
    Window,
    last_of_each,
    range_us,
    rows,
    tumble_rows,
    tumble_us,
)
from watersmeet.query.window import window_from_json

ALL = [range_us(7), tumble_us(7), rows(7), tumble_rows(7), UNBOUNDED]
BY_TIME = [window for window in ALL if not window.counts_rows]
BY_ROWS = [window for window in ALL if window.counts_rows]


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
    assert window.end_us(np.array([ts])).tolist() == [end]


@pytest.mark.parametrize(
    ("window", "successors"),
    [(rows(3), [3, 4, 5, 6, 7]), (tumble_rows(3), [3, 3, 3, 6, 6]), (tumble_rows(1), [1, 2, 3, 4, 5])],
)
def test_the_row_that_ends_a_tuple_by_its_row_number(window: Window, successors: list[int]) -> None:
    assert [window.successor(row) for row in range(5)] == successors
    assert window.successor(np.arange(5)).tolist() == successors


def test_a_rows_window_cannot_tell_from_ts_alone_nor_a_time_window_from_row_numbers() -> None:
    with pytest.raises(ValueError, match="depends on its successors"):
        rows(3).end_us(0)
    with pytest.raises(ValueError, match="only ROWS windows number rows"):
        range_us(3).successor(0)
    assert rows(3).known_end_us(0) == NEVER
    assert range_us(3).known_end_us(0) == 4


@pytest.mark.parametrize("window", BY_TIME)
def test_a_tuple_may_be_forgotten_once_no_instant_from_the_watermark_on_is_in_its_lifetime(
    window: Window,
) -> None:
    for ts in range(-20, 20):
        end = window.end_us(ts)
        assert ts < end <= window.end_us(ts + 1)
        for watermark in range(-30, 40):
            inside_later = any(watermark <= t < end for t in range(watermark, 60))
            assert (window.expires_at(ts) > watermark) == inside_later


@pytest.mark.parametrize("window", BY_ROWS)
def test_a_row_may_be_forgotten_once_the_row_that_ends_it_is_known(window: Window) -> None:
    for row in range(20):
        for newest in range(row, 40):
            assert (window.expires_at(row) <= newest) == (window.successor(row) <= newest)


@pytest.mark.parametrize("window", ALL)
def test_the_first_position_inside_is_the_first_that_has_not_ended(window: Window) -> None:
    if not window.is_bounded:
        assert window.first_inside(5) < -(2**60)
        return
    for now in range(1, 40):
        first = window.first_inside(now)
        last = now - 1 if window.counts_rows else now  # the next row is not there yet
        assert [window.expires_at(one) > last for one in (first - 1, first)] == [False, True]


@pytest.mark.parametrize(
    "kind", [kind for kind in WINDOW_KINDS if kind.is_bounded and kind is not PartitionRowsWindow]
)
@pytest.mark.parametrize("size", [0, -1])
def test_a_bounded_window_has_a_positive_size(kind: type[Window], size: int) -> None:
    with pytest.raises(ValueError, match=f"a {kind.name} window cannot have size {size}"):
        kind(size)


def test_an_unbounded_window_has_no_size() -> None:
    with pytest.raises(TypeError):
        UnboundedWindow(5)


def test_what_a_window_counts() -> None:
    assert [window.counts_rows for window in ALL] == [False, False, True, True, False]
    assert [window.duration_us for window in ALL] == [7, 7, None, None, None]
    assert [window.row_count for window in ALL] == [None, None, 7, 7, None]
    assert [window.is_bounded for window in ALL] == [True, True, True, True, False]
    assert [window.expected_tuples(1e6) for window in ALL] == [7, 3.5, 7, 3.5, None]


def test_windows_are_equal_by_kind_and_size() -> None:
    assert len({*ALL, range_us(7), rows(7), UnboundedWindow()}) == len(ALL)


def test_windows_print_as_they_are_written() -> None:
    kinds = [range_us(600_000_000), tumble_us(90_000_000), rows(100), tumble_rows(100), UNBOUNDED]
    assert [window.pretty() for window in kinds] == [
        "[RANGE 10 MIN]",
        "[TUMBLE 90 S]",
        "[ROWS 100]",
        "[TUMBLE 100 ROWS]",
        "[UNBOUNDED]",
    ]


def test_windows_through_json() -> None:
    assert [window.to_json() for window in ALL] == [
        ["RANGE", 7],
        ["TUMBLE", 7],
        ["ROWS", 7],
        ["TUMBLE ROWS", 7],
        ["UNBOUNDED", 0],
    ]
    assert [window_from_json(window.to_json()) for window in ALL] == ALL


class TestTheLastOfEachValue:
    WINDOW = last_of_each(["currency", "a b"], 2)

    def test_prints_as_it_is_written_and_says_what_is_kept(self) -> None:
        assert self.WINDOW.pretty() == "[PARTITION BY currency, `a b` ROWS 2]"
        assert self.WINDOW.describe_retention() == "the last 2 tuples of each currency, `a b`"

    def test_through_json(self) -> None:
        assert self.WINDOW.to_json() == ["PARTITION ROWS", 2, "currency", "a b"]
        assert window_from_json(self.WINDOW.to_json()) == self.WINDOW
        with pytest.raises(ValueError, match="a RANGE window has no columns"):
            window_from_json(["RANGE", 7, "currency"])

    def test_later_rows_of_the_value_end_a_tuple_and_no_position_does(self) -> None:
        assert self.WINDOW.counts_rows
        assert not self.WINDOW.numbers_rows
        assert self.WINDOW.known_end_us(5) == self.WINDOW.expires_at(5) == NEVER
        with pytest.raises(ValueError, match="depends on its successors"):
            self.WINDOW.end_us(5)

    @pytest.mark.parametrize(("columns", "count"), [(["k"], 0), ([], 1)])
    def test_needs_a_column_and_a_row(self, columns: list[str], count: int) -> None:
        with pytest.raises(ValueError, match="PARTITION ROWS window"):
            last_of_each(columns, count)

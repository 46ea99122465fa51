"""Faded counts are about the tuples that are live, however time is cut into batches."""

from __future__ import annotations

import pytest

from watersmeet.kernel.routing.fading_summary import elapsed_us, fade
from watersmeet.kernel.routing.heavy_hitters import Summary


@pytest.mark.parametrize("batches_per_window", [1, 4, 50])
def test_at_a_steady_rate_the_total_tends_to_the_tuples_of_a_window(batches_per_window: int) -> None:
    live = Summary()
    for _ in range(20 * batches_per_window):
        arrived = Summary(1000 / batches_per_window, {7: 100 / batches_per_window})
        live = fade(live, [arrived], 1 / batches_per_window, size=4)
    assert live.total == pytest.approx(1000)
    assert live.counts[7] == pytest.approx(100)


def test_what_no_longer_comes_fades_and_without_time_nothing_does() -> None:
    before = Summary(100.0, {7: 50.0})
    assert fade(before, [], 0.0, size=4) == before
    assert fade(before, [Summary(1.0, {8: 1.0})], 0.0, size=4) == Summary(101.0, {7: 50.0, 8: 1.0})
    assert fade(before, [], 5.0, size=4).total < 1.0


def test_time_begins_with_the_first_tuple_reported_and_never_goes_back() -> None:
    assert elapsed_us(None, 100, [40, 60]) == 60
    assert elapsed_us(None, 100, []) == 0
    assert elapsed_us(80, 100, [40]) == 20
    assert elapsed_us(120, 100, [40]) == 0

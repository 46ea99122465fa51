"""Summaries of the tuples that are about live: counts fade as tuples leave their window.

The tuples themselves are not kept, so lifetimes are taken to be exponential with the window as their mean:
after time t a share exp(-t / window) of the old counts is left. New tuples came evenly over that time, so
(1 - exp(-t / window)) / (t / window) of them are still live at its end.

Guarantee: a function of the reports and clocks alone, so a batch that is done again counts again in the same
way. At a steady rate the total tends to rate times window, the tuples that are live.

    window 10 s, 100 tuples/s: 0 + 632 after 10 s, 0.368 * 632 + 632 = 865 after 20 s, 1000 in the end
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from watersmeet.kernel.routing.heavy_hitters import Summary, merge


def elapsed_us(since: int | None, clock: int, first_ts: Iterable[int]) -> int:
    """How far the clock has moved; without a clock before, from the earliest of the tuples reported."""
    begin = min([clock, *first_ts]) if since is None else since
    return max(0, clock - begin)


def fade(before: Summary, arrived: Iterable[Summary], windows: float, size: int) -> Summary:
    """The summary after so many windows of time, in which the arrived tuples came."""
    live = -math.expm1(-windows) / windows if windows else 1.0
    return merge([before.scaled(math.exp(-windows)), merge(arrived, size).scaled(live)], size)

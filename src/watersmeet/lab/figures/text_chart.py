"""Charts as plain text for a terminal: a bar for each point, panel under panel.

(a) network traffic, messages a node (log scale)
tuples  50   worst   ███████████████      210
             RJoin   ████                 12
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from watersmeet.lab.figures.readable import readable, thinned
from watersmeet.lab.figures.svg_chart import Panel

BAR = 40  # characters of the longest bar
POINTS = 6  # of a line shown
_EIGHTHS = " ▏▎▍▌▋▊▉"


def draw_text(panels: Sequence[Panel]) -> str:
    """All panels, each under the other."""
    return "\n\n".join("\n".join(_panel(panel)) for panel in panels)


def _panel(panel: Panel) -> Iterator[str]:
    yield f"{panel.title}: {panel.y_label}{' (log scale)' if panel.log_y else ''}"
    lines: dict[str, dict[Any, float]] = {
        series.name: dict(zip(series.x, series.y, strict=True)) for series in panel.series
    }
    every = list(dict.fromkeys(x for points in lines.values() for x in points))
    if panel.kind == "line":
        every.sort()
    scale = _Scale([y for points in lines.values() for y in points.values()], panel.log_y)
    shown = thinned(every, POINTS)
    labels = [f"{panel.x_label} {readable(x)}" for x in shown]
    wide, name_wide = max(map(len, labels), default=0), max(map(len, lines), default=0)
    for label, x in zip(labels, shown, strict=True):
        here = {name: points[x] for name, points in lines.items() if x in points}
        for number, (name, y) in enumerate(here.items()):
            bar = _bar(scale.share(y))
            head = "" if number else label
            yield f"  {head:<{wide}}  {name:<{name_wide}}  {bar}{' ' if bar else ''}{_number(y)}"


class _Scale:
    """The part of the longest bar that a value fills."""

    def __init__(self, values: Sequence[float], log: bool) -> None:
        finite = [value for value in values if math.isfinite(value) and (value > 0 or not log)]
        self._log = log
        self._most = max(finite, default=1.0)
        self._least = 10.0 ** (math.ceil(math.log10(min(finite))) - 1) if log and finite else 0.0

    def share(self, value: float) -> float:
        if not math.isfinite(value):
            return 1.0
        if value <= self._least or self._most <= self._least:
            return 0.0
        if self._log:
            return math.log(value / self._least) / math.log(self._most / self._least)
        return value / self._most


def _bar(share: float) -> str:
    eighths = round(BAR * 8 * share)
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()


def _number(value: float) -> str:
    return readable(float(value)) if math.isfinite(value) else "∞"

"""Charts as SVG text, nothing to install: panels three in a row, lines or bars, linear or log axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from html import escape
from typing import Literal

from watersmeet.lab.figures.readable import thinned

WIDTH, HEIGHT = 380, 300  # of a panel
LEFT, RIGHT, TOP, BOTTOM = 62, 14, 34, 46  # margins inside it
LEGEND_LINE = 16
IN_A_ROW = 3
MAX_POINTS = 120  # of a line; more are thinned
COLOURS = ("#1b6ca8", "#d1495b", "#2e933c", "#edae49", "#6c4ab6", "#444444", "#00798c", "#a0522d")


@dataclass(frozen=True)
class Series:
    """One line, or one colour of bars; bars may stand over names."""

    name: str
    x: Sequence[float] | Sequence[str]
    y: Sequence[float]

    @property
    def numbers(self) -> list[float]:
        """The points along x where they are numbers, as a line's are."""
        return [float(x) for x in self.x]


@dataclass(frozen=True)
class Panel:
    """One pair of axes and what is drawn on it."""

    title: str
    x_label: str
    y_label: str
    series: Sequence[Series]
    _: KW_ONLY
    kind: Literal["line", "bar"] = "line"
    log_x: bool = False
    log_y: bool = False


def draw(title: str, panels: Sequence[Panel]) -> str:
    """A figure as the text of an SVG file."""
    legend = LEGEND_LINE * max((len(panel.series) for panel in panels), default=0)
    rows, row_height = max(1, math.ceil(len(panels) / IN_A_ROW)), HEIGHT + legend + 8
    width, height = WIDTH * max(1, min(IN_A_ROW, len(panels))), rows * row_height + 26
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" font-family="Helvetica, Arial, sans-serif" font-size="11">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        _text(width / 2, 20, title, anchor="middle", size=14),
    ]
    for number, panel in enumerate(panels):
        row, column = divmod(number, IN_A_ROW)
        parts.append(f'<g transform="translate({column * WIDTH},{26 + row * row_height})">')
        parts += _panel(panel)
        parts.append("</g>")
    parts.append("</svg>")
    return "\n".join(parts) + "\n"


class _Axis:
    """Maps values to coordinates along one side of a panel."""

    def __init__(self, values: Sequence[float], low: float, high: float, log: bool, from_zero: bool) -> None:
        finite = [value for value in values if math.isfinite(value) and (value > 0 or not log)]
        self.log = log
        self._low, self._high = low, high
        smallest, largest = min(finite, default=1.0), max(finite, default=1.0)
        if log:
            self.start = 10.0 ** math.floor(math.log10(smallest))
            self.stop = 10.0 ** math.ceil(math.log10(largest))
            if self.start == self.stop:
                self.stop *= 10
            self.ticks = _log_ticks(self.start, self.stop)
        else:
            self.start = min(0.0, smallest) if from_zero else smallest
            step = _nice_step((largest - self.start) or abs(largest) or 1.0)
            self.stop = math.ceil(largest / step) * step
            if self.stop <= self.start:
                self.stop = self.start + step
            first = math.ceil(self.start / step)
            self.ticks = [n * step for n in range(first, round(self.stop / step) + 1)]

    def at(self, value: float) -> float:
        if self.log:
            value = math.log10(max(value, self.start))
            start, stop = math.log10(self.start), math.log10(self.stop)
        else:
            start, stop = self.start, self.stop
        return self._low + (value - start) / (stop - start) * (self._high - self._low)


def _panel(panel: Panel) -> list[str]:
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    ys = [value for series in panel.series for value in series.y]
    y_axis = _Axis(ys, bottom, TOP, panel.log_y, from_zero=True)
    parts = [_text((LEFT + right) / 2, 22, panel.title, anchor="middle", size=12)]
    for tick in y_axis.ticks:
        y = y_axis.at(tick)
        parts.append(f'<line x1="{LEFT}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}" stroke="#e4e4e4"/>')
        parts.append(_text(LEFT - 6, y + 4, _label(tick), anchor="end"))
    if panel.kind == "bar":
        parts += _bars(panel, y_axis)
    else:
        xs = [value for series in panel.series for value in series.numbers]
        x_axis = _Axis(xs, LEFT, right, panel.log_x, from_zero=False)
        for tick in x_axis.ticks:
            x = x_axis.at(tick)
            parts.append(f'<line x1="{x:.1f}" y1="{bottom}" x2="{x:.1f}" y2="{bottom + 4}" stroke="#444"/>')
            parts.append(_text(x, bottom + 16, _label(tick), anchor="middle"))
        parts += _lines(panel, x_axis, y_axis)
    parts.append(
        f'<path d="M{LEFT} {TOP} V{bottom} H{right}" fill="none" stroke="#444444" stroke-width="1.2"/>'
    )
    parts.append(_text((LEFT + right) / 2, bottom + 34, panel.x_label, anchor="middle"))
    middle = (TOP + bottom) / 2
    parts.append(
        f'<text x="14" y="{middle}" text-anchor="middle" transform="rotate(-90 14 {middle})">'
        f"{escape(panel.y_label)}</text>"
    )
    return parts + _legend(panel)


def _lines(panel: Panel, x_axis: _Axis, y_axis: _Axis) -> list[str]:
    parts = []
    for number, series in enumerate(panel.series):
        colour = COLOURS[number % len(COLOURS)]
        points = [
            (x_axis.at(x), y_axis.at(y))
            for x, y in zip(series.numbers, series.y, strict=True)
            if math.isfinite(y) and (x > 0 or not panel.log_x)
        ]
        points = thinned(points, MAX_POINTS)
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.8"/>')
        if len(points) <= 20:
            parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.8" fill="{colour}"/>' for x, y in points]
    return parts


def _bars(panel: Panel, y_axis: _Axis) -> list[str]:
    """Bars side by side at each x, in order of appearance."""
    every_x = list(dict.fromkeys(x for series in panel.series for x in series.x))
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    span = (right - LEFT) / max(1, len(every_x))
    thickness = 0.8 * span / max(1, len(panel.series))
    parts = []
    for number, x in enumerate(every_x):
        left = LEFT + number * span + 0.1 * span
        parts.append(_text(LEFT + (number + 0.5) * span, bottom + 16, _label(x), anchor="middle"))
        for colour, series in enumerate(panel.series):
            for at, y in zip(series.x, series.y, strict=True):
                if at == x:
                    top = y_axis.at(y)
                    parts.append(
                        f'<rect x="{left + colour * thickness:.1f}" y="{top:.1f}" width="{thickness:.1f}" '
                        f'height="{max(0.0, bottom - top):.1f}" fill="{COLOURS[colour % len(COLOURS)]}"/>'
                    )
    return parts


def _legend(panel: Panel) -> list[str]:
    parts = []
    for number, series in enumerate(panel.series):
        y = HEIGHT + number * LEGEND_LINE
        colour = COLOURS[number % len(COLOURS)]
        parts.append(f'<rect x="{LEFT}" y="{y - 8}" width="14" height="8" fill="{colour}"/>')
        parts.append(_text(LEFT + 20, y, series.name))
    return parts


def _text(x: float, y: float, text: str, anchor: str = "start", size: int = 11) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}">{escape(text)}</text>'


def _nice_step(span: float) -> float:
    """About five steps of 1, 2 or 5 times a power of ten."""
    rough = span / 5
    power = 10.0 ** math.floor(math.log10(rough))
    return next((factor * power for factor in (1, 2, 5) if factor * power >= rough), 10 * power)


def _log_ticks(start: float, stop: float) -> list[float]:
    count = round(math.log10(stop / start))
    every = max(1, math.ceil(count / 6))
    return [start * 10.0**n for n in range(0, count + 1, every)]


def _label(value: float | str) -> str:
    """A tick as a person writes it: 20k, 1.5M, 0.25; a name as it is."""
    if isinstance(value, str):
        return value
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(value) >= size * 10 or (abs(value) >= size and value % size == 0):
            return f"{value / size:.4g}{unit}"
    return f"{value:.4g}"

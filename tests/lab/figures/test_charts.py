"""Charts: valid SVG whatever the values, and bars for a terminal."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from functools import partial
from typing import Any

import pytest

from watersmeet.lab.figures.svg_chart import HEIGHT, WIDTH, Panel, Series, draw
from watersmeet.lab.figures.text_chart import draw_text


@pytest.mark.parametrize("kind", ["line", "bar"])
def test_a_chart_is_valid_svg_whatever_the_values(kind: Any) -> None:
    panel = partial(Panel, "a < b & c", "x", "y", kind=kind)
    awkward = [
        [],
        [Series("nothing", [], [])],
        [Series("flat", [1, 2], [0, 0])],
        [Series("one", [5], [7]), Series("infinite", [1, 2], [float("inf"), 3])],
        [Series("many", list(range(5000)), [n**2 for n in range(5000)])] if kind == "line" else [],
    ]
    panels = [panel(series, log_y=log) for series in awkward for log in (False, True)]
    root = ET.fromstring(draw("title", panels))
    assert root.tag.endswith("svg")
    assert len(draw("title", panels)) < 200_000


@pytest.mark.parametrize("log", [False, True])
def test_lines_stay_inside_their_panel_and_rise_with_the_values(log: bool) -> None:
    series = Series("s", [1, 10, 400, 1000], [3, 70, 900, 12_345])
    root = ET.fromstring(draw("t", [Panel("p", "x", "y", [series], log_x=log, log_y=log)]))
    line = root.find(".//{*}polyline")
    assert line is not None
    points = [tuple(map(float, point.split(","))) for point in line.attrib["points"].split()]
    assert all(0 < x < WIDTH and 0 < y < HEIGHT for x, y in points)
    assert points == sorted(points)
    assert [y for _, y in points] == sorted((y for _, y in points), reverse=True)


def test_panels_go_three_in_a_row() -> None:
    panels = [Panel(f"p{n}", "x", "y", [Series("s", [1, 2], [1, 2])]) for n in range(5)]
    root = ET.fromstring(draw("t", panels))
    corners = [tuple(map(int, group.attrib["transform"][10:-1].split(","))) for group in root.findall("{*}g")]
    assert [x for x, _ in corners] == [0, WIDTH, 2 * WIDTH, 0, WIDTH]
    assert corners[0][1] == corners[2][1] < corners[3][1] - HEIGHT
    assert int(root.attrib["width"]) == 3 * WIDTH
    assert int(root.attrib["height"]) >= corners[4][1] + HEIGHT


def test_bars_may_stand_over_names() -> None:
    text = draw("t", [Panel("p", "x", "y", [Series("s", ["left", "right"], [1, 2])], kind="bar")])
    assert "left" in text
    assert len(ET.fromstring(text).findall(".//{*}g/{*}rect")) == 3, "two bars and the legend's square"


def test_a_terminal_sees_longer_bars_for_larger_values() -> None:
    series = (Series("slow", [10, 20], [1, 8]), Series("fast", [10, 20, 30], [2, 4, math.inf]))
    text = draw_text([Panel("(a) cost", "tuples", "messages", series), Panel("(b)", "x", "y", ())])
    lines = text.splitlines()
    assert lines[0] == "(a) cost: messages"
    assert lines[1] == "  tuples 10  slow  █████ 1"
    assert lines[2] == "             fast  ██████████ 2"
    assert lines[3].count("█") == 40
    assert lines[5].endswith("∞")
    assert lines[-1] == "(b): y"


def test_a_logarithmic_panel_gives_each_power_of_ten_the_same_length() -> None:
    series = Series("s", ["a", "b", "c", "d", "none"], [1, 10, 100, 1000, 0])
    text = draw_text([Panel("p", "", "y", [series], kind="bar", log_y=True)])
    lengths = [line.count("█") for line in text.splitlines()[1:]]
    assert text.startswith("p: y (log scale)")
    assert lengths == [10, 20, 30, 40, 0]

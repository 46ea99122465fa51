"""The network's half of a plan's picture: sites as boxes on an ellipse, and what crosses each link."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from watersmeet.plan.explain.canvas import Canvas, Rect, box_size, label_size
from watersmeet.plan.sites.plan_tree import LinkLoad, number

Point = tuple[float, float]
BEND = 0.16  # how far a curve leaves the straight line, so that both directions are seen
LABEL_SPOTS = (0.4, 0.5, 0.3, 0.6, 0.22, 0.7)  # along the curve, the first that is free
LABEL_STREAMS = 2
CURVE_ROOM = 30.0  # above the highest boxes, for the curve between them


def draw_sites(
    canvas: Canvas,
    top: float,
    left: float,
    sites: Mapping[str, str],
    links: Sequence[LinkLoad],
    colours: Mapping[str, str],
) -> None:
    """Draw every site with its streams, and an arrow for each link that carries something."""
    boxes = _arrange(_site_lines(sites, links), top, left)
    taken = [rect for rect, _ in boxes.values()]
    loads: dict[tuple[str, str], list[LinkLoad]] = {}
    for load in links:
        loads.setdefault((load.source, load.target), []).append(load)
    curves = {pair: _curve(boxes[pair[0]][0], boxes[pair[1]][0]) for pair in loads}
    for curve in curves.values():
        canvas.curve(*curve, sent=True)
    for name, (rect, lines) in boxes.items():
        canvas.box(rect, lines, colours[name], rounded=False)
    for pair, group in loads.items():
        lines = _label(group)
        rect = _free_spot(curves[pair], lines, taken)
        taken.append(rect)
        canvas.label(rect, lines)


def _site_lines(sites: Mapping[str, str], links: Sequence[LinkLoad]) -> dict[str, list[str]]:
    """The lines in each site's box: its name and its streams."""
    ends = [end for load in links for end in (load.source, load.target)]
    names = dict.fromkeys([*sites.values(), *ends])
    lines = {name: [name] for name in names}
    for name in names:
        streams = ", ".join(alias for alias, site in sites.items() if site == name)
        if streams:
            lines[name].append(streams)
    return lines


def _arrange(text: Mapping[str, list[str]], top: float, left: float) -> dict[str, tuple[Rect, list[str]]]:
    sizes = {name: box_size(lines) for name, lines in text.items()}
    widest = max(width for width, _ in sizes.values())
    count = len(text)
    radius_x = max(190.0, 62.0 * count) + widest / 4
    radius_y = 0.0 if count <= 2 else max(115.0, 38.0 * count)
    # Clockwise from the left; three sites stand on a tip, so that two of them are side by side.
    angles = [math.pi * (1 + 2 * n / count) + (math.pi / 6 if count == 3 else 0.0) for n in range(count)]
    spots = [(radius_x * math.cos(angle), radius_y * math.sin(angle)) for angle in angles]
    shift_x = left + widest / 2 - min(x for x, _ in spots)
    shift_y = top + CURVE_ROOM + max(height for _, height in sizes.values()) / 2 - min(y for _, y in spots)
    return {
        name: (Rect(x + shift_x, y + shift_y, *sizes[name]), lines)
        for (name, lines), (x, y) in zip(text.items(), spots, strict=True)
    }


def _curve(source: Rect, target: Rect) -> tuple[Point, Point, Point]:
    """From border to border, bent to the right of its direction."""
    dx, dy = target.x - source.x, target.y - source.y
    bend = ((source.x + target.x) / 2 - dy * BEND, (source.y + target.y) / 2 + dx * BEND)
    return source.edge_towards(*bend), bend, target.edge_towards(*bend)


def _label(group: Sequence[LinkLoad]) -> list[str]:
    if len(group) <= LABEL_STREAMS:
        return [f"{load.stream}: {number(load.bytes_per_s)} B/s" for load in group]
    return [f"{len(group)} streams: {number(sum(load.bytes_per_s for load in group))} B/s"]


def _free_spot(curve: tuple[Point, Point, Point], lines: Sequence[str], taken: Sequence[Rect]) -> Rect:
    spots = [Rect(*_at(curve, t), *label_size(lines)) for t in LABEL_SPOTS]
    return next((p for p in spots if not any(p.overlaps(other) for other in taken)), spots[0])


def _at(curve: tuple[Point, Point, Point], t: float) -> Point:
    """A point of a quadratic Bezier curve."""
    start, bend, end = curve
    x, y = ((1 - t) ** 2 * start[axis] + 2 * t * (1 - t) * bend[axis] + t**2 * end[axis] for axis in (0, 1))
    return x, y

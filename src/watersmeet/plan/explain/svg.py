"""A plan as a standalone SVG picture: the sites with what crosses their links, then the plan's trees.

A box's colour is its site. A red arrow is something sent to another site, with its bytes/s; a grey line stays
where it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from watersmeet.plan.explain.canvas import (
    LABEL_SIZE,
    SITE_COLOURS,
    SOFT,
    Canvas,
    Rect,
    box_size,
    label_size,
    text_width,
)
from watersmeet.plan.explain.picture import PictureNode, PictureTree
from watersmeet.plan.explain.svg_sites import draw_sites
from watersmeet.plan.sites.plan_tree import LinkLoad

LEFT = 24.0
ROW_WIDTH = 1120.0  # trees beyond this go to the next row
GAP = 18.0
TREE_GAP = 44.0
LEVEL = 112.0
LABEL_AT = 0.36  # of the way up an edge


def draw(
    title: str, sites: Mapping[str, str], links: Sequence[LinkLoad], trees: Sequence[PictureTree]
) -> str:
    """The picture of a plan; without links between sites it has only the trees."""
    colours = _colours(sites, links, trees)
    canvas = Canvas()
    canvas.text(LEFT, 34.0, title, size=17.0, weight="600", anchor="start")
    top = 52.0
    if links:
        draw_sites(canvas, top, LEFT, sites, links, colours)
        top = canvas.height + 34.0
    left, row_top = LEFT, top
    for tree in trees:
        width = max(_width(tree.root), text_width(tree.title, LABEL_SIZE + 1))
        if left > LEFT and left + width > ROW_WIDTH:
            left, row_top = LEFT, canvas.height + 40.0
        canvas.text(left, row_top + 12.0, tree.title, size=LABEL_SIZE + 1, colour=SOFT, anchor="start")
        _draw_tree(canvas, tree.root, left, row_top + 26.0, colours)
        left += width + TREE_GAP
    return canvas.to_svg(title)


def _colours(
    sites: Mapping[str, str], links: Sequence[LinkLoad], trees: Sequence[PictureTree]
) -> dict[str, str]:
    """A colour for every site, the streams' own first."""
    ends = [end for load in links for end in (load.source, load.target)]
    inner = [site for tree in trees for site in _sites(tree.root)]
    names = dict.fromkeys([*sites.values(), *ends, *inner])
    return {name: SITE_COLOURS[n % len(SITE_COLOURS)] for n, name in enumerate(names)}


def _sites(node: PictureNode) -> list[str]:
    return [node.site, *(site for child in node.inputs for site in _sites(child))]


def _lines(node: PictureNode) -> list[str]:
    return [node.title, node.site, *([node.detail] if node.detail else [])]


def _width(node: PictureNode) -> float:
    """What a tree needs; an edge's label must fit beside its neighbours' too."""
    own = max(box_size(_lines(node))[0], text_width(node.sent, LABEL_SIZE) + 10.0)
    return max(own, sum(_width(child) for child in node.inputs) + GAP * max(0, len(node.inputs) - 1))


def _draw_tree(
    canvas: Canvas, node: PictureNode, left: float, top: float, colours: Mapping[str, str]
) -> Rect:
    """Draw a tree inside its width, and return the rectangle of its root."""
    lines = _lines(node)
    width, height = box_size(lines)
    below = sum(_width(child) for child in node.inputs) + GAP * max(0, len(node.inputs) - 1)
    x = left + (_width(node) - below) / 2
    children = []
    for child in node.inputs:
        children.append(_draw_tree(canvas, child, x, top + LEVEL, colours))
        x += _width(child) + GAP
    centre = (children[0].x + children[-1].x) / 2 if children else left + _width(node) / 2
    rect = Rect(centre, top + height / 2, width, height)
    for child, drawn in zip(node.inputs, children, strict=True):
        start, end = (drawn.x, drawn.y - drawn.height / 2), _landing(rect, drawn.x)
        canvas.curve(start, ((start[0] + end[0]) / 2, (start[1] + end[1]) / 2), end, sent=bool(child.sent))
        if child.sent:
            x, y = (start[axis] + (end[axis] - start[axis]) * LABEL_AT for axis in (0, 1))
            canvas.label(Rect(x, y, *label_size([child.sent])), [child.sent])
    canvas.box(rect, lines, colours[node.site], rounded=not node.is_stream)
    return rect


def _landing(parent: Rect, child_x: float) -> tuple[float, float]:
    """Where an edge meets the lower border of the join above."""
    reach = parent.width / 2 - 8.0
    return parent.x + max(-reach, min(reach, (child_x - parent.x) * 0.35)), parent.y + parent.height / 2 + 1.0

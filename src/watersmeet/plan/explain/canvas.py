"""The few marks a plan's picture is made of, as SVG text: boxes with lines of text, curves, labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from xml.sax.saxutils import escape

FONT = "Helvetica Neue, Helvetica, Arial, DejaVu Sans, sans-serif"
INK, SOFT, FAINT = "#1b2733", "#5b6875", "#b7c0c8"
SENT = "#b3431e"  # what crosses a link
SITE_COLOURS = ("#dbe9f6", "#e4f1dc", "#fbe7d0", "#eadff0", "#fbf3cb", "#d8efec", "#f6dde1", "#e6e6e6")
LINE = 15.0
LABEL_SIZE = 11.0
LONGEST = 34  # characters of a label; the whole of it is in the tooltip


@dataclass(frozen=True)
class Rect:
    """A rectangle on the canvas, by its centre."""

    x: float
    y: float
    width: float
    height: float

    def overlaps(self, other: Rect, margin: float = 3.0) -> bool:
        return (
            abs(self.x - other.x) * 2 < self.width + other.width + 2 * margin
            and abs(self.y - other.y) * 2 < self.height + other.height + 2 * margin
        )

    def edge_towards(self, x: float, y: float, gap: float = 3.0) -> tuple[float, float]:
        """Where the line from the centre to a point leaves the box, a little outside of it."""
        dx, dy = x - self.x, y - self.y
        if not dx and not dy:
            return self.x, self.y
        scale = min(
            (self.width / 2 + gap) / abs(dx) if dx else float("inf"),
            (self.height / 2 + gap) / abs(dy) if dy else float("inf"),
        )
        return self.x + dx * scale, self.y + dy * scale


def shortened(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def text_width(text: str, size: float) -> float:
    """A generous guess, as the fonts of the reader are not known."""
    return len(text) * size * 0.58


def label_size(lines: Sequence[str]) -> tuple[float, float]:
    """What a label needs."""
    return max(text_width(shortened(line), LABEL_SIZE) for line in lines) + 4.0, len(lines) * LINE


def box_size(lines: Sequence[str]) -> tuple[float, float]:
    """What a box needs around its text, of which the first line is the largest."""
    widths = [text_width(shortened(line), 13.0 if n == 0 else LABEL_SIZE) for n, line in enumerate(lines)]
    return max([*widths, 26.0]) + 18.0, len(lines) * LINE + 12.0


@dataclass
class Canvas:
    """SVG elements in the order they are drawn; it grows with what is put on it."""

    width: float = 0.0
    height: float = 0.0
    parts: list[str] = field(default_factory=list)

    def box(self, rect: Rect, lines: Sequence[str], fill: str, *, rounded: bool) -> None:
        """A box with a name and, below it, smaller lines."""
        left, top = rect.x - rect.width / 2, rect.y - rect.height / 2
        radius = 9 if rounded else 2
        self._reach(left + rect.width, top + rect.height)
        self.parts.append(
            f'<rect x="{left:.1f}" y="{top:.1f}" width="{rect.width:.1f}" height="{rect.height:.1f}" '
            f'rx="{radius}" fill="{fill}" stroke="{INK}" stroke-width="1"/>'
        )
        for n, line in enumerate(lines):
            size, colour, weight = (13.0, INK, "600") if n == 0 else (LABEL_SIZE, SOFT, "400")
            self.text(rect.x, top + 17 + n * LINE, line, size=size, colour=colour, weight=weight)

    def text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        size: float = LABEL_SIZE,
        colour: str = INK,
        weight: str = "400",
        anchor: str = "middle",
    ) -> None:
        """A line of text on its baseline."""
        shown = shortened(text) if anchor == "middle" else text
        width = text_width(shown, size)
        self._reach(x + (width / 2 if anchor == "middle" else width), y)
        tooltip = f"<title>{escape(text)}</title>" if shown != text else ""
        self.parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size:g}" font-weight="{weight}" fill="{colour}" '
            f'text-anchor="{anchor}">{tooltip}{escape(shown)}</text>'
        )

    def label(self, rect: Rect, lines: Sequence[str]) -> None:
        """Text on a line that something is sent along, which it interrupts."""
        left, top = rect.x - rect.width / 2, rect.y - rect.height / 2
        self._reach(left + rect.width, top + rect.height)
        self.parts.append(
            f'<rect x="{left:.1f}" y="{top:.1f}" width="{rect.width:.1f}" height="{rect.height:.1f}" '
            'fill="#ffffff" fill-opacity="0.94"/>'
        )
        for n, line in enumerate(lines):
            self.text(rect.x, top + (n + 1) * LINE - 4, line, colour=SENT)

    def curve(
        self, start: tuple[float, float], bend: tuple[float, float], end: tuple[float, float], *, sent: bool
    ) -> None:
        """A curve; one that something is sent along has an arrow."""
        colour, width, arrow = (SENT, 1.5, ' marker-end="url(#arrow)"') if sent else (FAINT, 1.2, "")
        a, b, c = (f"{x:.1f} {y:.1f}" for x, y in (start, bend, end))
        self.parts.append(
            f'<path d="M {a} Q {b} {c}" fill="none" stroke="{colour}" stroke-width="{width}"{arrow}/>'
        )

    def _reach(self, x: float, y: float) -> None:
        self.width, self.height = max(self.width, x), max(self.height, y)

    def to_svg(self, title: str, margin: float = 24.0) -> str:
        """The whole picture, on white."""
        width, height = self.width + margin, self.height + margin
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
            f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="{FONT}" role="img">'
        )
        arrow = (
            '<defs><marker id="arrow" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" '
            f'orient="auto"><path d="M 0 1 L 10 5 L 0 9 z" fill="{SENT}"/></marker></defs>'
        )
        white = f'<rect width="{width:.0f}" height="{height:.0f}" fill="#ffffff"/>'
        return "\n".join([head, f"<title>{escape(title)}</title>", arrow, white, *self.parts, "</svg>", ""])

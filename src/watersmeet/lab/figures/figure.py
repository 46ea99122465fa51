"""A figure's numbers, and the paper's claims that they decide."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from watersmeet.lab.figures.svg_chart import Panel


@dataclass(frozen=True)
class Claim:
    """What the paper says of a figure, and whether our numbers bear it out."""

    text: str
    holds: bool
    value: Any  # what was measured
    why: str = ""  # where it does not hold, or holds only in part: the reason


def judged(text: str, holds: bool, value: Any, why: str) -> Claim:
    """A claim that gives its reason only where it does not hold."""
    return Claim(text, holds, value, "" if holds else why)


@dataclass(frozen=True)
class FigureResult:
    """A figure's numbers, the claims they decide, and the panels to draw."""

    figure: str
    parameters: dict[str, Any]
    panels: tuple[Panel, ...]
    claims: tuple[Claim, ...]
    title: str = field(default="")

    def to_dict(self) -> dict[str, Any]:
        """The figure as plain values for JSON, which knows no infinity: null stands for it."""
        plain: dict[str, Any] = _finite(self._as_dict())
        return plain

    def _as_dict(self) -> dict[str, Any]:
        return {
            "figure": self.figure,
            "title": self.title,
            "parameters": self.parameters,
            "series": [
                {
                    "name": f"{panel.title}: {series.name}",
                    "x_label": panel.x_label,
                    "y_label": panel.y_label,
                    "x": list(series.x),
                    "y": list(series.y),
                }
                for panel in self.panels
                for series in panel.series
            ],
            "claims": [
                {"text": claim.text, "holds": claim.holds, "value": claim.value}
                | ({"why": claim.why} if claim.why else {})
                for claim in self.claims
            ],
        }


def _finite(value: Any) -> Any:
    match value:
        case float():
            return value if math.isfinite(value) else None
        case Mapping():
            return {key: _finite(part) for key, part in value.items()}
        case list() | tuple():
            return [_finite(part) for part in value]
        case _:
            return value

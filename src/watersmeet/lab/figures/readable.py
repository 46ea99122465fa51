"""Values as people read them, and long series cut to a few points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

Point = TypeVar("Point")


def readable(value: Any) -> str:
    """A value as it reads best in a sentence: numbers to four digits, lists with commas."""
    match value:
        case None:
            return "none"
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:.0f}" if abs(value) >= 1000 or value.is_integer() else f"{value:.4g}"
        case Mapping():
            return "; ".join(f"{key}: {readable(part)}" for key, part in value.items())
        case list() | tuple():
            return ", ".join(map(readable, value))
        case _:
            return str(value)


def thinned(values: Sequence[Point], most: int) -> list[Point]:
    """At most so many of the values (two or more), the first and the last among them, spread evenly."""
    if len(values) <= most:
        return list(values)
    return [values[round(n * (len(values) - 1) / (most - 1))] for n in range(most)]

"""How long a value can get: so many characters or elements, and so many times what columns hold.

repeat('ab', 5)                   10
hex(s.name)                       2 x s.name
transform(s.tags, t -> t || '!')  1 x s.tags for all t together, and one more character for each: 2 x s.tags
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

FIXED = ""  # the part that depends on nothing


@dataclass(frozen=True)
class Size:
    """At most the sum of these parts, each so many times the length of the column it is named after."""

    parts: Mapping[str, float]

    @property
    def is_fixed(self) -> bool:
        return not any(self.parts[name] for name in self.parts if name != FIXED)

    def of(self, name: str) -> float:
        return self.parts.get(name, 0.0)

    def times(self, number: float) -> Size:
        return Size({name: number * part for name, part in self.parts.items()})

    def __add__(self, other: Size) -> Size:
        return Size({name: self.of(name) + other.of(name) for name in {*self.parts, *other.parts}})

    def assumed(self, lengths: Mapping[str, float], otherwise: float) -> float:
        """The length, if what it depends on has these."""
        return sum(part * lengths.get(name, otherwise) for name, part in self.parts.items())


def fixed(length: float) -> Size:
    return Size({FIXED: length})


def once(name: str) -> Size:
    """As long as something."""
    return Size({name: 1.0})


def total(sizes: Iterable[Size]) -> Size:
    return sum(sizes, fixed(0))


def largest(sizes: Iterable[Size]) -> Size:
    """At least as long as each of these."""
    parts: dict[str, float] = {}
    for size in sizes:
        for name, part in size.parts.items():
            parts[name] = max(parts.get(name, 0.0), part)
    return Size(parts)


def multiplied(first: Size, second: Size) -> Size | None:
    """None where both depend on columns: then there is no such number of times."""
    if first.is_fixed:
        return second.times(first.of(FIXED))
    return first.times(second.of(FIXED)) if second.is_fixed else None

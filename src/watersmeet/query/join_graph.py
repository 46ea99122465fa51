"""The join graph: which attributes must be equal.

Equality is transitive, so the equalities of a query fall into attribute classes: all members of a class
share one value in every answer. A class holds at most one attribute of each input (two attributes of one
input that must be equal are a local filter). The papers' names for the shapes:

    type 1   every class covers every input (the same attribute joins all streams)
    type 2   different attributes, no cycle (chains, stars)
    cyclic   different attributes with a cycle (the triangle R.a=S.a, S.b=T.b, T.c=R.c)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from watersmeet.query.expression import Expr

Shape = Literal["single stream", "type 1", "type 2", "cyclic"]


@dataclass(frozen=True)
class Attribute:
    """One side of an equality: an expression over a single input."""

    alias: str
    expr: Expr

    def pretty(self) -> str:
        return self.expr.pretty()


@dataclass(frozen=True)
class AttributeClass:
    """Attributes that are equal in every answer, compared after a cast to `type` (None: unknown)."""

    attributes: tuple[Attribute, ...]
    type: str | None = None

    @property
    def aliases(self) -> tuple[str, ...]:
        return tuple(attribute.alias for attribute in self.attributes)

    def of(self, alias: str) -> Attribute | None:
        """This class's attribute of one input."""
        return next((attribute for attribute in self.attributes if attribute.alias == alias), None)

    def pretty(self) -> str:
        return " = ".join(attribute.pretty() for attribute in self.attributes)


@dataclass(frozen=True)
class JoinGraph:
    """Inputs, in FROM order, and the attribute classes that connect them."""

    aliases: tuple[str, ...]
    classes: tuple[AttributeClass, ...] = ()

    def __post_init__(self) -> None:
        for cls in self.classes:
            if len(cls.aliases) < 2 or len(set(cls.aliases)) != len(cls.aliases):
                raise ValueError(f"a class joins two or more inputs, each once: {cls.pretty()}")

    def classes_of(self, alias: str) -> tuple[int, ...]:
        """Indexes of the classes an input takes part in."""
        return tuple(index for index, cls in enumerate(self.classes) if alias in cls.aliases)

    def neighbours(self, alias: str) -> tuple[str, ...]:
        """The inputs that share a class with this one, in FROM order."""
        near = {other for cls in self.classes if alias in cls.aliases for other in cls.aliases}
        return tuple(other for other in self.aliases if other in near and other != alias)

    def components(self) -> tuple[tuple[str, ...], ...]:
        """The connected parts; a query needs exactly one."""
        parts: list[tuple[str, ...]] = []
        taken: set[str] = set()
        for start in self.aliases:
            if start in taken:
                continue
            reached, frontier = {start}, [start]
            while frontier:
                for other in self.neighbours(frontier.pop()):
                    if other not in reached:
                        reached.add(other)
                        frontier.append(other)
            taken |= reached
            parts.append(tuple(alias for alias in self.aliases if alias in reached))
        return tuple(parts)

    @property
    def is_connected(self) -> bool:
        return len(self.components()) == 1

    @property
    def shape(self) -> Shape:
        if len(self.aliases) == 1:
            return "single stream"
        if self.classes and all(len(cls.attributes) == len(self.aliases) for cls in self.classes):
            return "type 1"
        return "type 2" if self._is_acyclic() else "cyclic"

    def _is_acyclic(self) -> bool:
        """GYO reduction over the hypergraph whose vertices are classes and whose edges are inputs."""
        edges = [set(self.classes_of(alias)) for alias in self.aliases]
        while True:
            counts: dict[int, int] = {}
            for edge in edges:
                for cls in edge:
                    counts[cls] = counts.get(cls, 0) + 1
            ears = [{cls for cls in edge if counts[cls] > 1} for edge in edges]
            kept: list[set[int]] = []
            for index, edge in enumerate(ears):
                inside = any(edge <= other for other in ears[index + 1 :] + kept)
                if not inside:
                    kept.append(edge)
            if kept == edges:
                return len(kept) <= 1
            edges = kept

    def pretty(self) -> str:
        lines = [f"{self.shape}: {', '.join(self.aliases)}"]
        lines += [f"  {cls.pretty()}" + (f"  ({cls.type})" if cls.type else "") for cls in self.classes]
        return "\n".join(lines)

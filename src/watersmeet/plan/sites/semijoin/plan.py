"""A semijoin plan: which one-way joins run, by which method, and what each ships."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

from watersmeet.plan.sites.plan_tree import LinkLoad
from watersmeet.plan.sites.semijoin.cost import JoinCost, Method

Ordering = Literal["linear", "tree"]
Search = Literal["greedy", "exhaustive"]


@dataclass(frozen=True)
class SemijoinStep:
    """A one-way join from a set of joined inputs, the head first, to another set."""

    source: tuple[str, ...]
    target: tuple[str, ...]
    source_site: str
    target_site: str
    cost: JoinCost

    @property
    def method(self) -> Method:
        return self.cost.method

    @property
    def output_site(self) -> str:
        return self.source_site if self.method.output_at_source else self.target_site

    def links(self) -> tuple[LinkLoad, ...]:
        """What crosses the network, there and back."""
        if self.source_site == self.target_site:
            return ()
        ends = (
            (self.source_site, self.target_site, self.source, False),
            (self.target_site, self.source_site, self.target, True),
        )
        loads = [
            LinkLoad(sender, receiver, _name(streams), self.cost.bytes_per_s(to_source=to_source))
            for sender, receiver, streams, to_source in ends
        ]
        return tuple(load for load in loads if load.bytes_per_s > 0)

    def to_json(self) -> dict[str, Any]:
        return {
            "source": list(self.source),
            "target": list(self.target),
            "source_site": self.source_site,
            "target_site": self.target_site,
            "method": self.method.value,
            "output_site": self.output_site,
            "cost": self.cost.total,
            "terms": {term.name: term.seconds_per_s for term in self.cost.terms},
        }

    def pretty(self) -> str:
        return (
            f"{_name(self.source)} -> {_name(self.target)}  {self.method.value} at {self.output_site}"
            f"  {self.cost.total:.6g} s/s"
        )


@dataclass(frozen=True)
class SemijoinPlan:
    """The one-way joins of a query: by head input (linear), or two for each level of the tree."""

    ordering: Ordering
    search: Search
    steps: tuple[SemijoinStep, ...]
    unit: str = "s/s"  # seconds of transfer and processing per second of stream

    @property
    def cost(self) -> float:
        """C_JEP, equation (1): the sum over all one-way joins."""
        return math.fsum(step.cost.total for step in self.steps)

    @property
    def communication(self) -> float:
        """The part of the cost spent on the network."""
        return math.fsum(step.cost.communication for step in self.steps)

    @property
    def processing(self) -> float:
        """The part of the cost spent at the sites."""
        return math.fsum(step.cost.processing for step in self.steps)

    def sequence(self, head: str) -> tuple[SemijoinStep, ...]:
        """The joins whose source starts with this input: under linear ordering, its join sequence."""
        return tuple(step for step in self.steps if step.source[0] == head)

    def links(self) -> tuple[LinkLoad, ...]:
        """Bytes/s per link and stream, added up over the steps, in order of first use."""
        loads: dict[tuple[str, str, str], float] = {}
        for load in (load for step in self.steps for load in step.links()):
            key = (load.source, load.target, load.stream)
            loads[key] = loads.get(key, 0.0) + load.bytes_per_s
        return tuple(LinkLoad(*key, bytes_per_s) for key, bytes_per_s in loads.items())

    def to_json(self) -> dict[str, Any]:
        return {
            "operator": "semijoin",
            "ordering": self.ordering,
            "search": self.search,
            "steps": [step.to_json() for step in self.steps],
        }

    def pretty(self) -> str:
        lines = [f"semijoin, {self.ordering} ordering, {self.search} search: {self.cost:.6g} {self.unit}"]
        return "\n".join([*lines, *(f"  {step.pretty()}" for step in self.steps)])


def _name(aliases: tuple[str, ...]) -> str:
    return " ⋈ ".join(aliases)

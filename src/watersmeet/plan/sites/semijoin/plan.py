"""A semijoin plan: which one-way joins run, by which method, and what each ships."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from watersmeet.plan.sites.plan_tree import LinkLoad
from watersmeet.plan.sites.semijoin.cost import JoinCost, Method, Term

BYTES = "bytes/s"

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
    key: tuple[int, ...] = ()  # the attribute classes it joins by
    shares: bool = False  # whether it shares copies and batches with other steps
    notices: tuple[LinkLoad, ...] = ()  # of ended tuples, for a tree's level

    @property
    def method(self) -> Method:
        return self.cost.method

    @property
    def output_site(self) -> str:
        return self.source_site if self.method.output_at_source else self.target_site

    @property
    def copy(self) -> Hashable:
        """What it probes at the source, which steps of the same copy share; None where there is none."""
        if not self.shares or self.method in (Method.SP_D, Method.SM_D2):
            return None
        return self.method, self.target, self.key, self.source_site

    def flow(self, *, of_source: bool) -> Hashable:
        """The stream, or the results, that one side is; None where nothing is shared."""
        return (self.source if of_source else self.target) if self.shares else None

    def way(self, *, to_source: bool) -> tuple[str, str]:
        """The link that what goes one way crosses."""
        ends = (self.source_site, self.target_site)
        return (ends[1], ends[0]) if to_source else ends

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
            "ships": {term.name: term.bytes_per_s for term in self.cost.terms if term.activity == "ship"},
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
        """C_JEP, equation (1): the sum over all one-way joins; or all that is shipped, in bytes/s."""
        if self.unit == BYTES:
            return math.fsum(load.bytes_per_s for load in self.links())
        return math.fsum(step.cost.total for step in self.steps)

    @property
    def communication(self) -> float:
        """The part of the cost spent on the network."""
        return math.fsum(step.cost.communication for step in self.steps)

    @property
    def processing(self) -> float:
        """The part of the cost spent at the sites."""
        return math.fsum(step.cost.processing for step in self.steps)

    @property
    def answer_sites(self) -> tuple[str, ...]:
        """The sites at which answers are found."""
        members = max(len(step.source) + len(step.target) for step in self.steps)
        last = (step for step in self.steps if len(step.source) + len(step.target) == members)
        return tuple(dict.fromkeys(step.output_site for step in last))

    def sequence(self, head: str) -> tuple[SemijoinStep, ...]:
        """The joins whose source starts with this input: under linear ordering, its join sequence."""
        return tuple(step for step in self.steps if step.source[0] == head)

    def loads(self) -> list[tuple[LinkLoad, ...]]:
        """What each step ships; what steps share is shipped by the first."""
        shipments = Shipments()
        return [_joined_loads([*shipments.add(step), *step.notices]) for step in self.steps]

    def links(self) -> tuple[LinkLoad, ...]:
        """Bytes/s per link and stream, added up over the steps, in order of first use."""
        return _joined_loads([load for loads in self.loads() for load in loads])

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


def _joined_loads(loads: Iterable[LinkLoad]) -> tuple[LinkLoad, ...]:
    found: dict[tuple[str, str, str], float] = {}
    for load in loads:
        key = (load.source, load.target, load.stream)
        found[key] = found.get(key, 0.0) + load.bytes_per_s
    return tuple(LinkLoad(*key, bytes_per_s) for key, bytes_per_s in found.items())


class Shipments:
    """What steps have shipped so far, so that what they share is counted once.

    Of a whole batch, or of what keeps a copy up to date, nothing is left to ship after the first step. Of
    tuples that steps ask for, the share that no step asked for is left, as if they asked independently.
    """

    def __init__(self, before: Shipments | None = None) -> None:
        self._left: dict[Hashable, float] = dict(before._left) if before else {}

    def add(self, step: SemijoinStep) -> list[LinkLoad]:
        """What one more step ships."""
        loads = []
        for term, key, bytes_per_s in self._shipped(step):
            if key is not None:
                asked = term.bytes_per_s / term.whole if term.shared == "tuples" and term.whole else 1.0
                self._left[key] = self._left.get(key, 1.0) * (1 - asked)
            if bytes_per_s > 0:
                streams = step.target if term.to_source else step.source
                loads.append(LinkLoad(*step.way(to_source=term.to_source), _name(streams), bytes_per_s))
        return loads

    def bytes_per_s(self, step: SemijoinStep) -> float:
        """How many bytes one more step would ship."""
        return math.fsum(bytes_per_s for _, _, bytes_per_s in self._shipped(step))

    def _shipped(self, step: SemijoinStep) -> Iterator[tuple[Term, Hashable, float]]:
        if step.source_site == step.target_site:
            return
        for term in step.cost.terms:
            if term.activity == "ship":
                key = _sharing_key(step, term)
                yield term, key, term.bytes_per_s * (1.0 if key is None else self._left.get(key, 1.0))


def _sharing_key(step: SemijoinStep, term: Term) -> Hashable:
    """What shipments with this key have in common; None for one of its own."""
    if not step.shares or term.shared is None:
        return None
    if term.shared == "batch":
        return step.flow(of_source=not term.to_source), step.way(to_source=term.to_source)
    return step.copy, term.name


def _name(aliases: tuple[str, ...]) -> str:
    return " ⋈ ".join(aliases)

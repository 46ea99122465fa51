"""The cost of a run of a semijoin plan, step by step and term by term, beside the cost formulas.

The paper measures the time of all transmissions and of all processing, added up over the sites, for each
second of stream (Tran and Lee 2010, section 5.2). A shipment of x bytes takes S(x) = latency + x / bandwidth;
processing takes the tuples looked at, inserted and hashed times the model's seconds for each. Every entry has
the name of the addend it stands for, so that a formula and a run can be compared term by term.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field

from watersmeet.plan.sites.semijoin.cost import transfer_s
from watersmeet.plan.sites.semijoin.plan import SemijoinPlan
from watersmeet.plan.statistics.statistics import Link


@dataclass
class Spent:
    """The cost of one term of one step, or of all that crossed one link."""

    seconds: float = 0.0
    bytes: float = 0.0  # of content
    framing: float = 0.0  # bytes that messages take besides
    messages: int = 0


@dataclass
class Ledger:
    """Counts what belongs to the intervals that are measured, None for all."""

    interval_s: float
    measured: range | None = None
    spent: dict[tuple[int, str], Spent] = field(default_factory=lambda: defaultdict(Spent))
    crossed: dict[tuple[str, str], Spent] = field(default_factory=lambda: defaultdict(Spent))  # by link

    def work(self, step: int, interval: int, term: str, seconds: float) -> None:
        """Time at a site."""
        if self.counts(interval):
            self.spent[step, term].seconds += seconds

    def ship(
        self,
        step: int,
        interval: int,
        term: str,
        way: tuple[str, str],
        link: Link,
        size_bytes: float,
        framing_bytes: float = 0.0,
    ) -> None:
        """A message over the link from one site to another."""
        if self.counts(interval):
            for entry in (self.spent[step, term], self.crossed[way]):
                entry.seconds += transfer_s(link, size_bytes)
                entry.bytes += size_bytes
                entry.framing += framing_bytes
                entry.messages += 1

    def counts(self, interval: int) -> bool:
        return self.measured is None or interval in self.measured

    @property
    def seconds(self) -> float:
        """Execution time, all steps together."""
        return math.fsum(entry.seconds for entry in self.spent.values())

    @property
    def bytes(self) -> float:
        return math.fsum(entry.bytes for entry in self.spent.values())

    @property
    def messages(self) -> int:
        return sum(entry.messages for entry in self.spent.values())

    @property
    def measured_s(self) -> float:
        """Seconds of stream that were measured."""
        return (len(self.measured) if self.measured is not None else 0) * self.interval_s

    @property
    def seconds_per_s(self) -> float:
        """Execution time for each second of stream: the paper's measure."""
        return self.seconds / self.measured_s

    def against(self, plan: SemijoinPlan) -> dict[str, tuple[float, float]]:
        """For each term, over all steps: modelled and simulated seconds per second of stream.

        >>> Ledger(0.1, range(10)).against(SemijoinPlan("linear", "greedy", ()))
        {}
        """
        modelled: dict[str, float] = defaultdict(float)
        simulated: dict[str, float] = defaultdict(float)
        for number, step in enumerate(plan.steps):
            for term in step.cost.terms:
                modelled[f"{step.method.value} {term.name}"] += term.seconds_per_s
            for (owner, name), entry in self.spent.items():
                if owner == number:
                    simulated[f"{step.method.value} {name}"] += entry.seconds / self.measured_s
        names = dict.fromkeys([*modelled, *simulated])
        return {name: (modelled.get(name, 0.0), simulated.get(name, 0.0)) for name in names}

"""In which order the tuples of a head stream probe the other inputs.

The order never changes the answers, only how many partial combinations are made on the way. For every head
we keep the observed fan-out (matches per prober) of each probe we have made, decayed so that it follows the
stream, and choose greedily: of the inputs connected to those already bound, the one that multiplies least.
Probes that the current order never makes first are sampled now and then, so that a better order is noticed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from watersmeet.kernel.tuning import DEFAULT_TUNING

Classes = tuple[int, ...]

DECAY = 0.7  # the weight of the past when a new observation comes in


@dataclass(frozen=True)
class Probe:
    """One step of a probing sequence: which input, by which classes."""

    alias: str
    classes: Classes


@dataclass
class ProbingOrder:
    """The adaptive probing sequences of one join; `classes` gives each input's attribute classes."""

    classes: Mapping[str, Classes]
    initial: Mapping[str, Sequence[str]] = field(default_factory=dict)
    sample_every: int = DEFAULT_TUNING.sample_every  # steps of a head
    _fanouts: dict[tuple[str, Probe], float] = field(default_factory=dict)
    _steps: dict[str, int] = field(default_factory=dict)

    def sequence(self, head: str, known: Mapping[Probe, float] | None = None) -> tuple[Probe, ...]:
        """The order in which tuples of `head` probe all others; `known` are fan-outs of some of them."""
        bound = set(self.classes[head])
        remaining = [alias for alias in self.initial.get(head, self.classes) if alias != head]
        chosen: list[Probe] = []
        while remaining:
            options = [probe for alias in remaining if (probe := self._probe(alias, bound)).classes]
            best = min(options, key=lambda probe: self._fanout(head, probe, known))
            chosen.append(best)
            remaining.remove(best.alias)
            bound |= set(self.classes[best.alias])
        return tuple(chosen)

    def first_probes(self, head: str) -> tuple[Probe, ...]:
        """Every probe that a tuple of `head` could make first."""
        probes = [self._probe(alias, set(self.classes[head])) for alias in self.classes if alias != head]
        return tuple(probe for probe in probes if probe.classes)

    def wants_sample(self, head: str) -> bool:
        """Whether this step of `head` should sample its first probes."""
        step = self._steps.get(head, 0)
        self._steps[head] = step + 1
        return len(self.classes) > 2 and step % self.sample_every == 0

    def observe(self, head: str, probe: Probe, probers: int, matches: int) -> None:
        """Takes the outcome of a probe into account."""
        if probers:
            key, fanout = (head, probe), matches / probers
            past = self._fanouts.get(key)
            self._fanouts[key] = fanout if past is None else DECAY * past + (1 - DECAY) * fanout

    def expected_probes(
        self, head: str, sequence: Sequence[Probe], known: Mapping[Probe, float] | None = None
    ) -> float:
        """How many probes one head tuple is expected to cause after its first."""
        return sum(self._partials(head, sequence[:-1], known))

    def _partials(
        self, head: str, sequence: Sequence[Probe], known: Mapping[Probe, float] | None
    ) -> list[float]:
        """The partial combinations one head tuple is expected to have made after each probe."""
        made = [1.0]
        for probe in sequence:
            made.append(made[-1] * self._fanout(head, probe, known))
        return made[1:]

    def used_classes(self, alias: str) -> set[Classes]:
        """The class sets by which some head's current sequence probes this input."""
        return {
            probe.classes
            for head in self.classes
            if head != alias
            for probe in (*self.sequence(head), *self.first_probes(head))
            if probe.alias == alias
        }

    def _fanout(self, head: str, probe: Probe, known: Mapping[Probe, float] | None) -> float:
        own = known.get(probe) if known else None
        return self._fanouts.get((head, probe), 1.0) if own is None else own

    def _probe(self, alias: str, bound: set[int]) -> Probe:
        return Probe(alias, tuple(cls for cls in self.classes[alias] if cls in bound))

"""Initial probing sequences: in which order a new tuple of each input visits the other inputs.

After Viglas, Naughton and Burger, "Maximizing the output rate of multi-way join queries over streaming
information sources" (MJoin, VLDB 2003), which DHTJoin runs at every node (section 3.3.1): the best sequence
generates the fewest intermediate results. We take the input with the smallest expected fan-out next, that
is the fewest matches for each combination found so far, among the inputs an attribute class connects to
those visited; ties go to FROM order. The engine adapts the sequence later to the match rates it observes.

    fan-out of k after the set A = W(A + k) / W(A)

where W is the expected number of combinations alive (`rate_model`). Example: with 300 tuples of S and 10 of
T in their windows, and 100 values of the one attribute that joins R, S and T, a tuple of R meets 3 of S but
0.1 of T: R probes T first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from watersmeet.errors import ConfigurationError
from watersmeet.plan.statistics.rate_model import RateModel, rate_model
from watersmeet.plan.statistics.statistics import Statistics
from watersmeet.query import JoinGraph, Query


@dataclass(frozen=True)
class ProbingSequence:
    """The inputs a new tuple of `head` visits, and the matches expected at each visit."""

    head: str
    order: tuple[str, ...]
    fan_out: tuple[float, ...]

    @property
    def combinations(self) -> float:
        """Combinations expected along the way for one new tuple, answers included."""
        total, found = 0.0, 1.0
        for matches in self.fan_out:
            found *= matches
            total += found
        return total

    def pretty(self) -> str:
        visits = ", ".join(f"{a} (x{f:.4g})" for a, f in zip(self.order, self.fan_out, strict=True))
        return f"{self.head}: {visits}" if visits else self.head

    def to_json(self) -> dict[str, Any]:
        return {"head": self.head, "order": list(self.order), "fan_out": list(self.fan_out)}


def plan_probing(query: Query, statistics: Statistics) -> tuple[ProbingSequence, ...]:
    """One probing sequence per input, in FROM order."""
    return probing_sequences(query.graph, rate_model(query, statistics))


def probing_sequences(graph: JoinGraph, rates: RateModel) -> tuple[ProbingSequence, ...]:
    """One probing sequence per input of a connected join graph, by the smallest expected fan-out."""
    if not graph.is_connected:
        parts = "; ".join(", ".join(part) for part in graph.components())
        raise ConfigurationError(f"probing needs a connected join graph, not separate parts: {parts}")
    return tuple(_sequence(head, graph, rates) for head in graph.aliases)


def _sequence(head: str, graph: JoinGraph, rates: RateModel) -> ProbingSequence:
    joined, order, fan_out = rates.mask((head,)), [head], []
    while len(order) < len(graph.aliases):
        options = []
        for alias in graph.aliases:
            mask = rates.mask((alias,))
            if alias not in order and rates.joinable(joined, mask):
                options.append((_fan_out(rates, joined, mask), alias, mask))
        matches, alias, mask = min(options, key=lambda option: option[0])
        joined |= mask
        order.append(alias)
        fan_out.append(matches)
    return ProbingSequence(head, tuple(order[1:]), tuple(fan_out))


def _fan_out(rates: RateModel, joined: int, added: int) -> float:
    alive = rates.window(joined)
    return rates.window(joined | added) / alive if alive else 0.0

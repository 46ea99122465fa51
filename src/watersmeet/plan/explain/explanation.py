"""Explain: the plan chosen for a query, what it costs and why, and what else was considered.

With `auto` the cheapest strategy is chosen (`plan/strategies.py`). Strategies priced in another unit are
listed with their cost and never compared. docs/explain.md describes the JSON form.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from watersmeet.errors import ConfigurationError
from watersmeet.plan.explain.hot_values import hot_values_json
from watersmeet.plan.explain.notes import notes_on
from watersmeet.plan.explain.physical import explain_plan, stage_lines, state_lines
from watersmeet.plan.explain.reasons import why_not
from watersmeet.plan.explain.strategy import strategy_json, strategy_pictures, strategy_text
from watersmeet.plan.explain.svg import draw
from watersmeet.plan.physical import PhysicalPlan, plan_physical
from watersmeet.plan.probing import ProbingSequence, plan_probing
from watersmeet.plan.routing.routing import Shares
from watersmeet.plan.sites.plan_tree import number
from watersmeet.plan.statistics.statistics import Statistics
from watersmeet.plan.strategies import (
    ENGINE_STRATEGIES,
    LINK_UNIT,
    PMJOIN_PARTITIONS,
    STRATEGIES,
    Planning,
    Priced,
    cheapest,
    price_all,
    price_tree,
)
from watersmeet.query import Query

VERSION = 1
AUTO = "auto"
KNOWN_STRATEGIES = (AUTO, *STRATEGIES)


@dataclass(frozen=True)
class Alternative:
    """A strategy that was considered and not chosen; no cost where it cannot take the query."""

    strategy: str
    cost: float | None
    unit: str | None
    why: str
    state_bytes: float | None = None  # what the engine would keep, for the engine's own strategies

    def to_json(self) -> dict[str, Any]:
        state = {} if self.state_bytes is None else {"state_bytes": self.state_bytes}
        return {"strategy": self.strategy, "cost": self.cost, "unit": self.unit, "why": self.why, **state}


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """A plan with its reasons; `physical` is what the engine runs."""

    query: Query
    chosen: Priced
    alternatives: tuple[Alternative, ...]
    sites: dict[str, str]  # of every input
    physical: PhysicalPlan
    probing: tuple[ProbingSequence, ...]
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The documented form; keys are only ever added."""
        return {
            "version": VERSION,
            "strategy": self.chosen.strategy,
            "cost": self.chosen.cost,
            "unit": self.chosen.unit,
            "terms": [{"name": term.name, "cost": term.cost} for term in self.chosen.terms],
            "alternatives": [alternative.to_json() for alternative in self.alternatives],
            "plan": strategy_json(self.chosen.plan),
            "links": [load.to_json() for load in self.chosen.links],
            "sites": self.sites,
            "runs_as": self.physical.routing.name,
            "engine": {
                "partitions": self.physical.partitions,
                **self._shares_json(),
                "stages": stage_lines(self.physical),
                "state": state_lines(self.physical),
                "probing": [sequence.to_json() for sequence in self.probing],
            },
            "notes": list(self.notes),
        }

    def _shares_json(self) -> dict[str, Any]:
        """The shares and the hot values; none where the query runs in another way."""
        match self.physical.routing:
            case Shares(hypercube, hot_values=hot_values):
                return {
                    "shares": list(hypercube.shares),
                    "hot_values": [hot_values_json(each) for each in hot_values],
                }
            case _:
                return {"shares": [], "hot_values": []}

    def json_text(self) -> str:
        """`to_json` as text, the same for the same query and statistics."""
        return json.dumps(self.to_json(), indent=2, ensure_ascii=False, allow_nan=False)

    def pretty(self) -> str:
        """All of it for the terminal."""
        head = [
            f"strategy  {self.chosen.strategy}, {number(self.chosen.cost)} {self.chosen.unit}",
            f"runs as   {self.physical.routing.name}, {self.physical.routing.reason}",
        ]
        parts = [("plan", strategy_text(self.chosen.plan).split("\n")), ("cost", self._cost_lines())]
        if self.chosen.links and self.chosen.unit != LINK_UNIT:
            parts.append(("links", [load.pretty() for load in self.chosen.links]))
        parts.append(("alternatives", self._alternative_lines()))
        parts.append(("notes", list(self.notes)))
        text = "\n".join(head)
        for title, lines in parts:
            if lines:
                text += f"\n\n{title}\n" + "\n".join(f"  {line}" for line in lines)
        text += f"\n\n{explain_plan(self.physical)}"
        probing = "".join(f"\n  {sequence.pretty()}" for sequence in self.probing)
        return f"{text}\n\nprobing, at first{probing}" if probing else text

    def svg(self) -> str:
        """The chosen plan as a standalone picture."""
        title = f"{self.chosen.strategy}: {number(self.chosen.cost)} {self.chosen.unit}"
        return draw(title, self.sites, self.chosen.links, strategy_pictures(self.chosen.plan, self.sites))

    def _cost_lines(self) -> list[str]:
        shown = [(number(term.cost), term.name) for term in self.chosen.terms]
        width = max((len(cost) for cost, _ in shown), default=0)
        lines = [f"{cost:>{width}} {self.chosen.unit}  {name}" for cost, name in shown]
        return lines or [f"0 {self.chosen.unit}: nothing is sent on"]

    def _alternative_lines(self) -> list[str]:
        costs = [
            "-" if other.cost is None else f"{number(other.cost)} {other.unit}" for other in self.alternatives
        ]
        width = max((len(cost) for cost in costs), default=0)
        return [
            f"{other.strategy:<12} {cost:<{width}}  {other.why}"
            for other, cost in zip(self.alternatives, costs, strict=True)
        ]


def explain(
    query: Query,
    statistics: Statistics,
    *,
    strategy: str = AUTO,
    partitions: int = 2,
    pmjoin_partitions: int = PMJOIN_PARTITIONS,
    routing: str | None = None,
) -> Explanation:
    """The plan of a query by one strategy, or by the cheapest; `partitions` is the engine's, of its shuffle.

    `routing` is how the engine runs it, shares or pipeline; None takes the one that costs less.
    `pmjoin_partitions` is the most parts that PMJoin cuts streams into; with as many as there are known
    values, each value is planned on its own.
    """
    if strategy not in KNOWN_STRATEGIES:
        raise ConfigurationError(f"no strategy '{strategy}': choose one of {', '.join(KNOWN_STRATEGIES)}")
    for option, count in (("partitions", partitions), ("pmjoin_partitions", pmjoin_partitions)):
        if count < 1:
            raise ConfigurationError(f"{option} must be at least 1, got {count}")
    planning = Planning(query, statistics, partitions, pmjoin_partitions)
    if query.tree is not None:
        return _explain_tree(planning, strategy, routing)
    priced, refused = price_all(planning, strategy)
    if strategy in refused:
        raise ConfigurationError(f"strategy {strategy} cannot take this query: {refused[strategy]}")
    chosen = priced[strategy] if strategy != AUTO else cheapest(planning, priced)
    alternatives = [
        Alternative(
            other.strategy,
            other.cost,
            other.unit,
            why_not(other, chosen, asked_for=strategy != AUTO),
            other.routing.state_bytes if other.routing else None,
        )
        for other in priced.values()
        if other is not chosen
    ]
    alternatives += [Alternative(name, None, None, reason) for name, reason in refused.items()]
    return Explanation(
        query=query,
        chosen=chosen,
        alternatives=tuple(alternatives),
        sites=planning.sites,
        physical=plan_physical(query, partitions, statistics, routing),
        probing=plan_probing(query, statistics),
        notes=notes_on(query, statistics, chosen),
    )


def _explain_tree(planning: Planning, strategy: str, routing: str | None) -> Explanation:
    """Outer, semi and anti joins have one plan, whatever it costs, unless another is asked for."""
    if strategy not in (AUTO, *ENGINE_STRATEGIES):
        raise ConfigurationError(
            f"strategy {strategy} cannot take this query: only shares and pipelines take outer, semi and "
            "anti joins"
        )
    query, statistics = planning.query, planning.statistics
    chosen = price_tree(planning, routing if strategy == AUTO else strategy)
    return Explanation(
        query=query,
        chosen=chosen,
        alternatives=(),
        sites=planning.sites,
        physical=plan_physical(query, planning.buckets, statistics, routing),
        probing=(),
        notes=notes_on(query, statistics, chosen),
    )

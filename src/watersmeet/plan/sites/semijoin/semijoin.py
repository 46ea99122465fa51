"""Which streams to join in which order, where, and by which of the six methods, or seven with SM-B.

After Tran and Lee, "Distributed stream join query processing with semijoins" (2010), section 4. Two
orderings: *linear* gives each input, as the head, its own sequence of one-way joins over the others;
*tree* fixes one order for all, in which every level joins an input with what is joined below it, in both
directions (4.2). Two searches: *greedy* (Algorithm 10) appends the input that is cheapest to join next;
*exhaustive* finds the cheapest plan there is.

Guarantees: only inputs that share an attribute class with those joined are appended; no plan of the same
ordering is cheaper than the exhaustive one.

Where we differ, or had to choose:
- Algorithm 10 remembers S_next and C_min; A_next must be remembered with them, else it would be the last
  candidate's method.
- Sites matter: the result of a step stays at the source or moves to the destination, and the next step
  starts there. Greedy takes the cheapest method wherever it leaves the result, as Algorithm 10 does.
- The exhaustive search is breadth-first with pruning like the paper's. It keeps the cheapest way to every
  (inputs joined, site), which loses nothing as the rest of a plan depends on these alone, and drops what
  already costs more than the greedy plan. Above `EXHAUSTIVE_LIMIT` inputs it is refused.
- Tree ordering: both directions of a level must leave their results at the same site, as these are one
  stream for the next level; the last level is free. Greedy grows a tree from each input and keeps the
  cheapest.

Example, linear: for R.a = S.a and S.b = T.b the sequences are R: S, T; S: R, T or T, R; T: S, R.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from watersmeet.errors import ConfigurationError
from watersmeet.plan.sites.semijoin.cost import PAPER_METHODS, JoinCost, Method
from watersmeet.plan.sites.semijoin.model import DEFAULT_INTERVAL_S, SemijoinModel, semijoin_model
from watersmeet.plan.sites.semijoin.plan import Ordering, Search, SemijoinPlan, SemijoinStep
from watersmeet.plan.statistics.statistics import Statistics
from watersmeet.query import Query

EXHAUSTIVE_LIMIT = 8
SLACK = 1 + 1e-12  # sums of the same numbers in another order may differ in the last bits


@dataclass(frozen=True)
class _Partial:
    """A plan under construction: what is joined, in which order, and where the result is."""

    order: tuple[str, ...]
    site: str
    cost: float
    steps: tuple[SemijoinStep, ...] = ()

    @property
    def joined(self) -> frozenset[str]:
        return frozenset(self.order)

    def append(self, alias: str, site: str, steps: tuple[SemijoinStep, ...]) -> _Partial:
        added = math.fsum(step.cost.total for step in steps)
        return _Partial((*self.order, alias), site, self.cost + added, (*self.steps, *steps))


Extend = Callable[[SemijoinModel, _Partial, str], Iterator[_Partial]]


def plan_semijoin(
    query: Query,
    statistics: Statistics,
    *,
    ordering: Ordering = "linear",
    search: Search = "greedy",
    interval_s: float = DEFAULT_INTERVAL_S,
    methods: tuple[Method, ...] = PAPER_METHODS,
) -> SemijoinPlan:
    """The semijoin plan of a query under statistics."""
    model = semijoin_model(query, statistics, interval_s=interval_s, methods=methods)
    return optimize_semijoin(model, ordering=ordering, search=search)


def optimize_semijoin(
    model: SemijoinModel, *, ordering: Ordering = "linear", search: Search = "greedy"
) -> SemijoinPlan:
    """The plan one ordering and one search give for a model."""
    check_search(model, ordering, search)
    if ordering == "tree":
        starts = [_start(model, alias) for alias in model.graph.aliases]
        grown = [_grow_greedily(model, start, _extend_tree) for start in starts]
        best = min(grown, key=lambda partial: partial.cost)
        if search == "exhaustive":
            best = _search_exhaustively(model, starts, best, _extend_tree)
        return SemijoinPlan(ordering, search, best.steps)
    steps: list[SemijoinStep] = []
    for head in model.graph.aliases:
        start = _start(model, head)
        sequence = _grow_greedily(model, start, _extend_sequence)
        if search == "exhaustive":
            sequence = _search_exhaustively(model, [start], sequence, _extend_sequence)
        steps += sequence.steps
    return SemijoinPlan(ordering, search, tuple(steps))


def check_search(model: SemijoinModel, ordering: str, search: str = "greedy") -> None:
    """Refuse a search nobody knows, or that this query is too wide or too loose for."""
    if ordering not in ("linear", "tree"):
        raise ConfigurationError(f"no ordering '{ordering}': choose 'linear' or 'tree'")
    if search not in ("greedy", "exhaustive"):
        raise ConfigurationError(f"no search '{search}': choose 'greedy' or 'exhaustive'")
    if not model.graph.is_connected:
        parts = "; ".join(", ".join(part) for part in model.graph.components())
        raise ConfigurationError(f"a semijoin plan needs a connected join graph, not separate parts: {parts}")
    count = len(model.graph.aliases)
    if search == "exhaustive" and count > EXHAUSTIVE_LIMIT:
        raise ConfigurationError(
            f"the exhaustive semijoin search takes at most {EXHAUSTIVE_LIMIT} inputs, not {count}:"
            " use the greedy search"
        )


def _start(model: SemijoinModel, alias: str) -> _Partial:
    return _Partial((alias,), model.stream(alias).site, 0.0)


def _grow_greedily(model: SemijoinModel, partial: _Partial, extend: Extend) -> _Partial:
    """Algorithm 10, lines 3-19: append the cheapest next input, the earlier one on a tie."""
    while reachable := model.reachable(partial.joined):
        candidates = [longer for alias in reachable for longer in extend(model, partial, alias)]
        partial = min(candidates, key=lambda longer: longer.cost)
    return partial


def _search_exhaustively(
    model: SemijoinModel, starts: list[_Partial], known: _Partial, extend: Extend
) -> _Partial:
    """Breadth-first over the sets of inputs joined and the sites of their results."""
    level = list(starts)
    for _ in range(len(model.graph.aliases) - 1):
        cheapest: dict[tuple[frozenset[str], str], _Partial] = {}
        for partial in level:
            for alias in model.reachable(partial.joined):
                for longer in extend(model, partial, alias):
                    if longer.cost > known.cost * SLACK:
                        continue
                    rival = cheapest.get((longer.joined, longer.site))
                    if rival is None or longer.cost < rival.cost:
                        cheapest[longer.joined, longer.site] = longer
        level = list(cheapest.values())
    return min([known, *level], key=lambda partial: partial.cost)


def _extend_sequence(model: SemijoinModel, partial: _Partial, alias: str) -> Iterator[_Partial]:
    """One more one-way join: the cheapest method that leaves the result here, and that moves it there."""
    here, there = partial.site, model.stream(alias).site
    ends = model.cheapest_ends(partial.joined, frozenset([alias]), (here, there), head=partial.order[0])
    for cost in ends.values():
        step = SemijoinStep(partial.order, (alias,), here, there, cost)
        yield partial.append(alias, step.output_site, (step,))


def _extend_tree(model: SemijoinModel, partial: _Partial, alias: str) -> Iterator[_Partial]:
    """One more level: a two-way join, as two one-way joins whose results meet at one site."""
    here, there = partial.site, model.stream(alias).site
    single = frozenset([alias])
    onto = model.cheapest_ends(single, partial.joined, (there, here))
    out = model.cheapest_ends(partial.joined, single, (here, there))

    def level(onto_cost: JoinCost, out_cost: JoinCost) -> tuple[SemijoinStep, ...]:
        return (
            SemijoinStep((alias,), partial.order, there, here, onto_cost),
            SemijoinStep(partial.order, (alias,), here, there, out_cost),
        )

    if len(partial.order) + 1 == len(model.graph.aliases):
        yield partial.append(alias, here, level(_cheaper(onto), _cheaper(out)))
        return
    for stays in (True, False):
        yield partial.append(alias, here if stays else there, level(onto[not stays], out[stays]))


def _cheaper(ends: dict[bool, JoinCost]) -> JoinCost:
    return min(ends.values(), key=lambda cost: cost.total)

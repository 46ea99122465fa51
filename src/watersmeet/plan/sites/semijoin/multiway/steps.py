"""The steps of a semijoin plan, ready to run: each with its two halves and the step its output feeds."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

from watersmeet.plan.sites.semijoin.cost import Method, ProcessingCosts
from watersmeet.plan.sites.semijoin.filter import HASHES
from watersmeet.plan.sites.semijoin.multiway.delays import StepDelay
from watersmeet.plan.sites.semijoin.multiway.step_sizes import StepSizes
from watersmeet.plan.sites.semijoin.multiway.tree_level import Level, in_order
from watersmeet.plan.sites.semijoin.oneway.at_destination import (
    FilterDestination,
    FilterToDestination,
    OneStepDestination,
    OneStepToDestination,
    TwoStepDestination,
    TwoStepToDestination,
)
from watersmeet.plan.sites.semijoin.oneway.at_source import (
    OneStepSource,
    OneStepSourceTarget,
    TwoStepSource,
    TwoStepSourceTarget,
)
from watersmeet.plan.sites.semijoin.oneway.halves import Join, Probe, Source, Target, VectorForm
from watersmeet.plan.sites.semijoin.oneway.items import Item, Member, key_getter, shared_classes
from watersmeet.plan.sites.semijoin.oneway.simple import (
    SimpleAtDestination,
    SimpleAtSource,
    SimpleAtSourceTarget,
    SimpleToDestination,
)
from watersmeet.plan.sites.semijoin.plan import SemijoinPlan, SemijoinStep
from watersmeet.query import JoinGraph, Window

HALVES: Mapping[Method, tuple[type[Source], type[Target]]] = {
    Method.SP_S: (SimpleAtSource, SimpleAtSourceTarget),
    Method.SP_D: (SimpleToDestination, SimpleAtDestination),
    Method.SM_S1: (OneStepSource, OneStepSourceTarget),
    Method.SM_S2: (TwoStepSource, TwoStepSourceTarget),
    Method.SM_D1: (OneStepToDestination, OneStepDestination),
    Method.SM_D2: (TwoStepToDestination, TwoStepDestination),
    Method.SM_B: (FilterToDestination, FilterDestination),
}


@dataclass(frozen=True, kw_only=True)
class Running:
    """A step with its halves, which it may share; `feeds` is the step or level that takes its output."""

    number: int
    plan: SemijoinStep
    source: Source
    target: Target
    served: tuple[int, ...]  # the steps that the halves serve, by the number of their probe
    starts: bool  # whether its source is a stream or a level, rather than another step
    level: int  # of a tree; 0 under linear ordering
    feeds: int | None
    order: tuple[str, ...]  # what a level, or FROM, wants an item's members in

    @property
    def probe(self) -> int:
        """Its number among the steps that its halves serve."""
        return self.served.index(self.number)

    @property
    def leads(self) -> bool:
        """Whether it is the one that hands its halves the target's batches."""
        return self.served[0] == self.number

    def in_level_order(self, item: Item) -> Item:
        return in_order(item, (*self.plan.source, *self.plan.target), self.order)

    def answer(self, item: Item) -> tuple[Member, ...]:
        return self.in_level_order(item).members


def tree_levels(plan: SemijoinPlan, windows: Mapping[str, Window], first_interval: int) -> dict[int, Level]:
    """The levels of a tree whose results another level joins, by number; none under linear ordering."""
    if plan.ordering == "linear":
        return {}
    levels = {}
    for number, out in enumerate(plan.steps[1:-1:2]):
        order = (*out.source, *out.target)
        opening = tuple(n for n, alias in enumerate(order) if windows[alias].counts_rows)
        levels[number] = Level(order, out.output_site, opening, first_interval)
    return levels


@dataclass(frozen=True)
class Pace:
    """The settings that all steps of a run share."""

    interval_us: int  # tau
    first_interval: int
    heartbeats: bool = False
    count_only: bool = False
    silent: bool = False  # the answers are not even counted
    marks: bool = False
    vectors: VectorForm = "changes"
    costs: ProcessingCosts = field(default_factory=ProcessingCosts)


def running_steps(
    plan: SemijoinPlan,
    graph: JoinGraph,
    sizes: Sequence[StepSizes],
    windows: Mapping[str, Window],
    pace: Pace,
    delays: Sequence[StepDelay] | None = None,
) -> list[Running]:
    """Every step of a plan with fresh halves, one pair for all steps that probe the same copy.

    `delays` are for those who go by the clock.
    """
    halves: dict[int, tuple[tuple[int, ...], Source, Target]] = {}
    for served in shared_copies(plan):
        probes = [_probe(plan, graph, number, sizes, delays, pace) for number in served]
        first = plan.steps[served[0]]
        join = _join(graph, first, sizes[served[0]], windows, pace, tuple(probes))
        source, target = HALVES[first.method]
        pair = served, source(join), target(join)
        halves.update(dict.fromkeys(served, pair))
    return [_running(plan, graph, number, *halves[number]) for number in range(len(plan.steps))]


def shared_copies(plan: SemijoinPlan) -> list[tuple[int, ...]]:
    """The steps of a plan by the copy they probe, each by itself where nothing is shared."""
    found: dict[Hashable, list[int]] = {}
    for number, step in enumerate(plan.steps):
        key = step.copy
        found.setdefault(number if key is None else key, []).append(number)
    return [tuple(numbers) for numbers in found.values()]


def _running(
    plan: SemijoinPlan,
    graph: JoinGraph,
    number: int,
    served: tuple[int, ...],
    source: Source,
    target: Target,
) -> Running:
    step, tree = plan.steps[number], plan.ordering == "tree"
    is_last = _is_last(graph, step)
    level = number // 2 if tree else 0
    below = plan.steps[number | 1] if tree else step
    return Running(
        number=number,
        plan=step,
        source=source,
        target=target,
        served=served,
        starts=tree or len(step.source) == 1,
        level=level,
        feeds=None if is_last else level if tree else number + 1,
        order=graph.aliases if is_last else (*below.source, *below.target),
    )


def _is_last(graph: JoinGraph, step: SemijoinStep) -> bool:
    return len(step.source) + len(step.target) == len(graph.aliases)


def _comes_first(graph: JoinGraph, step: SemijoinStep) -> bool:
    return graph.aliases.index(step.target[0]) < graph.aliases.index(step.source[0])


def _probe(
    plan: SemijoinPlan,
    graph: JoinGraph,
    number: int,
    sizes: Sequence[StepSizes],
    delays: Sequence[StepDelay] | None,
    pace: Pace,
) -> Probe:
    step, is_last = plan.steps[number], _is_last(graph, plan.steps[number])
    # Of two items of one instant a tree's single stream finds the joined ones (its even steps), and a
    # linear head finds those of inputs before it in FROM: each pair is found from one side.
    tree = plan.ordering == "tree"
    return Probe(
        source_key=key_getter(graph, step.source, shared_classes(graph, step.source, step.target)),
        source_bytes=sizes[number].source_bytes,
        source_key_bytes=sizes[number].source_key_bytes,
        target_first=number % 2 == 0 if tree else _comes_first(graph, step),
        lag=delays[number].output_us // pace.interval_us + 1 if delays else 1,
        count_only=pace.count_only and is_last,
        silent=pace.silent and is_last,
    )


def _join(
    graph: JoinGraph,
    step: SemijoinStep,
    sizes: StepSizes,
    windows: Mapping[str, Window],
    pace: Pace,
    probes: tuple[Probe, ...],
) -> Join:
    classes = shared_classes(graph, step.source, step.target)
    return Join(
        probes=probes,
        target_key=key_getter(graph, step.target, classes),
        target_bytes=sizes.target_bytes,
        target_key_bytes=sizes.target_key_bytes,
        interval_us=pace.interval_us,
        vectors=pace.vectors,
        open_ends=any(windows[alias].counts_rows for alias in step.target),
        heartbeats=pace.heartbeats,
        marks=pace.marks,
        first_interval=pace.first_interval,
        costs=pace.costs,
        filter_bits=sizes.filter_bits,
        filter_hashes=HASHES,
    )

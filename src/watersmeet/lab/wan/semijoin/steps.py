"""The steps of a semijoin plan, ready to run: each with its two halves and the step its output feeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from watersmeet.lab.wan.feed import Feed, Member
from watersmeet.lab.wan.semijoin.delays import StepDelay
from watersmeet.lab.wan.semijoin.oneway.at_destination import (
    FilterDestination,
    FilterToDestination,
    OneStepDestination,
    OneStepToDestination,
    TwoStepDestination,
    TwoStepToDestination,
)
from watersmeet.lab.wan.semijoin.oneway.at_source import (
    OneStepSource,
    OneStepSourceTarget,
    TwoStepSource,
    TwoStepSourceTarget,
)
from watersmeet.lab.wan.semijoin.oneway.halves import Join, Source, Target
from watersmeet.lab.wan.semijoin.oneway.items import Item, key_getter, shared_classes
from watersmeet.lab.wan.semijoin.oneway.simple import (
    SimpleAtDestination,
    SimpleAtSource,
    SimpleAtSourceTarget,
    SimpleToDestination,
)
from watersmeet.lab.wan.semijoin.tree_level import Level, in_order
from watersmeet.plan.sites.semijoin.cost import Method
from watersmeet.plan.sites.semijoin.filter import HASHES, filter_bits
from watersmeet.plan.sites.semijoin.model import SemijoinModel
from watersmeet.plan.sites.semijoin.plan import SemijoinPlan, SemijoinStep
from watersmeet.query import Window

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
    """A step with its halves; `feeds` is the step, or the tree's level, that takes its output."""

    number: int
    plan: SemijoinStep
    source: Source
    target: Target
    starts: bool  # whether its source is a stream or a level, rather than another step
    level: int  # of a tree; 0 under linear ordering
    feeds: int | None
    order: tuple[str, ...]  # what a level, or FROM, wants an item's members in

    def in_level_order(self, item: Item) -> Item:
        return in_order(item, (*self.plan.source, *self.plan.target), self.order)

    def answer(self, item: Item) -> tuple[Member, ...]:
        return self.in_level_order(item).members


def member_windows(feeds: Mapping[str, Feed]) -> dict[str, Window]:
    return {alias: feed.window for alias, feed in feeds.items()}


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
    heartbeats: bool
    count_only: bool


def running_steps(
    plan: SemijoinPlan,
    model: SemijoinModel,
    windows: Mapping[str, Window],
    delays: Sequence[StepDelay],
    pace: Pace,
) -> list[Running]:
    """Every step of a plan with fresh halves."""
    steps = []
    tree = plan.ordering == "tree"
    for number, (step, delay) in enumerate(zip(plan.steps, delays, strict=True)):
        is_last = len(step.source) + len(step.target) == len(model.graph.aliases)
        # Of two items of one instant a tree's single stream finds the joined ones (its even steps), and a
        # linear head finds those of inputs before it in FROM: each pair is found from one side.
        target_first = number % 2 == 0 if tree else _comes_first(model, step)
        join = _join(model, step, windows, delay, pace, target_first, pace.count_only and is_last)
        source, target = HALVES[step.method]
        level = number // 2 if tree else 0
        below = plan.steps[number | 1] if tree else step
        order = model.graph.aliases if is_last else (*below.source, *below.target)
        feeds = None if is_last else level if tree else number + 1
        starts = tree or len(step.source) == 1
        steps.append(
            Running(
                number=number,
                plan=step,
                source=source(join),
                target=target(join),
                starts=starts,
                level=level,
                feeds=feeds,
                order=order,
            )
        )
    return steps


def _comes_first(model: SemijoinModel, step: SemijoinStep) -> bool:
    aliases = model.graph.aliases
    return aliases.index(step.target[0]) < aliases.index(step.source[0])


def _join(
    model: SemijoinModel,
    step: SemijoinStep,
    windows: Mapping[str, Window],
    delay: StepDelay,
    pace: Pace,
    target_first: bool,
    count_only: bool,
) -> Join:
    classes = shared_classes(model.graph, step.source, step.target)
    source, target = frozenset(step.source), frozenset(step.target)
    head = step.source[0] if len(step.target) == 1 else None
    priced = model.one_way(source, target, (step.source_site, step.target_site), head)
    return Join(
        source_key=key_getter(model.graph, step.source, classes),
        target_key=key_getter(model.graph, step.target, classes),
        source_bytes=priced.source.tuple_bytes,
        target_bytes=priced.target.tuple_bytes,
        source_key_bytes=priced.source.key_bytes,
        target_key_bytes=priced.target.key_bytes,
        interval_us=pace.interval_us,
        target_first=target_first,
        open_ends=any(windows[alias].counts_rows for alias in step.target),
        heartbeats=pace.heartbeats,
        lag=delay.output_us // pace.interval_us + 1,
        first_interval=pace.first_interval,
        costs=model.costs,
        filter_bits=filter_bits(priced.target_window_values),
        filter_hashes=HASHES,
        count_only=count_only,
    )

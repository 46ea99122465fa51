"""Random semijoin plans for any query: any order, any placement of streams, any method for each step."""

from __future__ import annotations

import random
from collections.abc import Sequence

from watersmeet.plan.sites.semijoin.cost import ALL_METHODS, Method, join_cost
from watersmeet.plan.sites.semijoin.model import Reading, SemijoinModel, SiteStream
from watersmeet.plan.sites.semijoin.plan import Ordering, SemijoinPlan, SemijoinStep
from watersmeet.plan.sites.semijoin.shipped import shipped_cost
from watersmeet.plan.statistics.statistics import Link, Network
from watersmeet.query import JoinGraph


def model_of(
    graph: JoinGraph,
    sites: Sequence[str],
    interval_us: int,
    link: Link | None = None,
    values: float = 5.0,
    reading: Reading = "shipped",
) -> SemijoinModel:
    """Streams of 100 bytes with keys of 8, at these sites."""
    streams = tuple(
        SiteStream(
            alias,
            site,
            rate_per_s=100,
            window_tuples=20,
            tuple_bytes=100,
            distinct=dict.fromkeys(graph.classes_of(alias), values),
            key_bytes=dict.fromkeys(graph.classes_of(alias), 8.0),
        )
        for alias, site in zip(graph.aliases, sites, strict=True)
    )
    return SemijoinModel(
        graph,
        streams,
        network=Network(default=link or Link()),
        interval_s=interval_us / 1e6,
        reading=reading,
    )


def random_plan(
    model: SemijoinModel, rng: random.Random, ordering: Ordering, methods: Sequence[Method] = ALL_METHODS
) -> SemijoinPlan:
    """A plan that respects the join graph, chosen without regard to its cost."""
    steps = _linear(model, rng, methods) if ordering == "linear" else _tree(model, rng, methods)
    return SemijoinPlan(ordering, "greedy", tuple(steps))


def _step(
    model: SemijoinModel,
    source: tuple[str, ...],
    target: tuple[str, ...],
    sites: tuple[str, str],
    method: Method,
) -> SemijoinStep:
    head = source[0] if len(target) == 1 else None
    join = model.one_way(frozenset(source), frozenset(target), sites, head)
    if model.reading == "printed":
        return SemijoinStep(source, target, *sites, join_cost(join, method))
    key = model.key(frozenset(source), frozenset(target))
    return SemijoinStep(source, target, *sites, shipped_cost(join, method), key, shares=True)


def _linear(model: SemijoinModel, rng: random.Random, methods: Sequence[Method]) -> list[SemijoinStep]:
    steps = []
    for head in model.graph.aliases:
        order, site = (head,), model.stream(head).site
        while reachable := model.reachable(frozenset(order)):
            alias = rng.choice(reachable)
            step = _step(model, order, (alias,), (site, model.stream(alias).site), rng.choice(methods))
            steps.append(step)
            order, site = (*order, alias), step.output_site
    return steps


def _tree(model: SemijoinModel, rng: random.Random, methods: Sequence[Method]) -> list[SemijoinStep]:
    first = rng.choice(model.graph.aliases)
    order, site = (first,), model.stream(first).site
    steps = []
    while reachable := model.reachable(frozenset(order)):
        alias = rng.choice(reachable)
        there = model.stream(alias).site
        while True:
            onto = _step(model, (alias,), order, (there, site), rng.choice(methods))
            out = _step(model, order, (alias,), (site, there), rng.choice(methods))
            if onto.output_site == out.output_site or len(order) + 1 == len(model.graph.aliases):
                break
        steps += [onto, out]
        order, site = (*order, alias), out.output_site
    return steps

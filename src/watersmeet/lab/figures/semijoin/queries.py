"""Four-way queries of the semijoin paper: random ones after Table 2, and those of Figures 9 and 10.

After Tran and Lee (2010), section 5.3.2. Every stream is at a site of its own. Every edge of a topology joins
by an attribute of its own; in "fully-connected, one attribute" all streams share a single one, as in the
paper's runs on real data. The paper does not say which of the two its fully connected queries are.
"""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass, replace

from watersmeet.lab.figures.semijoin.experiment import Measured, measure
from watersmeet.lab.figures.semijoin.streams import topology_graph
from watersmeet.plan.sites.semijoin.model import SemijoinModel, SiteStream
from watersmeet.plan.sites.semijoin.plan import SemijoinPlan
from watersmeet.plan.sites.semijoin.semijoin import optimize_semijoin
from watersmeet.query import JoinGraph

STREAMS = ("S1", "S2", "S3", "S4")
ATTRIBUTE_BYTES = 5.0  # a tuple of 250 attributes has 1250 bytes (section 5.3.1)

# Table 2
ATTRIBUTES = (10, 50, 100, 150, 200)
SELECTIVITY_FACTORS = (0.02, 0.04, 0.06, 0.08, 0.1)
RATES_PER_S = (10, 50, 100, 150, 200)
WINDOWS_MS = (400, 800, 1200, 1600, 2000)

ONE_ATTRIBUTE = "fully-connected, one attribute"
TOPOLOGIES: dict[str, tuple[tuple[str, ...], ...]] = {
    "star": tuple((STREAMS[0], other) for other in STREAMS[1:]),
    "chain": tuple(itertools.pairwise(STREAMS)),
    "cycle": (*itertools.pairwise(STREAMS), (STREAMS[-1], STREAMS[0])),
    "fully-connected": tuple(itertools.combinations(STREAMS, 2)),
    ONE_ATTRIBUTE: (STREAMS,),
}


@dataclass(frozen=True)
class StreamParameters:
    """A stream as Table 2 describes it."""

    attributes: float = 100
    factor: float = 0.06
    rate_per_s: float = 100
    window_ms: float = 1200


def site_stream(graph: JoinGraph, alias: str, given: StreamParameters) -> SiteStream:
    """A stream at its own site."""
    classes = graph.classes_of(alias)
    return SiteStream(
        alias,
        site=f"N{alias[1:]}",
        rate_per_s=given.rate_per_s,
        window_tuples=given.rate_per_s * given.window_ms / 1000,
        tuple_bytes=given.attributes * ATTRIBUTE_BYTES,
        distinct=dict.fromkeys(classes, 1 / given.factor),
        key_bytes=dict.fromkeys(classes, ATTRIBUTE_BYTES),
    )


def random_model(topology: str, seed: str) -> SemijoinModel:
    """A query of a topology, every stream's parameters drawn from Table 2."""
    rng = random.Random(seed)
    graph = topology_graph(TOPOLOGIES[topology], STREAMS)
    return SemijoinModel(
        graph,
        tuple(
            site_stream(
                graph,
                alias,
                StreamParameters(
                    rng.choice(ATTRIBUTES),
                    rng.choice(SELECTIVITY_FACTORS),
                    rng.choice(RATES_PER_S),
                    rng.choice(WINDOWS_MS),
                ),
            )
            for alias in graph.aliases
        ),
    )


def uniform_model(topology: str, given: StreamParameters) -> SemijoinModel:
    """All streams alike, as in Figure 9."""
    graph = topology_graph(TOPOLOGIES[topology], STREAMS)
    return SemijoinModel(graph, tuple(site_stream(graph, alias, given) for alias in graph.aliases))


def items_per_s(plan: SemijoinPlan, model: SemijoinModel) -> float:
    """How many partial results a run of a plan has to make for each second of stream."""
    return sum(
        model.head_rate_per_s(step.source[0], frozenset(step.source))
        for step in plan.steps
        if len(step.source) > 1
    )


@dataclass(frozen=True)
class Comparison:
    """The greedy plan of a query and the exhaustive one; None where a run was not made."""

    greedy_cost: float
    exhaustive_cost: float
    greedy: Measured | None = None
    exhaustive: Measured | None = None

    @property
    def modelled_ratio(self) -> float:
        return self.greedy_cost / self.exhaustive_cost

    @property
    def simulated_ratio(self) -> float | None:
        if self.greedy is None or self.exhaustive is None:
            return None
        return self.greedy.simulated / self.exhaustive.simulated


def compare(model: SemijoinModel, seconds: float, seed: int, most_items_per_s: float) -> Comparison:
    """Both plans, run on the same streams unless they would make too many partial results."""
    greedy = optimize_semijoin(model, search="greedy")
    exhaustive = optimize_semijoin(model, search="exhaustive")
    found = Comparison(greedy.cost, exhaustive.cost)
    heaviest = max(items_per_s(plan, model) for plan in (greedy, exhaustive))
    if heaviest > most_items_per_s or not seconds:
        return found
    first = measure(greedy, model, seconds, seed)
    same = greedy.steps == exhaustive.steps
    second = first if same else measure(exhaustive, model, seconds, seed)
    return replace(found, greedy=first, exhaustive=second)

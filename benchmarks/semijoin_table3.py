"""How far from optimal is the greedy semijoin optimizer? The paper's Table 3 beside our modelled figures.

    python benchmarks/semijoin_table3.py [--queries 100] [--seed 1] [--processing 1]

For each join graph topology, four-way queries get parameters drawn from Table 2 (Tran and Lee 2010, section
5.3.2); the ratio is the cost of the greedy plan over that of the exhaustive one. The paper measured
execution times of both plans, ten runs each, noise included; ours is the ratio of modelled costs, so never
below 1. Every edge of a topology joins by its own attribute, and "fully-connected, one attribute" is the
reading in which all four streams share a single one, as in the paper's runs on real data. `--processing`
multiplies the per-tuple costs, which the paper does not print.
"""

from __future__ import annotations

import argparse
import itertools
import random
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass

from watersmeet.plan.semijoin import optimize_semijoin
from watersmeet.plan.semijoin_cost import ProcessingCosts
from watersmeet.plan.semijoin_model import SemijoinModel, SiteStream
from watersmeet.plan.semijoin_plan import Ordering
from watersmeet.query import Attribute, AttributeClass, JoinGraph, column_expr

STREAMS = ("S1", "S2", "S3", "S4")
ATTRIBUTE_BYTES = 5.0  # a tuple of 250 attributes has 1250 bytes (section 5.3.1)

# Table 2
ATTRIBUTES = (10, 50, 100, 150, 200)
SELECTIVITY_FACTORS = (0.02, 0.04, 0.06, 0.08, 0.1)
RATES_PER_S = (10, 50, 100, 150, 200)
WINDOWS_MS = (400, 800, 1200, 1600, 2000)

TOPOLOGIES: dict[str, tuple[tuple[str, ...], ...]] = {
    "star": tuple((STREAMS[0], other) for other in STREAMS[1:]),
    "chain": tuple(itertools.pairwise(STREAMS)),
    "cycle": (*itertools.pairwise(STREAMS), (STREAMS[-1], STREAMS[0])),
    "fully-connected": tuple(itertools.combinations(STREAMS, 2)),
    "fully-connected, one attribute": (STREAMS,),
}


@dataclass(frozen=True)
class RatioSummary:
    """One line of Table 3."""

    mean: float
    median: float
    deviation: float
    worst: float

    def pretty(self) -> str:
        return f"{self.mean:5.2f} {self.median:6.2f} {self.deviation:5.2f} {self.worst:5.2f}"


TABLE_3 = {
    "star": RatioSummary(1.02, 1.00, 0.11, 1.39),
    "chain": RatioSummary(1.06, 1.01, 0.23, 2.43),
    "cycle": RatioSummary(1.08, 1.01, 0.21, 2.19),
    "fully-connected": RatioSummary(1.14, 1.04, 0.29, 2.33),
}


def topology_graph(edges: Sequence[Sequence[str]], aliases: Sequence[str] = STREAMS) -> JoinGraph:
    """A join graph with one attribute class per edge."""
    return JoinGraph(
        tuple(aliases),
        tuple(
            AttributeClass(tuple(Attribute(alias, column_expr(alias, f"a{n}")) for alias in edge))
            for n, edge in enumerate(edges)
        ),
    )


def scaled_costs(factor: float) -> ProcessingCosts:
    """The default per-tuple costs times a factor."""
    usual = ProcessingCosts()
    return ProcessingCosts(
        usual.probe_s * factor, usual.update_s * factor, usual.insert_s * factor, usual.hash_s * factor
    )


def random_model(graph: JoinGraph, rng: random.Random, costs: ProcessingCosts | None = None) -> SemijoinModel:
    """A query over `graph`, every stream at its own site with parameters drawn from Table 2."""
    streams = []
    for alias in graph.aliases:
        rate = rng.choice(RATES_PER_S)
        values = 1 / rng.choice(SELECTIVITY_FACTORS)
        classes = graph.classes_of(alias)
        streams.append(
            SiteStream(
                alias,
                site=f"N{alias[1:]}",
                rate_per_s=rate,
                window_tuples=rate * rng.choice(WINDOWS_MS) / 1000,
                tuple_bytes=rng.choice(ATTRIBUTES) * ATTRIBUTE_BYTES,
                distinct=dict.fromkeys(classes, values),
                key_bytes=dict.fromkeys(classes, ATTRIBUTE_BYTES),
            )
        )
    return SemijoinModel(graph, tuple(streams), costs=costs or ProcessingCosts())


def ratios(
    topology: str, queries: int, seed: int, ordering: Ordering = "linear", processing: float = 1.0
) -> list[float]:
    """Greedy cost over exhaustive cost, for random queries of one topology."""
    rng = random.Random(f"{topology} {seed}")
    graph = topology_graph(TOPOLOGIES[topology])
    found = []
    for _ in range(queries):
        model = random_model(graph, rng, scaled_costs(processing))
        greedy = optimize_semijoin(model, ordering=ordering, search="greedy")
        exhaustive = optimize_semijoin(model, ordering=ordering, search="exhaustive")
        found.append(greedy.cost / exhaustive.cost)
    return found


def table3(
    queries: int = 100, seed: int = 1, ordering: Ordering = "linear", processing: float = 1.0
) -> dict[str, RatioSummary]:
    """Our Table 3, by topology."""
    table = {}
    for topology in TOPOLOGIES:
        found = ratios(topology, queries, seed, ordering, processing)
        table[topology] = RatioSummary(
            statistics.fmean(found), statistics.median(found), statistics.stdev(found), max(found)
        )
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processing", type=float, default=1.0)
    chosen = parser.parse_args()
    for ordering in ("linear", "tree"):
        started = time.perf_counter()
        table = table3(chosen.queries, chosen.seed, ordering, chosen.processing)
        print(f"{ordering} ordering, {chosen.queries} queries a topology, seed {chosen.seed}")
        print(f"{'greedy / exhaustive':32} {'ours':^24}   {'Table 3' if ordering == 'linear' else '':^24}")
        print(f"{'':32} {' mean median   dev   max':24}")
        for topology, ours in table.items():
            theirs = TABLE_3.get(topology) if ordering == "linear" else None
            print(f"{topology:32} {ours.pretty()}   {theirs.pretty() if theirs else ''}".rstrip())
        print(f"({time.perf_counter() - started:.1f} s)\n")


if __name__ == "__main__":
    main()

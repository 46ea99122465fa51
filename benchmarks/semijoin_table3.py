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
import random
import statistics
import time
from dataclasses import dataclass

from watersmeet.lab.figures.semijoin.queries import (
    ATTRIBUTES,
    RATES_PER_S,
    SELECTIVITY_FACTORS,
    STREAMS,
    TOPOLOGIES,
    WINDOWS_MS,
    StreamParameters,
    site_stream,
)
from watersmeet.lab.figures.semijoin.streams import topology_graph
from watersmeet.plan.sites.semijoin.cost import ProcessingCosts
from watersmeet.plan.sites.semijoin.model import SemijoinModel
from watersmeet.plan.sites.semijoin.plan import Ordering
from watersmeet.plan.sites.semijoin.semijoin import optimize_semijoin
from watersmeet.query import JoinGraph


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
        rate, factor = rng.choice(RATES_PER_S), rng.choice(SELECTIVITY_FACTORS)
        window_ms, attributes = rng.choice(WINDOWS_MS), rng.choice(ATTRIBUTES)
        streams.append(site_stream(graph, alias, StreamParameters(attributes, factor, rate, window_ms)))
    return SemijoinModel(graph, tuple(streams), costs=costs or ProcessingCosts())


def ratios(
    topology: str, queries: int, seed: int, ordering: Ordering = "linear", processing: float = 1.0
) -> list[float]:
    """Greedy cost over exhaustive cost, for random queries of one topology."""
    rng = random.Random(f"{topology} {seed}")
    graph = topology_graph(TOPOLOGIES[topology], STREAMS)
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

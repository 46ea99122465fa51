"""PMJoin's Example 1 (DASFAA 2006, section 1 and Table 1), simulated at its three costs.

Three routers see traffic to three hosts; tuples are one byte, windows half a second. The paper derives
100.1, 54.03 and 0.07 bytes/s for its centralized, distributed and partitioned schemes.

Table 1's rates of single values differ by four orders of magnitude, so the schemes are simulated for
different times, each long enough to count some thousands of bytes; tuples that cross no link are left out
(`site_draws`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from watersmeet.lab.wan.advice.draws import Pruning, draw_arrivals
from watersmeet.lab.wan.network import SECOND_US
from watersmeet.lab.wan.pmjoin.pmjoin import PmjoinNetwork
from watersmeet.plan.sites.pmjoin.pmjoin import PmjoinPlan, plan_centralized, plan_distributed, plan_pmjoin
from watersmeet.plan.statistics.rate_model import rate_model
from watersmeet.plan.statistics.statistics import AttributeStatistics, Statistics, StreamStatistics
from watersmeet.query import (
    Attribute,
    AttributeClass,
    Column,
    Input,
    JoinGraph,
    Query,
    Stream,
    column_expr,
    range_us,
)

RATES = {  # Table 1: tuples/s of the values a, b and c
    "s1": {"a": 0.1, "b": 0.1, "c": 100.0},
    "s2": {"a": 0.03, "b": 50.0, "c": 0.04},
    "s3": {"a": 50.0, "b": 0.01, "c": 0.02},
}
SCHEMES = ("centralized", "distributed", "pmjoin")
PAPER_COSTS = {"centralized": 100.1, "distributed": 54.03, "pmjoin": 0.07}


@dataclass(frozen=True)
class SchemeCost:
    """One scheme's bytes/s, modelled and simulated, and for how long."""

    modelled: float
    simulated: float
    seconds: float


def example_1() -> tuple[Query, Statistics]:
    """The query, and Table 1 as statistics."""
    columns = (Column("dest", "string"), Column("ts", "timestamp"))
    streams = {name: Stream(name, columns, "ts", site=f"n{name[1]}") for name in RATES}
    graph = JoinGraph(
        tuple(RATES),
        (AttributeClass(tuple(Attribute(n, column_expr(n, "dest", "string")) for n in RATES), "string"),),
    )
    inputs = tuple(Input(name, stream, range_us(SECOND_US // 2)) for name, stream in streams.items())
    known = {
        name: StreamStatistics(
            sum(rates.values()),
            tuple_bytes=1.0,
            attributes={"dest": AttributeStatistics(len(rates), tuple(rates.items()))},
        )
        for name, rates in RATES.items()
    }
    return Query(inputs, graph, ()), Statistics(known)


def plan_scheme(scheme: str) -> PmjoinPlan:
    """The plan of one scheme; PMJoin with a partition for each value."""
    query, statistics = example_1()
    match scheme:
        case "centralized":
            return plan_centralized(query, statistics)
        case "distributed":
            return plan_distributed(query, statistics)
        case _:
            return plan_pmjoin(query, statistics, partitions=3)


def simulate_scheme(scheme: str, seconds: float, *, seed: int = 0) -> SchemeCost:
    """Runs one scheme for a while."""
    query, statistics = example_1()
    plan = plan_scheme(scheme)
    network = PmjoinNetwork(query, plan.root, keep_answers=False, seed=seed)
    arrivals = draw_arrivals(
        query,
        rate_model(query, statistics),
        seconds,
        np.random.default_rng(seed),
        pruning=Pruning(network.decides_by, network.crosses),
    )
    run = network.run(arrivals, until_us=round(seconds * SECOND_US))
    return SchemeCost(plan.cost_bytes_per_s, run.bytes_per_s, seconds)

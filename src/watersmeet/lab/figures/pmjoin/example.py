"""PMJoin's Example 1 and figure 1 (DASFAA 2006, section 1, Table 1): three schemes, modelled and simulated.

Three routers see traffic to three hosts; tuples are one byte, windows half a second. The paper derives
100.1, 54.03 and 0.07 bytes/s for its centralized, distributed and partitioned schemes.

Table 1's rates of single values differ by four orders of magnitude, so the schemes are simulated for
different times, each long enough to count some thousands of bytes; tuples that cross no link are left out
(wan/draws.py).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from watersmeet.lab.figures.figure import Claim, FigureResult
from watersmeet.lab.figures.registry import figure
from watersmeet.lab.figures.runners import Runner
from watersmeet.lab.figures.svg_chart import Panel, Series
from watersmeet.lab.simulation import SECOND_US, equality, join_query
from watersmeet.lab.wan.draws import Pruning, draw_arrivals
from watersmeet.lab.wan.pmjoin.network import PmjoinNetwork
from watersmeet.plan.sites.pmjoin.pmjoin import PmjoinPlan, plan_centralized, plan_distributed, plan_pmjoin
from watersmeet.plan.statistics.rate_model import rate_model
from watersmeet.plan.statistics.statistics import AttributeStatistics, Statistics, StreamStatistics
from watersmeet.query import Column, Input, Query, Stream, range_us

RATES = {  # Table 1: tuples/s of the values a, b and c
    "s1": {"a": 0.1, "b": 0.1, "c": 100.0},
    "s2": {"a": 0.03, "b": 50.0, "c": 0.04},
    "s3": {"a": 50.0, "b": 0.01, "c": 0.02},
}
SCHEMES = ("centralized", "distributed", "pmjoin")
CLOSE = 0.05  # how far a simulated cost may be from the modelled one
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
    query = join_query(
        [Input(name, stream, range_us(SECOND_US // 2)) for name, stream in streams.items()],
        [equality(*((name, "dest") for name in RATES), type_="string")],
    )
    known = {
        name: StreamStatistics(
            sum(rates.values()),
            tuple_bytes=1.0,
            attributes={"dest": AttributeStatistics(len(rates), tuple(rates.items()))},
        )
        for name, rates in RATES.items()
    }
    return query, Statistics(known)


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


def run_scheme(task: tuple[str, float, int]) -> SchemeCost:
    """A scheme, for some seconds, with a seed."""
    scheme, seconds, seed = task
    return simulate_scheme(scheme, seconds, seed=seed)


@figure("pmjoin-1", "PMJoin, Figure 1 and Example 1: communication cost of three schemes")
def pmjoin_1(quick: bool, seed: int, runner: Runner) -> FigureResult:
    seconds = dict(zip(SCHEMES, (100.0, 200.0, 100_000.0) if quick else (1000.0, 2000.0, 1e6), strict=True))
    found = dict(zip(SCHEMES, runner([(s, seconds[s], seed) for s in SCHEMES], run_scheme), strict=True))
    claims = [
        Claim(
            f"{scheme} costs {PAPER_COSTS[scheme]:g} bytes/s, modelled and simulated (within {CLOSE:.0%})",
            abs(cost.modelled / PAPER_COSTS[scheme] - 1) < 0.01
            and abs(cost.simulated / cost.modelled - 1) <= CLOSE,
            {
                "modelled": round(cost.modelled, 4),
                "simulated": round(cost.simulated, 4),
                "seconds": cost.seconds,
            },
        )
        for scheme, cost in found.items()
    ]
    panel = Panel(
        "Example 1",
        ", ".join(f"{n} {scheme}" for n, scheme in enumerate(SCHEMES, start=1)),
        "bytes a second",
        [
            Series("modelled", (1, 2, 3), [cost.modelled for cost in found.values()]),
            Series("simulated", (1, 2, 3), [cost.simulated for cost in found.values()]),
        ],
        kind="bar",
        log_y=True,
    )
    return FigureResult("pmjoin-1", {"seconds": seconds, "seed": seed}, (panel,), tuple(claims))

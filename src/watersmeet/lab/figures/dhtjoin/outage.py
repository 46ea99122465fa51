"""The scenario of DHTJoin's Figures 1(b) and 5: eight nodes, x ⋈ y ⋈ z, and the source of z down for a while.

Extended version, sections 3.3.2 and 6.2: X.b = Y.b and Y.c = Z.c, streams x, y and z entering at nodes 7, 6
and 3, the query at node 0, plan (X ⋈ Y) ⋈ Z. While z is down, results of X ⋈ Y are made and sent in vain.

The windows are shorter than the paper's 50 s and values uniform, so that an x meets one y on average: with
400 tuples a second, 50 s and 1000 skewed values it would meet 340, and every second would bring 270,000
partial results.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from watersmeet.lab.overlay.chord.stable_ring import StableRing
from watersmeet.lab.overlay.dhtjoin.alerts import DetectionPolicy
from watersmeet.lab.overlay.dhtjoin.network import DhtJoinNetwork, QueryArrival, TupleArrival, start_dhtjoin
from watersmeet.lab.overlay.dhtjoin.protocol import Settings
from watersmeet.lab.simulation import SECOND_US, constant_delay, equality, join_query
from watersmeet.oracle.oracle import Tuple
from watersmeet.plan.statistics.statistics import Statistics, StreamStatistics
from watersmeet.query import Column, Input, Output, Query, Stream, column_expr, range_us

SOURCES = {"x": 7, "y": 6, "z": 3}
HOP_US = 10_000


@dataclass(frozen=True, kw_only=True)
class Outage:
    """One run: how long z is down, and after how much silence its consumers suspend the others, if ever."""

    inactive_s: float
    silent_s: float | None
    tuples_per_s: float = 400.0
    window_s: float = 5.0
    before_s: float = 10.0
    after_s: float = 10.0
    seed: int = 0

    @property
    def values(self) -> int:
        """As many as a window has tuples: then a tuple meets one of another stream."""
        return round(self.tuples_per_s * self.window_s)


@dataclass(frozen=True)
class OutageResult:
    """The messages and results of a run; a partial result is wasted if it is in no answer."""

    messages: int
    wasted: int
    answers: int


def q2(window_s: float) -> Query:
    """The papers' example of a type-2 query, with the ids of x and y to distinguish partial results."""
    columns = tuple(Column(name, "bigint") for name in ("id", "b", "c"))
    window = range_us(round(window_s * SECOND_US))
    return join_query(
        [Input(alias, Stream(alias, columns), window) for alias in "xyz"],
        [equality(("x", "b"), ("y", "b")), equality(("y", "c"), ("z", "c"))],
        [Output(alias, column_expr(alias, "id", "bigint")) for alias in "xy"],
    )


def run_outage(outage: Outage) -> OutageResult:
    """Run the scenario and count."""
    detection = None
    if outage.silent_s is not None:
        detection = DetectionPolicy(SECOND_US // 2, round(outage.silent_s * SECOND_US), SECOND_US // 2)
    run = start_dhtjoin(
        StableRing(range(8), 3),
        Settings(delivery_us=4 * HOP_US, detection=detection),
        seed=outage.seed,
        delay=constant_delay(HOP_US),
    )
    # With z by far the fastest, the planner takes the paper's plan: x and y meet first.
    known = Statistics({name: StreamStatistics(rate) for name, rate in (("x", 1.0), ("y", 1.0), ("z", 99.0))})
    run.submit_at(QueryArrival(0, 0, "q2", q2(outage.window_s)), known)
    down_us = SECOND_US + round(outage.before_s * SECOND_US)
    up_us = down_us + round(outage.inactive_s * SECOND_US)
    end_us = up_us + round(outage.after_s * SECOND_US)
    _insert_all(run, outage, end_us)
    stopped = run.protocol.node(SOURCES["z"]).stopped
    run.overlay.simulator.at(down_us, stopped.add, "z")
    run.overlay.simulator.at(up_us, stopped.discard, "z")
    run.overlay.run(until_us=end_us + SECOND_US)
    sent = sum(
        sum(window.arrived.values())
        for node in run.protocol.nodes.values()
        for lane, window in node.windows.items()
        if lane not in {f"{name}.{column}:bigint" for name in SOURCES for column in "bc"}
    )
    used = len(set(run.answers["q2"]))
    return OutageResult(run.indexing_traffic, sent - used, len(run.answers["q2"]))


def _insert_all(run: DhtJoinNetwork, outage: Outage, end_us: int) -> None:
    """All three streams at a constant rate from one second on, when the query is known."""
    rng = random.Random(f"{outage.seed} outage")
    step_us = round(SECOND_US / outage.tuples_per_s)
    for number, at_us in enumerate(range(SECOND_US, end_us, step_us)):
        for name, node in SOURCES.items():
            values = {"id": number, "b": rng.randrange(outage.values), "c": rng.randrange(outage.values)}
            run.insert_at(TupleArrival(at_us, node, name, Tuple(at_us, values)))

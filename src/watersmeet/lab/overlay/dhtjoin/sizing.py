"""Completeness measured: what share of the answers DHTJoin finds when windows do not fit in memory.

DHTJoin, extended version, section 5, whose equation (11) predicts it. The scenario is the analysis's own:
streams of a constant rate joined on one attribute of uniform values, spread evenly over the nodes, each of
which has room for a fixed number of tuples of each stream.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from watersmeet.lab.overlay.chord.stable import StableRing
from watersmeet.lab.overlay.dhtjoin.dhtjoin import Settings
from watersmeet.lab.overlay.dhtjoin.run import start_dhtjoin
from watersmeet.lab.overlay.dhtjoin.window import Shedding
from watersmeet.lab.overlay.dhtjoin.workload import SECOND_US, QueryArrival, TupleArrival
from watersmeet.oracle.oracle import Tuple
from watersmeet.plan.sizing.completeness import StreamDemand
from watersmeet.plan.statistics.statistics import Statistics
from watersmeet.query import (
    Attribute,
    AttributeClass,
    Column,
    Expr,
    Input,
    JoinGraph,
    Output,
    Query,
    Stream,
    column_expr,
    range_us,
)

BITS = 32


@dataclass(frozen=True)
class Sizing:
    """One run: nodes, and the memory of each; None for enough."""

    nodes: int
    memory_tuples: int | None
    shedding: Shedding = "random"
    ways: int = 2
    tuples_per_s: float = 300.0
    window_s: float = 10.0
    windows: int = 3  # how many windows long it runs; the first only fills memory
    seed: int = 0

    @property
    def window_tuples(self) -> int:
        """W_i * lambda_i."""
        return round(self.window_s * self.tuples_per_s)

    def demands(self) -> list[StreamDemand]:
        """The scenario as equation (11) sees it."""
        return [StreamDemand(f"s{n}", self.window_tuples, self.memory_tuples) for n in range(self.ways)]


def count_answers(sizing: Sizing) -> int:
    """The answers found after the first window."""
    even = [(1 << BITS) * n // sizing.nodes for n in range(sizing.nodes)]
    settings = Settings(memory_tuples=sizing.memory_tuples, shedding=sizing.shedding)
    run = start_dhtjoin(StableRing(even, BITS), settings, seed=sizing.seed)
    query = _query(sizing)
    run.submit_at(QueryArrival(0, 0, "q", query), Statistics())
    # Two generators, so that the tuples are the same whatever the number of nodes.
    rng, where = random.Random(f"{sizing.seed} values"), random.Random(f"{sizing.seed} nodes")
    step_us = round(SECOND_US / sizing.tuples_per_s)
    end_us = round(sizing.windows * sizing.window_s * SECOND_US)
    for at_us in range(0, end_us, step_us):
        for item in query.inputs:
            # As many values as a window has tuples: one partner in each other stream, on average.
            values = {"k": rng.randrange(sizing.window_tuples)}
            node = where.randrange(sizing.nodes)
            run.insert_at(TupleArrival(at_us, node, item.stream.name, Tuple(at_us, values)))
    run.overlay.run()
    filled_us = sizing.window_s * SECOND_US
    return sum(answer_time >= filled_us for (answer_time,) in run.answers["q"])


def _query(sizing: Sizing) -> Query:
    window = range_us(round(sizing.window_s * SECOND_US))
    aliases = tuple(f"s{n}" for n in range(sizing.ways))
    sides = tuple(Attribute(alias, column_expr(alias, "k", "bigint")) for alias in aliases)
    return Query(
        inputs=tuple(Input(alias, Stream(alias, (Column("k", "bigint"),)), window) for alias in aliases),
        graph=JoinGraph(aliases, (AttributeClass(sides, "bigint"),)),
        select=(Output("answer_time", Expr("answer_time", uses_answer_time=True)),),
    )

"""How many nodes a query reaches while nodes fail: the tree alone, and the tree complemented by gossip.

DHTJoin, extended version, sections 4.1 and 6.3. Nodes fail silently at random times; pointers to them stay in
the others' tables until the next stabilisation. A query that the tree sends to a failed node does not reach
the arc that node would have answered for. Coverage is taken, for each query, over the nodes alive at the end.

Queries come five times as often as the paper's one in 100 s on average: they do not touch each other, so this
only gives more samples.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from watersmeet.lab.figures.dhtjoin.workload import Workload, random_query, statistics
from watersmeet.lab.overlay.chord.living_ring import LivingRing
from watersmeet.lab.overlay.chord.stable_ring import StableRing
from watersmeet.lab.overlay.dhtjoin.network import DhtJoinNetwork, QueryArrival, start_dhtjoin
from watersmeet.lab.overlay.dhtjoin.protocol import Settings
from watersmeet.lab.simulation import SECOND_US, constant_delay

BITS = 24
HOP_US = 10_000


@dataclass(frozen=True, kw_only=True)
class Churn:
    """One run: nodes that fail, queries that come, and whether gossip complements the tree."""

    failures_per_s: float
    with_gossip: bool
    nodes: int = 1024
    duration_s: float = 300.0
    queries_per_s: float = 0.05
    stabilise_every_s: float = 60.0
    gossip_every_s: float = 1.0
    seed: int = 0


@dataclass(frozen=True)
class Coverage:
    """The share of the living nodes that know each query, and what it took."""

    shares: tuple[float, ...]
    messages_per_query: float
    failed: int

    @property
    def mean(self) -> float:
        return sum(self.shares) / len(self.shares)


def run_churn(churn: Churn) -> Coverage:
    """Run the scenario and count the nodes that know each query."""
    ring = LivingRing(StableRing.of(churn.nodes, BITS, name=f"seed {churn.seed} node"))
    period = round(churn.gossip_every_s * SECOND_US) if churn.with_gossip else None
    settings = Settings(gossip_every_us=period)
    run = start_dhtjoin(ring, settings, seed=churn.seed, delay=constant_delay(HOP_US))
    end_us = round(churn.duration_s * SECOND_US)
    rng = random.Random(f"{churn.seed} churn")
    failed = _schedule_failures(run, churn, end_us, rng)
    for at_us in range(0, end_us, round(churn.stabilise_every_s * SECOND_US)):
        run.overlay.simulator.at(at_us, ring.stabilise, priority=-2)
    asked = _schedule_queries(run, churn, end_us, rng)
    run.overlay.run()
    alive = ring.nodes
    shares = [
        sum(qid in run.protocol.node(node).table.entries for node in alive) / len(alive) for qid in asked
    ]
    return Coverage(tuple(shares), run.indexing_traffic / len(asked), len(failed))


def _schedule_failures(run: DhtJoinNetwork, churn: Churn, end_us: int, rng: random.Random) -> list[int]:
    """Nodes that fail, each once, at the times of a Poisson process; never more than half of all."""
    victims = rng.sample(range(churn.nodes), churn.nodes // 2)
    failed: list[int] = []
    at_s = 0.0
    while churn.failures_per_s and len(failed) < len(victims):
        at_s += rng.expovariate(churn.failures_per_s)
        if at_s * SECOND_US >= end_us:
            break
        failed.append(victims[len(failed)])
        run.overlay.simulator.at(round(at_s * SECOND_US), run.overlay.fail, failed[-1])
    return failed


def _schedule_queries(run: DhtJoinNetwork, churn: Churn, end_us: int, rng: random.Random) -> list[str]:
    """Queries as a Poisson process, each at a node alive by then."""
    workload = Workload(nodes=churn.nodes)
    known = statistics(workload)
    asked: list[str] = []
    at_s = rng.uniform(0, 1 / churn.queries_per_s)

    def ask(qid: str) -> None:
        alive = run.overlay.ring.nodes
        query = random_query(workload, rng)
        run.submit_at(QueryArrival(run.overlay.now_us, rng.choice(list(alive)), qid, query), known)

    while at_s * SECOND_US < end_us:
        asked.append(f"q{len(asked)}")
        run.overlay.simulator.at(round(at_s * SECOND_US), ask, asked[-1])
        at_s += rng.expovariate(churn.queries_per_s)
    return asked

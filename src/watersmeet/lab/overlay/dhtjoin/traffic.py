"""DHTJoin and RJoin on the same workload: the messages each needs, and that both find the same answers."""

from __future__ import annotations

import random
from dataclasses import dataclass

from watersmeet.errors import WatersmeetError
from watersmeet.lab.overlay.chord.stable import StableRing
from watersmeet.lab.overlay.dhtjoin.dissemination import spread_by_gossip
from watersmeet.lab.overlay.dhtjoin.run import INDEXING, run_workload
from watersmeet.lab.overlay.dhtjoin.workload import Workload, query_arrivals, streams, tuple_arrivals
from watersmeet.lab.overlay.rjoin.network import RJoinNetwork
from watersmeet.lab.overlay.rjoin.settings import Settings as RJoinSettings


@dataclass(frozen=True)
class TrafficTask:
    """A workload to run both methods on; Euro-Par disseminates by gossip, the extended version by a tree."""

    workload: Workload
    by_gossip: bool = False


@dataclass(frozen=True)
class Traffic:
    """Hops without those of answers: in all, and what they were for."""

    dhtjoin: dict[str, int]
    rjoin: dict[str, int]
    queries: int
    answers: int

    @property
    def dhtjoin_total(self) -> int:
        return sum(self.dhtjoin.values())

    @property
    def rjoin_total(self) -> int:
        return sum(self.rjoin.values())


def measure_traffic(task: TrafficTask) -> Traffic:
    """Run the workload by both methods; they must agree on how many answers there are."""
    workload = task.workload
    run = run_workload(workload)
    spent = {kind: run.traffic[kind] for kind in INDEXING if run.traffic[kind]}
    queries = query_arrivals(workload)
    if task.by_gossip:
        rng = random.Random(workload.seed)
        ring = StableRing.of(workload.nodes)
        del spent["disseminate"]
        spent["gossip"] = sum(spread_by_gossip(ring, q.node, "m_opt", rng).messages for q in queries)
    rjoin = _run_rjoin(workload)
    answers = sum(map(len, run.answers.values()))
    if answers != rjoin.answers.total:
        raise WatersmeetError(f"DHTJoin found {answers} answers and RJoin {rjoin.answers.total}")
    others = {kind: hops for kind, hops in rjoin.counters.traffic.items() if kind != "answer"}
    return Traffic(spent, others, len(queries), answers)


def _run_rjoin(workload: Workload) -> RJoinNetwork:
    """RJoin as its paper has it: rates of incoming tuples decide where queries wait."""
    settings = RJoinSettings(strategy="ric", keep_answers=False)
    network = RJoinNetwork(StableRing.of(workload.nodes), settings, seed=workload.seed)
    by_name = {stream.name: stream for stream in streams(workload)}
    for query in query_arrivals(workload):
        network.submit(query.query, node=query.node, at_us=query.at_us)
    for arrival in tuple_arrivals(workload):
        values = arrival.tuple_.values
        network.publish(by_name[arrival.stream], values, node=arrival.node, at_us=arrival.at_us)
    network.run()
    return network

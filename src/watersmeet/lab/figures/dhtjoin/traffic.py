"""DHTJoin and RJoin on the same workload: the messages each needs, and that both find the same answers."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any

from watersmeet.errors import WatersmeetError
from watersmeet.lab.figures.dhtjoin.workload import (
    Workload,
    query_arrivals,
    statistics,
    streams,
    tuple_arrivals,
)
from watersmeet.lab.figures.figure import Claim, FigureResult, judged
from watersmeet.lab.figures.runners import Runner
from watersmeet.lab.figures.svg_chart import Panel, Series
from watersmeet.lab.overlay.chord.stable_ring import StableRing
from watersmeet.lab.overlay.dhtjoin.dissemination import spread_by_gossip
from watersmeet.lab.overlay.dhtjoin.network import INDEXING, DhtJoinNetwork, start_dhtjoin
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

    @property
    def rewriting(self) -> int:
        """RJoin's hops for everything but the tuples themselves."""
        return self.rjoin_total - self.rjoin.get("tuple", 0)


def measure_traffic(task: TrafficTask) -> Traffic:
    """Run the workload by both methods; they must agree on how many answers there are."""
    workload = task.workload
    run = run_dhtjoin(workload)
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


def run_dhtjoin(workload: Workload) -> DhtJoinNetwork:
    """The whole workload by DHTJoin, to its end."""
    network = start_dhtjoin(StableRing.of(workload.nodes), seed=workload.seed)
    known = statistics(workload)
    for query in query_arrivals(workload):
        network.submit_at(query, known)
    for arrival in tuple_arrivals(workload):
        network.insert_at(arrival)
    network.overlay.run()
    return network


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


def traffic_figure(
    name: str,
    tasks: Sequence[TrafficTask],
    x: Sequence[float],
    x_label: str,
    runner: Runner,
    claims: Callable[[Sequence[Traffic]], Sequence[Claim]],
) -> FigureResult:
    """Both methods' traffic over one parameter, and what DHTJoin's was for."""
    measured = runner(tasks, measure_traffic)
    ratios = [one.rjoin_total / one.dhtjoin_total for one in measured]
    below = judged(
        "DHTJoin's traffic is below RJoin's at every point",
        min(ratios) > 1,
        {"RJoin / DHTJoin": [round(ratio, 2) for ratio in ratios]},
        "partial results outgrow what is saved on tuples no query needs",
    )
    kinds = sorted({kind for one in measured for kind in one.dhtjoin})
    panels = (
        Panel(
            "network traffic",
            x_label,
            "messages",
            [
                Series("RJoin", x, [one.rjoin_total for one in measured]),
                Series("DHTJoin", x, [one.dhtjoin_total for one in measured]),
            ],
        ),
        Panel(
            "DHTJoin by purpose",
            x_label,
            "messages",
            [Series(kind, x, [one.dhtjoin.get(kind, 0) for one in measured]) for kind in kinds],
        ),
    )
    parameters: dict[str, Any] = asdict(tasks[0].workload) | {
        "varied": {"by": x_label, "over": list(x)},
        "queries": [one.queries for one in measured],
        "answers": [one.answers for one in measured],
    }
    return FigureResult(name, parameters, panels, (below, *claims(measured)))


def tuple_rates(quick: bool) -> tuple[float, ...]:
    """Tuples a second, as both papers vary them."""
    return (10.0, 20.0, 30.0) if quick else (10.0, 20.0, 30.0, 40.0, 50.0)


def query_rates(quick: bool) -> tuple[float, ...]:
    """Queries a second, as both papers vary them."""
    return (0.02, 0.06, 0.1) if quick else (0.02, 0.04, 0.06, 0.08, 0.1)


def vary(base: Workload, name: str, values: Sequence[float], *, by_gossip: bool = False) -> list[TrafficTask]:
    """The same workload with one parameter varied."""
    return [TrafficTask(replace(base, **{name: value}), by_gossip) for value in values]  # type: ignore[arg-type]


def grows(text: str, y: Sequence[float]) -> Claim:
    """That a line ends higher than it begins and never falls by more than a twentieth."""
    holds = y[-1] > y[0] and all(after >= 0.95 * before for before, after in pairwise(y))
    return Claim(text, holds, [round(value, 4) for value in y])

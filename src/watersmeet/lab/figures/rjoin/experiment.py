"""One run of RJoin under the paper's workload, measured as the paper measures (section 8).

Before the queries some tuples are published so that rates of incoming tuples can be known at all; counting
starts with the first tuple after the queries. Network traffic, query-processing load and storage load are
taken at checkpoints, in all and node by node.
"""

from __future__ import annotations

import gc
from collections import Counter
from dataclasses import dataclass, field

from watersmeet.lab.figures.rjoin.workload import TICK_US, Workload
from watersmeet.lab.overlay.chord.stable_ring import StableRing
from watersmeet.lab.overlay.id_movement import balance_ids
from watersmeet.lab.overlay.rjoin.indexing import Strategy
from watersmeet.lab.overlay.rjoin.network import RJoinNetwork
from watersmeet.lab.overlay.rjoin.settings import Settings
from watersmeet.query import NEVER


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """Everything a run depends on; two equal ones give equal results."""

    nodes: int = 1000
    queries: int = 20_000
    checkpoints: tuple[int, ...] = (400,)  # numbers of tuples after which to measure
    strategy: Strategy = "ric"
    warm_up: int = 400
    workload: Workload = field(default_factory=Workload)
    balance_every: int | None = None  # tuples between two rounds of id movement
    replicas: int = 1
    pairs_for_rewritten: bool = False
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """The state of a run after some tuples: totals, and the loads of the nodes from the highest down."""

    tuples: int
    traffic: dict[str, int]  # messages by kind since the first measured tuple
    indexing_traffic: dict[str, int]  # messages by kind spent on indexing the input queries
    processing: list[int]
    storage: list[int]
    stored: int  # items stored since the first measured tuple, dropped ones included
    answers: int
    alone: dict[str, int]  # `traffic` if every query were a message of its own that looks up its own way

    @property
    def messages(self) -> int:
        """All messages but those that bring answers home, which no strategy can save."""
        return sum(count for kind, count in self.traffic.items() if kind != "answer")

    @property
    def messages_alone(self) -> int:
        """The same where nothing shares a message or a way."""
        return sum(count for kind, count in self.alone.items() if kind != "answer")


def run_experiment(experiment: Experiment) -> list[Snapshot]:
    """Runs it and takes a snapshot at each checkpoint."""
    collecting = gc.isenabled()
    gc.disable()  # millions of live objects and no cycles among them: collections only cost time
    try:
        return _run(experiment)
    finally:
        if collecting:
            gc.enable()


def _run(experiment: Experiment) -> list[Snapshot]:
    workload = experiment.workload
    settings = Settings(
        strategy=experiment.strategy,
        altt_us=NEVER if experiment.pairs_for_rewritten else 0,
        pairs_for_rewritten=experiment.pairs_for_rewritten,
        replicas=experiment.replicas,
        keep_answers=False,
    )
    network = RJoinNetwork(StableRing.of(experiment.nodes), settings, seed=experiment.seed)
    network.counters.alone = Counter()
    for stream, values in workload.tuples(experiment.warm_up, "warm-up"):
        network.publish(stream, values, at_us=network.now_us + TICK_US)
        network.run()
    network.run(network.now_us + TICK_US)
    network.rjoin.forget_tuples_before(network.now_us)
    network.rjoin.sweep(network.now_us)
    network.counters.reset()
    for query in workload.queries(experiment.queries):
        network.submit(query)
    network.run()
    indexing = dict(network.counters.traffic)
    network.counters.reset()
    network.counters.storage[:] = 0
    return _publish(network, experiment, indexing)


def _publish(network: RJoinNetwork, experiment: Experiment, indexing: dict[str, int]) -> list[Snapshot]:
    snapshots, last = [], max(experiment.checkpoints)
    for number, (stream, values) in enumerate(experiment.workload.tuples(last), start=1):
        network.publish(stream, values, at_us=network.now_us + TICK_US)
        network.run()
        if experiment.balance_every and number % experiment.balance_every == 0:
            balance_ids(
                network.overlay, network.rjoin.load_by_key(network.now_us), seed=experiment.seed + number
            )
        if number in experiment.checkpoints:
            snapshots.append(_snapshot(network, number, indexing))
    return snapshots


def _snapshot(network: RJoinNetwork, tuples: int, indexing: dict[str, int]) -> Snapshot:
    network.rjoin.sweep(network.now_us + 1)
    counters = network.counters
    return Snapshot(
        tuples=tuples,
        traffic=dict(counters.traffic),
        indexing_traffic=indexing,
        processing=sorted(counters.processing.tolist(), reverse=True),
        storage=sorted(counters.storage.tolist(), reverse=True),
        stored=int(counters.stored.sum()),
        answers=network.answers.total,
        alone=dict(counters.alone or {}),
    )

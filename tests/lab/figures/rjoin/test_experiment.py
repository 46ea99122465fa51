"""RJoin's experiments (EDBT 2008, section 8) at their smallest: what the runs must show."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from tests.lab.compared import Compared
from watersmeet.lab.figures.rjoin import panels
from watersmeet.lab.figures.rjoin.experiment import Experiment, Snapshot, run_experiment
from watersmeet.lab.figures.rjoin.workload import Workload
from watersmeet.lab.overlay.chord import StableRing
from watersmeet.lab.overlay.rjoin import RJoinNetwork, Settings, Strategy
from watersmeet.oracle import oracle

SMALL = Experiment(nodes=50, queries=60, checkpoints=(10, 40), warm_up=20)


@cache
def by_strategy(strategy: Strategy) -> Snapshot:
    """The same workload under one strategy, after 150 tuples."""
    return run_experiment(replace(SMALL, queries=300, checkpoints=(150,), strategy=strategy))[0]


def test_strategies_agree_on_answers_and_rates_save_work() -> None:
    """Figure 2: worst > random > RJoin in load; the answers are the same."""
    runs = [by_strategy("worst"), by_strategy("random"), by_strategy("ric")]
    assert len({run.answers for run in runs}) == 1
    assert runs[0].answers > 0
    loads = [sum(run.processing) for run in runs]
    assert loads[0] > loads[1] > loads[2]


def test_a_message_a_query_costs_more_where_choices_are_bad() -> None:
    """Figure 2, counted as Procedures 2 and 3 send, without any grouping."""
    worst, ric = by_strategy("worst"), by_strategy("ric")
    assert all(run.messages_alone > run.messages for run in (worst, ric))
    assert ric.alone["ric"] == ric.traffic["ric"], "requests for rates are grouped in both"
    assert worst.messages_alone / ric.messages_alone > worst.messages / ric.messages


def test_only_nodes_with_keys_can_take_part() -> None:
    """Figure 3: how many nodes there are to share the work."""
    experiment = replace(SMALL, nodes=400, checkpoints=(60,), workload=Workload(relations=4, values=10))
    most = panels.nodes_with_keys(experiment)
    assert panels.participants(run_experiment(experiment)[0]) <= most < 400
    assert panels.grows_to([3, 5, 7, 7], 7)
    assert not panels.grows_to([3, 5, 5, 7], 7)
    assert not panels.grows_to([7, 7], 7)


def test_windows_cap_the_storage() -> None:
    """Section 5: what has left the window is forgotten."""
    shared = Workload(value_order="shared")
    bounded, unbounded = (
        run_experiment(replace(SMALL, checkpoints=(150,), workload=replace(shared, window_ticks=ticks)))[0]
        for ticks in (10, None)
    )
    assert sum(bounded.storage) < sum(unbounded.storage)
    assert sum(bounded.processing) < sum(unbounded.processing)


def test_snapshots_add_up() -> None:
    early, late = run_experiment(SMALL)
    assert (early.tuples, late.tuples) == (10, 40)
    assert sum(early.processing) < sum(late.processing)
    assert early.messages < late.messages
    assert len(late.processing) == len(late.storage) == 50
    assert late.processing == sorted(late.processing, reverse=True)


@pytest.mark.parametrize("value_order", ["per attribute", "shared"])
def test_rjoin_workload_answers_are_the_oracles(value_order: Any) -> None:
    """The workload of section 8, small enough for the oracle."""
    workload = Workload(relations=5, attributes=3, values=5, ways=3, value_order=value_order, seed=4)
    queries = list(workload.queries(6))
    tuples = list(workload.tuples(60))
    network = RJoinNetwork(StableRing.of(50), Settings(strategy="ric"))
    numbers = [network.submit(query) for query in queries]
    published: dict[str, list[oracle.Tuple]] = {stream.name: [] for stream in workload.streams()}
    for at_us, (stream, values) in enumerate(tuples):
        network.publish(stream, values, at_us=at_us)
        names = [column.name for column in stream.columns]
        published[stream.name].append(oracle.Tuple(at_us, dict(zip(names, values, strict=True))))
    network.run()
    compared = Compared()
    for number, query in zip(numbers, queries, strict=True):
        compared.same(network.answers.of(number), oracle.emitted(query, published))
    compared.assert_answers(0.5)
    network.rjoin.sweep(network.now_us + 1)
    held = {node: state.items for node, state in network.rjoin.active.items()}
    assert all(network.counters.storage[node] == items for node, items in held.items())
    assert network.counters.sent.sum() == network.counters.traffic.total()


def test_rjoin_id_movement_keeps_answers_and_levels_the_load() -> None:
    base = Experiment(nodes=60, queries=150, checkpoints=(80,), warm_up=40, strategy="first")
    still, moving = run_experiment(base)[0], run_experiment(replace(base, balance_every=5))[0]
    assert moving.answers == still.answers
    assert moving.processing[0] < still.processing[0]
    assert sum(moving.storage) == sum(still.storage)

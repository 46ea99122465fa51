"""DHTJoin's figures made small: fewer nodes and less time for the same simulations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from watersmeet.lab.figures.dhtjoin.outage import Outage
from watersmeet.lab.figures.dhtjoin.traffic import TrafficTask
from watersmeet.lab.figures.dhtjoin.workload import Workload

SMALL = Workload(nodes=32, duration_s=40, tuples_per_s=10, window_s=10, domain=20, queries_per_s=0.05, seed=3)


def small(tasks: Sequence[Any], function: Callable[[Any], Any]) -> list[Any]:
    """Runs a figure's tasks on half the nodes, for half the time or at half the rate."""

    def shrunk(task: Any) -> Any:
        match task:
            case TrafficTask():
                return replace(task, workload=replace(task.workload, nodes=64, duration_s=30))
            case Outage():
                return replace(task, tuples_per_s=20)
        return task

    return [function(shrunk(task)) for task in tasks]

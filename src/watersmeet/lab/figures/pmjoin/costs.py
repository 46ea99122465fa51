"""One point of PMJoin's figures: a random workload, a plan for it, its modelled cost and its simulated one.

A run is simulated as section 4 of the paper does, tuple by tuple between nodes. First the windows are
filled: for the time of the longest window only what an operator keeps is fed. Then everything is, and
counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass, replace
from itertools import chain
from typing import Any

import numpy as np

from watersmeet.lab.figures.pmjoin.workload import (
    HotSpot,
    Likeness,
    SiteJoin,
    SiteStream,
    draw_values,
    join_on_one_attribute,
)
from watersmeet.lab.simulation import SECOND_US
from watersmeet.lab.wan.arrivals import Arrival
from watersmeet.lab.wan.draws import Pruning, draw_arrivals
from watersmeet.lab.wan.pmjoin.network import PmjoinNetwork, PmjoinRun
from watersmeet.plan.sites.plan_tree import PlanNode, cost_bytes_per_s
from watersmeet.plan.sites.pmjoin.pmjoin import Optimizer, partitioned_plan

ENOUGH_PER_S = 2000.0  # tuples; a plan that ships fewer is simulated for longer
LONGER = 50.0  # but no longer than so many times


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A random join on one attribute, as section 4 of the paper describes them; a seed makes it one."""

    streams: int = 10
    values: int = 1000
    likeness: Likeness = "different"
    hot_spot: HotSpot = "contiguous"
    rates_per_s: tuple[float, float] = (10.0, 1000.0)
    windows_s: tuple[float, float] = (10.0, 100.0)
    fast_windows: str = "any"  # or "large", "small": how a stream's window goes with its rate
    nodes: int | None = None  # None: a node for each stream
    seed: int = 0

    def over(self, **changed: Any) -> Setting:
        """The same with some fields changed."""
        return replace(self, **changed)

    def join(self) -> SiteJoin:
        """The streams and the model, drawn."""
        rng = np.random.default_rng(self.seed)
        rates = np.sort(rng.uniform(*self.rates_per_s, self.streams))
        windows = rng.uniform(*self.windows_s, self.streams)
        if self.fast_windows != "any":
            windows = np.sort(windows) if self.fast_windows == "large" else np.sort(windows)[::-1]
        shares = draw_values(self.likeness, self.hot_spot, self.streams, self.values, rng)
        nodes = rng.integers(self.nodes, size=self.streams) if self.nodes else range(self.streams)
        return join_on_one_attribute(
            [
                SiteStream(f"n{node}", float(rate), float(window), row)
                for node, rate, window, row in zip(nodes, rates, windows, shares, strict=True)
            ]
        )


@dataclass(frozen=True)
class CostTask:
    """A plan to be priced, and simulated for a while if `simulated_s` is above 0."""

    setting: Setting
    _: KW_ONLY
    optimizer: Optimizer = "heuristic"
    partitions: int = 1
    partitioning: str = "rate"
    simulated_s: float = 0.0
    counts_routing: bool = False


@dataclass(frozen=True)
class Cost:
    """A plan's cost in tuples shipped a second, modelled and simulated, and its lookups a second."""

    modelled: float
    simulated: float | None = None
    lookups_per_s: float = 0.0


def price_and_simulate(task: CostTask) -> Cost:
    """Plans one join, and runs the plan if asked to."""
    join = task.setting.join()
    plan = partitioned_plan(
        join.model, task.partitions, task.partitioning, optimizer=task.optimizer, seed=task.setting.seed
    )
    modelled = cost_bytes_per_s(plan)
    if not task.simulated_s:
        return Cost(modelled)
    seconds = long_enough(task.simulated_s, modelled)
    run = simulate(join, plan, seconds, seed=task.setting.seed, prune=not task.counts_routing)
    return Cost(modelled, run.bytes_per_s, run.lookups / run.seconds)


def long_enough(seconds: float, modelled: float) -> float:
    """How long to simulate a plan of this cost, so that as much is counted as of costlier ones."""
    return seconds * min(max(ENOUGH_PER_S / max(modelled, 1e-9), 1.0), LONGER)


def simulate(join: SiteJoin, plan: PlanNode, seconds: float, *, seed: int, prune: bool = True) -> PmjoinRun:
    """Runs a plan after its windows have been filled; pruned, tuples that cross no link are left out."""
    network = PmjoinNetwork(join.query, plan, keep_answers=False, seed=seed)
    rng = np.random.default_rng([seed, 1])
    longest_us = max(item.window.duration_us or 0 for item in join.query.inputs)

    def arrivals() -> Iterator[Arrival]:
        stored = Pruning(network.decides_by, network.is_stored)
        crossing = Pruning(network.decides_by, network.crosses) if prune else None
        before = draw_arrivals(join.query, join.model, longest_us / SECOND_US, rng, pruning=stored)
        measured = draw_arrivals(join.query, join.model, seconds, rng, pruning=crossing, start_us=longest_us)
        yield from chain(before, measured)

    until = longest_us + round(seconds * SECOND_US)
    return network.run(arrivals(), measure_from_us=longest_us, until_us=until)

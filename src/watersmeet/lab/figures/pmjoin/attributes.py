"""PMJoin's figure 11 (DASFAA 2006, section 4.3): which joins to partition where attributes differ.

Random queries over streams with different distributions, placed at random on ten nodes. The paper's
heuristic (`find_partition`) is held against a random choice among the same candidates, and against a choice
among those that the heuristic left out.

Readings taken: a query's attributes form a tree. The first joins two to four streams; each further one
joins a stream that is there with one to three new ones, while there are any of the twenty. Every stream has
a distribution of its own for each attribute. Each PMJoin has up to 100 partitions, by rate. Under windows
of 10 to 100 s small ranges leave all joins at one node, where nothing is on one attribute alone; a panel
shows how often.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

import numpy as np

from watersmeet.lab.figures.figure import Claim, FigureResult, judged
from watersmeet.lab.figures.pmjoin.costs import long_enough, simulate
from watersmeet.lab.figures.pmjoin.sweep import agreement_of, rounded
from watersmeet.lab.figures.pmjoin.workload import SiteJoin, SiteStream, draw_values, join_on
from watersmeet.lab.figures.registry import figure
from watersmeet.lab.figures.runners import Runner, run_rows
from watersmeet.lab.figures.svg_chart import Panel, Series
from watersmeet.plan.sites.plan_tree import MJoin, PlanNode, cost_bytes_per_s
from watersmeet.plan.sites.pmjoin.find_partition import Candidate, find_partition, select_partitions
from watersmeet.plan.sites.pmjoin.pmjoin import Partitioner, unpartitioned_plan
from watersmeet.plan.statistics.rate_model import RateModel

STREAMS, NODES, PARTITIONS = 20, 10, 100
PLAIN, HEURISTIC, RANDOM, ALTERNATIVE = "unpartitioned", "heuristic", "random", "alternative"
FASTEST = (
    "the heuristic takes the join with the fastest inputs, which is not always the one whose values differ"
    " most; over few queries chance may favour another"
)
LINES = (PLAIN, HEURISTIC, RANDOM, ALTERNATIVE)


@dataclass(frozen=True)
class QueryTask:
    """One random query under one data range."""

    values: int
    attributes: int
    seed: int
    simulated_s: float = 0.0


@dataclass(frozen=True)
class QueryCosts:
    """The cost of each way to choose, the number of candidates, and the heuristic's cost simulated."""

    costs: dict[str, float]
    candidates: int
    simulated: float | None = None


def draw_query(task: QueryTask) -> SiteJoin:
    """A tree of attributes over some of the streams."""
    rng = np.random.default_rng([task.seed, task.attributes, task.values])
    count = int(rng.integers(2, 5))
    classes = [list(range(count))]
    for _ in range(task.attributes - 1):
        new = min(int(rng.integers(1, 4)), STREAMS - count)
        if new:
            classes.append([int(rng.integers(count)), *range(count, count + new)])
            count += new
    streams = [
        SiteStream(
            f"n{rng.integers(NODES)}", float(rng.uniform(100, 1000)), float(rng.uniform(10, 100)), np.empty(0)
        )
        for _ in range(count)
    ]
    shares = [
        np.array(draw_values("different", "contiguous", len(members), task.values, rng))
        for members in classes
    ]
    return join_on(streams, classes, shares)


def price_choices(task: QueryTask) -> QueryCosts:
    """The cost of one query under every way to choose PMJoins."""
    join = draw_query(task)
    plan = unpartitioned_plan(join.model)
    candidates = find_partition(join.model, plan)
    chosen = select_partitions(candidates)
    rest = [candidate for candidate in candidates if candidate not in chosen]
    rng = np.random.default_rng([task.seed, 7])
    choices = {
        HEURISTIC: chosen,
        RANDOM: select_at_random(candidates, rng),
        ALTERNATIVE: select_partitions(rest),
    }
    plans = {name: _partitioned(join.model, plan, choice) for name, choice in choices.items()}
    costs = {PLAIN: cost_bytes_per_s(plan)} | {name: cost_bytes_per_s(made) for name, made in plans.items()}
    simulated = None
    if task.simulated_s:
        seconds = long_enough(task.simulated_s, costs[HEURISTIC])
        simulated = simulate(join, plans[HEURISTIC], seconds, seed=task.seed).bytes_per_s
    return QueryCosts(costs, len(candidates), simulated)


def select_at_random(candidates: list[Candidate], rng: np.random.Generator) -> list[Candidate]:
    """The selection with its first two steps replaced: any candidate, then whatever still goes with it."""
    waiting, chosen = list(candidates), []
    while waiting:
        taken = waiting.pop(int(rng.integers(len(waiting))))
        chosen.append(taken)
        waiting = [other for other in waiting if not _related(taken, other)]
    return chosen


def _related(one: Candidate, other: Candidate) -> bool:
    """Whether one is an input of the other, so that both cannot be partitioned."""
    return any(node is other.operator for node in one.inputs) or any(
        node is one.operator for node in other.inputs
    )


def _partitioned(model: RateModel, plan: PlanNode, chosen: list[Candidate]) -> PlanNode:
    partitioner = Partitioner(model, chosen, PARTITIONS, "rate", "heuristic", 0)
    return partitioner.rebuild(plan, None) if isinstance(plan, MJoin) else plan


@figure("pmjoin-11", "PMJoin, Figure 11: joins on different attributes")
def pmjoin_11(quick: bool, seed: int, runner: Runner) -> FigureResult:
    ranges = (10_000, 30_000) if quick else (1000, 3000, 10_000, 30_000)
    queries = 8 if quick else 200
    seconds = 1.0 if quick else 5.0
    tasks = {
        values: [
            QueryTask(values, 3 + n % 5, seed + n, seconds if n < 2 and values <= 10_000 else 0.0)
            for n in range(queries)
        ]
        for values in ranges
    }
    rows = list(run_rows(runner, tasks, price_choices).values())
    means = {line: [fmean(result.costs[line] for result in row) for row in rows] for line in LINES}
    pairs = [(r.costs[HEURISTIC], r.simulated) for row in rows for r in row if r.simulated is not None]
    parameters = {
        "streams": STREAMS,
        "nodes": NODES,
        "queries": queries,
        "ranges": ranges,
        "partitions": PARTITIONS,
        "seed": seed,
    }
    claims = (*_claims_11(means), agreement_of(pairs))
    return FigureResult("pmjoin-11", parameters, _panels_11(ranges, means, rows), claims)


def _claims_11(means: Mapping[str, Sequence[float]]) -> tuple[Claim, ...]:
    """How the choices compare, range by range."""
    by_range = [dict(zip(LINES, costs, strict=True)) for costs in zip(*means.values(), strict=True)]
    saved = [1 - costs[HEURISTIC] / costs[PLAIN] for costs in by_range]
    best = all(costs[HEURISTIC] <= min(costs[RANDOM], costs[ALTERNATIVE]) for costs in by_range)
    shown = {line: rounded(row) for line, row in means.items()}
    return (
        Claim(
            "without partitioning the cost is the highest, for every range",
            all(costs[PLAIN] >= max(costs.values()) for costs in by_range),
            shown,
        ),
        Claim(
            "partitioning saves a larger part with larger ranges",
            all(before <= after for before, after in pairwise(saved)),
            rounded(saved, 4),
        ),
        judged(
            "the heuristic is better than a random choice, and than what it left out, for every range",
            best,
            shown,
            FASTEST,
        ),
    )


def _panels_11(
    ranges: Sequence[int], means: Mapping[str, Sequence[float]], rows: Sequence[Sequence[QueryCosts]]
) -> tuple[Panel, ...]:
    """The costs, and how often there was anything to choose."""
    room = [fmean(result.candidates > 0 for result in row) for row in rows]
    return (
        Panel(
            "different attributes",
            "data range",
            "tuples a second",
            [Series(line, ranges, row) for line, row in means.items()],
            log_x=True,
            log_y=True,
        ),
        Panel(
            "queries with something to partition",
            "data range",
            "part of the queries",
            [Series("part", ranges, room)],
            log_x=True,
        ),
    )

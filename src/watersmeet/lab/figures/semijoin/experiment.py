"""One measurement of the semijoin experiments: a plan run on synthetic streams, beside its modelled cost.

The streams run until every window is full; then the intervals of the measured time are counted, by the
interval a message or a piece of work belongs to. Execution time is the paper's: transfers and processing of
all sites added up, for each second of stream.

A reading of ours: most settings of the paper offer its links more than they carry (300 tuples of 1250 bytes
a second over 128 kB/s), so a queue would grow without end and no bound on delays hold. The paper adds up
transfer times and bounds delays by 80 ms, which is three latencies; so do we: a message arrives after the
latency, and its transfer is charged.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass

from watersmeet.lab.figures.semijoin.streams import synthetic_feeds, two_streams, window_us
from watersmeet.lab.simulation import SECOND_US
from watersmeet.lab.wan.feed import Feed
from watersmeet.lab.wan.semijoin.run import Settings, execute
from watersmeet.plan.sites.semijoin.cost import JoinSide, Method, join_cost
from watersmeet.plan.sites.semijoin.model import SemijoinModel
from watersmeet.plan.sites.semijoin.plan import SemijoinPlan, SemijoinStep
from watersmeet.plan.statistics.statistics import Link


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A plan's execution time and traffic for each second of stream, simulated and modelled."""

    simulated: float
    modelled: float
    bytes_per_s: float
    modelled_bytes_per_s: float
    messages_per_s: float
    answers_per_s: float
    terms: dict[str, tuple[float, float]]  # by name: modelled, simulated


def delay_bound_us(model: SemijoinModel) -> int:
    """The longest latency between two sites."""
    sites = {stream.site for stream in model.streams}
    return max(
        (round(model.network.link(a, b).latency_s * SECOND_US) for a in sites for b in sites if a != b),
        default=0,
    )


def measure(plan: SemijoinPlan, model: SemijoinModel, seconds: float, seed: int) -> Measured:
    """Runs a plan on streams drawn for a model, and counts some seconds of it."""
    counted = counted_intervals(model, seconds)
    feeds = synthetic_feeds(model, counted.stop * model.interval_s, random.Random(f"{seed} streams"))
    return measure_feeds(plan, model, feeds, counted)


def counted_intervals(model: SemijoinModel, seconds: float) -> range:
    """The intervals of some seconds, from when every window is full."""
    filled_s = max(window_us(stream) for stream in model.streams) / SECOND_US
    first = math.ceil(filled_s / model.interval_s) + 1
    return range(first, first + max(1, round(seconds / model.interval_s)))


def measure_feeds(
    plan: SemijoinPlan, model: SemijoinModel, feeds: Mapping[str, Feed], counted: range
) -> Measured:
    """Runs a plan and counts some intervals of it."""
    settings = Settings(delay_us=delay_bound_us(model), queueing=False, measured=counted, count_only=True)
    run = execute(plan, model, feeds, settings)
    seconds = run.ledger.measured_s
    return Measured(
        simulated=run.ledger.seconds_per_s,
        modelled=plan.cost,
        bytes_per_s=run.ledger.bytes / seconds,
        modelled_bytes_per_s=math.fsum(load.bytes_per_s for load in plan.links()),
        messages_per_s=run.ledger.messages / seconds,
        answers_per_s=run.count / seconds,
        terms=run.ledger.against(plan),
    )


@dataclass(frozen=True)
class OneWayTask:
    """A one-way join from S1 to S2 by one method."""

    source: JoinSide
    target: JoinSide
    _: KW_ONLY
    link: Link
    interval_s: float
    method: Method
    seconds: float = 1.0
    runs: int = 1
    seed: int = 0


def one_way_plan(model: SemijoinModel, method: Method) -> SemijoinPlan:
    """A single step, from S1 to S2."""
    sites = (model.stream("S1").site, model.stream("S2").site)
    join = model.one_way(frozenset(["S1"]), frozenset(["S2"]), sites, "S1")
    return SemijoinPlan(
        "linear", "greedy", (SemijoinStep(("S1",), ("S2",), *sites, join_cost(join, method)),)
    )


def run_one_way(task: OneWayTask) -> Measured:
    """The mean over a task's runs."""
    model = two_streams(task.source, task.target, task.link, task.interval_s)
    plan = one_way_plan(model, task.method)
    return mean(
        [measure(plan, model, task.seconds, seed) for seed in range(task.seed, task.seed + task.runs)]
    )


def mean(measured: list[Measured]) -> Measured:
    """The means of several runs of one plan."""
    count = len(measured)

    def over(name: str) -> float:
        return math.fsum(getattr(one, name) for one in measured) / count

    return Measured(
        simulated=over("simulated"),
        modelled=over("modelled"),
        bytes_per_s=over("bytes_per_s"),
        modelled_bytes_per_s=over("modelled_bytes_per_s"),
        messages_per_s=over("messages_per_s"),
        answers_per_s=over("answers_per_s"),
        terms={
            name: (pair[0], math.fsum(one.terms.get(name, (0, 0))[1] for one in measured) / count)
            for name, pair in measured[0].terms.items()
        },
    )

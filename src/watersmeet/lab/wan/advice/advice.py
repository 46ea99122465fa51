"""Advice put to the test: the advised plan and simple shipping run over a simulated WAN, predicted beside
counted.

Every message has the size the statistics give its tuples, and links delay but never queue: what is asked is
how many bytes cross, not how long they wait. Before counting, windows are filled for the time of the
longest one as far as the sample reaches; the report says how far it did.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from watersmeet.errors import ConfigurationError
from watersmeet.lab.simulation import SECOND_US
from watersmeet.lab.wan.advice.sample import SiteSample
from watersmeet.lab.wan.network import Link
from watersmeet.lab.wan.pmjoin.network import PmjoinNetwork
from watersmeet.lab.wan.semijoin.run import Settings, execute
from watersmeet.plan.sites.advice import SiteAdvice, SiteOption, bytes_model
from watersmeet.plan.sites.plan_tree import number
from watersmeet.plan.sites.semijoin.plan import SemijoinPlan
from watersmeet.plan.statistics.statistics import Statistics
from watersmeet.query import Query, format_duration

Way = tuple[str, str]

TELLING_BYTES = 100.0  # below, a difference in percent says nothing
MOST_TUPLES = 200_000  # of a sample; more would take minutes


@dataclass(frozen=True)
class SimulatedOption:
    """An option, and the bytes that crossed each link in the simulated time."""

    option: SiteOption
    seconds: float
    crossed: dict[Way, float]

    @property
    def ways(self) -> list[Way]:
        return list(dict.fromkeys([*self.option.by_link(), *self.crossed]))

    def predicted(self, way: Way) -> float:
        """Bytes in the simulated time, by the model."""
        return self.option.by_link().get(way, 0.0) * self.seconds

    def to_json(self) -> dict[str, Any]:
        return {
            "option": self.option.name,
            "predicted_bytes": self.option.bytes_per_s * self.seconds,
            "simulated_bytes": sum(self.crossed.values()),
            "links": [
                {
                    "from": way[0],
                    "to": way[1],
                    "predicted_bytes": self.predicted(way),
                    "simulated_bytes": self.crossed.get(way, 0.0),
                }
                for way in self.ways
            ],
        }

    def pretty(self) -> list[str]:
        rows = [(self.option.name, self.option.bytes_per_s * self.seconds, sum(self.crossed.values()))]
        rows += [
            (f"  {a} -> {b}", self.predicted((a, b)), self.crossed.get((a, b), 0.0)) for a, b in self.ways
        ]
        width = max(len(name) for name, _, _ in rows)
        return [
            f"  {name:<{width}}  predicted {number(predicted)} bytes,"
            f" simulated {number(simulated)}{_apart(predicted, simulated)}"
            for name, predicted, simulated in rows
        ]


def _apart(predicted: float, simulated: float) -> str:
    return f" ({simulated / predicted - 1:+.1%})" if predicted >= TELLING_BYTES else ""


@dataclass(frozen=True)
class SiteSimulation:
    """The result of simulating an advice."""

    origin: str
    seconds: float
    filled_s: float
    wanted_s: float
    options: tuple[SimulatedOption, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "tuples": self.origin,
            "seconds": self.seconds,
            "windows_filled_s": self.filled_s,
            "options": [option.to_json() for option in self.options],
        }

    def pretty(self) -> str:
        filled = format_duration(round(self.filled_s * 1000) * 1000)
        short = (
            f"; the longest window is {format_duration(round(self.wanted_s * 1000) * 1000)}, so results that"
            " are shipped come out too few"
            if self.filled_s < self.wanted_s
            else ""
        )
        head = f"simulated {self.seconds:g} s of {self.origin}, after {filled} to fill the windows{short}"
        return "\n".join([head, *(line for option in self.options for line in option.pretty())])


def window_fill_s(query: Query, statistics: Statistics) -> float:
    """How long it takes until the windows are full; an unbounded one is never, so it counts as priced."""
    times = []
    for item in query.inputs:
        rate = statistics.stream(item.stream.name).rate_per_s
        duration, row_count = item.window.duration_us, item.window.row_count
        if duration is not None:
            times.append(duration / SECOND_US)
        else:
            times.append(statistics.unbounded_window_s if row_count is None else row_count / rate)
    return max(times)


def sample_seconds(query: Query, statistics: Statistics, seconds: float) -> float:
    """How long a sample should be to fill the windows and then simulate, bounded by `MOST_TUPLES`."""
    rate = sum(statistics.stream(item.stream.name).rate_per_s for item in query.inputs)
    wanted = window_fill_s(query, statistics) + seconds
    return min(wanted, MOST_TUPLES / rate)


def simulate_advice(
    advice: SiteAdvice, statistics: Statistics, sample: SiteSample, seconds: float
) -> SiteSimulation:
    """Runs the advised plan and the simple baseline over a sample's last seconds."""
    reach_s = (sample.end_us - sample.start_us) / SECOND_US
    if reach_s <= 0:
        raise ConfigurationError("the sample has no time in which all streams have tuples: take more rows")
    seconds = min(seconds, reach_s)
    wanted = window_fill_s(advice.query, statistics)
    filled = min(wanted, reach_s - seconds)
    start = sample.start_us + round(filled * SECOND_US)
    until = start + round(seconds * SECOND_US)
    shorter = sample.until(until)
    chosen = [advice.chosen] if advice.chosen is advice.baseline else [advice.chosen, advice.baseline]
    options = tuple(
        SimulatedOption(option, seconds, _crossed(option, advice.query, statistics, shorter, start, until))
        for option in chosen
    )
    return SiteSimulation(sample.origin, seconds, filled, wanted, options)


def _crossed(
    option: SiteOption, query: Query, statistics: Statistics, sample: SiteSample, start_us: int, until_us: int
) -> dict[Way, float]:
    if isinstance(option.plan, SemijoinPlan):
        return _crossed_by_semijoin(option.plan, query, statistics, sample, start_us, until_us)
    sites = {statistics.site(item) for item in query.inputs}
    links = {(a, b): Link(Link.of(statistics.network.link(a, b)).latency_us) for a in sites for b in sites}
    network = PmjoinNetwork(query, option.plan, links, keep_answers=False, start_us=sample.start_us)
    run = network.run(sample.arrivals(query), measure_from_us=start_us, until_us=until_us)
    return {way: seen.bytes for way, seen in run.traffic.items()}


def _crossed_by_semijoin(
    plan: SemijoinPlan, query: Query, statistics: Statistics, sample: SiteSample, start_us: int, until_us: int
) -> dict[Way, float]:
    model = bytes_model(query, statistics)
    tau_us = round(model.interval_s * SECOND_US)
    measured = range(start_us // tau_us, max(until_us // tau_us, start_us // tau_us + 1))
    settings = Settings(delay_us=0, queueing=False, measured=measured, count_only=True)
    ledger = execute(plan, model, sample.feeds(query), settings).ledger
    crossed: dict[Way, float] = {}
    for (number_, name), spent in ledger.spent.items():
        step = plan.steps[number_]
        way = (step.source_site, step.target_site)
        if any(term.name == name and term.to_source for term in step.cost.terms):
            way = (way[1], way[0])
        if spent.bytes:
            crossed[way] = crossed.get(way, 0.0) + spent.bytes
    return crossed

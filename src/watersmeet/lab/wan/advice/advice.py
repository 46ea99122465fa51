"""Advice put to the test: the advised plan and simple shipping run over a simulated WAN, predicted beside
counted.

Every message has the size the statistics give its tuples. Links delay as the statistics say, by latency and
by bandwidth, and messages queue for them. Semijoin plans run with heartbeats, so that no delay makes an
answer wrong; their framing is counted apart from what they carry, which is what plans are priced by. Before
counting, windows are filled for the time of the longest one as far as the sample reaches; the report says
how far it did.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from watersmeet.errors import ConfigurationError
from watersmeet.lab.simulation import SECOND_US
from watersmeet.lab.wan.advice.sample import SiteSample
from watersmeet.lab.wan.network import Link
from watersmeet.lab.wan.pmjoin.network import PmjoinNetwork
from watersmeet.lab.wan.semijoin.run import Settings, execute
from watersmeet.plan.sites.advice import SiteAdvice, SiteOption, shipping_model
from watersmeet.plan.sites.plan_tree import number
from watersmeet.plan.sites.semijoin.plan import SemijoinPlan
from watersmeet.plan.statistics.statistics import Statistics
from watersmeet.query import Query, format_duration

Way = tuple[str, str]

TELLING_BYTES = 100.0  # below, a difference in percent says nothing
MOST_TUPLES = 200_000  # of a sample; more would take minutes
BOUND_GROWS = 8  # the bound on delays, where some message was later


@dataclass(frozen=True)
class SimulatedOption:
    """An option, and the bytes that crossed each link in the simulated time."""

    option: SiteOption
    seconds: float
    crossed: dict[Way, float]  # bytes of content
    framing_bytes: float = 0.0  # what the messages of semijoin plans take besides

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
            "framing_bytes": self.framing_bytes,
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
        lines = [
            f"  {name:<{width}}  predicted {number(predicted)} bytes,"
            f" simulated {number(simulated)}{_apart(predicted, simulated)}"
            for name, predicted, simulated in rows
        ]
        framing = f"  {'  framing of its messages':<{width}}  {number(self.framing_bytes)} bytes besides"
        return [*lines, framing] if self.framing_bytes else lines


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
    advice: SiteAdvice,
    statistics: Statistics,
    sample: SiteSample,
    seconds: float,
    also: SiteOption | None = None,
) -> SiteSimulation:
    """Runs the advised plan, the simple baseline, and `also` another option over a sample's last seconds."""
    reach_s = (sample.end_us - sample.start_us) / SECOND_US
    if reach_s <= 0:
        raise ConfigurationError("the sample has no time in which all streams have tuples: take more rows")
    seconds = min(seconds, reach_s)
    wanted = window_fill_s(advice.query, statistics)
    filled = min(wanted, reach_s - seconds)
    start = sample.start_us + round(filled * SECOND_US)
    until = start + round(seconds * SECOND_US)
    shorter = sample.until(until)
    chosen = [advice.chosen]
    for one in (advice.baseline, also):
        if one is not None and not any(one is known for known in chosen):
            chosen.append(one)
    span = Span(start, until)
    options = tuple(run_option(option, advice, statistics, shorter, span) for option in chosen)
    return SiteSimulation(sample.origin, seconds, filled, wanted, options)


@dataclass(frozen=True)
class Span:
    """What is counted of a simulation, from one instant to another."""

    start_us: int
    until_us: int

    @property
    def seconds(self) -> float:
        return (self.until_us - self.start_us) / SECOND_US


def run_option(
    option: SiteOption, advice: SiteAdvice, statistics: Statistics, sample: SiteSample, span: Span
) -> SimulatedOption:
    """One option run over a sample."""
    if isinstance(option.plan, SemijoinPlan):
        return _run_semijoin(option, option.plan, advice, statistics, sample, span)
    query = advice.query
    sites = {statistics.site(item) for item in query.inputs}
    links = {(a, b): Link.of(statistics.network.link(a, b)) for a in sites for b in sites}
    arrivals = sample.arrivals(query)
    bound = _first_bound_us(option, links)
    while True:
        network = PmjoinNetwork(
            query, option.plan, links, delay_bound_us=bound, keep_answers=False, start_us=sample.start_us
        )
        run = network.run(arrivals, measure_from_us=span.start_us, until_us=span.until_us)
        if not run.late:
            return SimulatedOption(option, span.seconds, {way: s.bytes for way, s in run.traffic.items()})
        bound *= BOUND_GROWS


def _first_bound_us(option: SiteOption, links: Mapping[Way, Link]) -> int:
    """A bound on delays that the plan keeps, unless a link is too slow or messages come in bursts."""
    latency = max(link.latency_us for link in links.values())
    busy = max((links[way].transfer_us(rate) for way, rate in option.by_link().items()), default=0)
    return max(2 * latency + busy, SECOND_US)


def _run_semijoin(
    option: SiteOption,
    plan: SemijoinPlan,
    advice: SiteAdvice,
    statistics: Statistics,
    sample: SiteSample,
    span: Span,
) -> SimulatedOption:
    """A semijoin plan counts whole intervals, of which its bytes are scaled to the time of the others."""
    model = shipping_model(advice.query, statistics, advice.interval_s)
    tau_us = round(model.interval_s * SECOND_US)
    first = span.start_us // tau_us
    measured = range(first, max(span.until_us // tau_us, first + 1))
    settings = Settings(heartbeats=True, measured=measured, count_only=True, silent=True)
    ledger = execute(plan, model, sample.feeds(advice.query), settings).ledger
    scale = span.seconds / ledger.measured_s
    crossed = {way: spent.bytes * scale for way, spent in ledger.crossed.items() if spent.bytes}
    framing = sum(spent.framing for spent in ledger.crossed.values()) * scale
    return SimulatedOption(option, span.seconds, crossed, framing)

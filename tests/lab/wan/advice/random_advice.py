"""Random statistics of streams at sites, the advice they get, and every option of it simulated."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass

from tests.plan.joins import TOPOLOGIES, edges, join_query
from watersmeet.lab.wan.advice import draw_sample
from watersmeet.lab.wan.advice.advice import Span, run_option, window_fill_s
from watersmeet.plan.sites.advice import SiteAdvice, SiteOption, advise_sites
from watersmeet.plan.statistics.rate_model import rate_model
from watersmeet.plan.statistics.statistics import (
    AttributeStatistics,
    Link,
    Network,
    Statistics,
    StreamStatistics,
)
from watersmeet.query import Query, Window, range_us, rows, tumble_us

SECOND = 1_000_000
TUPLES = 7000  # of all streams together
WINDOWS_MEASURED = 6  # the longest window goes by so often at least, as results come in bursts
MOST_RESULTS = 15_000  # of any join of some streams, at any moment and in the measured time
MOST_INTERVALS = 800
FEW_RESULTS = ("distributed", "pmjoin")  # which ship a few results that come in bursts, so chance is large
SAMPLES = 3  # to run these on, for the mean


@dataclass(frozen=True)
class Case:
    """Random statistics, and for how long they are simulated."""

    query: Query
    statistics: Statistics
    interval_s: float
    fill_s: float
    seconds: float


def between(rng: random.Random, low: float, high: float) -> float:
    """A number whose logarithm is uniform."""
    return math.exp(rng.uniform(math.log(low), math.log(high)))


def random_case(seed: int) -> Case:
    """A case that can be simulated in about a second: others are drawn again."""
    rng = random.Random(f"advice {seed}")
    while True:
        case = _draw(rng)
        if case is not None:
            return case


def _draw(rng: random.Random) -> Case | None:
    aliases = "rstuv"[: rng.choices([2, 3, 4, 5], [3, 4, 2, 1])[0]]
    sites = [f"n{n}" for n in range(len(aliases))]
    if len(aliases) > 2 and rng.random() < 0.25:
        sites = ["n0", "n1", *(rng.choice(["n0", "n1"]) for _ in aliases[2:])]
        rng.shuffle(sites)
    classes = edges(rng.choice(TOPOLOGIES), aliases)
    windows: dict[str, Window] = {}
    streams = {}
    most_values = between(rng, 20, 100_000)
    scale_s = between(rng, 1, 60)
    for alias, site in zip(aliases, sites, strict=True):
        seconds = scale_s * between(rng, 0.4, 2.5)
        rate = between(rng, 4, 300) / seconds
        windows[alias] = _window(rng, rate, seconds)
        attributes = {
            f"c{n}": _attribute(rng, rate, most_values) for n, cls in enumerate(classes) if alias in cls
        }
        streams[alias] = StreamStatistics(rate, between(rng, 30, 5000), site, attributes)
    pairs = itertools.permutations(sorted(set(sites)), 2)
    links = {pair: Link(between(rng, 2e5, 1e8), rng.uniform(0, 0.2)) for pair in pairs}
    query = join_query(aliases, classes, windows)
    statistics = Statistics(streams, network=Network(links))
    fill = window_fill_s(query, statistics)
    total = sum(stream.rate_per_s for stream in streams.values())
    seconds = TUPLES / total - fill
    interval_s = scale_s * between(rng, 0.02, 0.3)
    fits = seconds >= fill * WINDOWS_MEASURED and seconds / interval_s <= MOST_INTERVALS
    fits = fits and _joins_are_small(query, statistics, seconds)
    return Case(query, statistics, interval_s, fill, seconds) if fits else None


def _window(rng: random.Random, rate_per_s: float, seconds: float) -> Window:
    kind = rng.random()
    tumble_s = 2.0 ** round(math.log2(seconds))  # of several, the ends often meet
    if kind < 0.7:
        return range_us(round(seconds * SECOND))
    if kind < 0.85:
        return rows(max(1, round(seconds * rate_per_s)))
    return tumble_us(round(tumble_s * SECOND))


def _attribute(rng: random.Random, rate_per_s: float, most_values: float) -> AttributeStatistics:
    """10 to 100,000 values; sometimes a few of them have a large part of the tuples."""
    distinct = round(between(rng, 10, most_values))
    hitters: tuple[tuple[str, float], ...] = ()
    if rng.random() < 0.35:
        count, share = rng.randint(1, 8), rng.uniform(0.1, 0.7)
        weights = [1 / rank for rank in range(1, count + 1)]
        values = rng.sample(range(10), count)
        hitters = tuple(
            (f"hot {value}", rate_per_s * share * weight / sum(weights))
            for value, weight in zip(values, weights, strict=True)
        )
    return AttributeStatistics(float(distinct), hitters, value_bytes=float(rng.choice([4, 8, 8, 16, 40])))


def _joins_are_small(query: Query, statistics: Statistics, seconds: float) -> bool:
    rates = rate_model(query, statistics)
    subsets = [mask for mask in range(1, rates.everything) if mask & (mask - 1)]
    connected = [mask for mask in subsets if _is_connected(query, rates.members(mask))]
    return all(max(rates.window(m), rates.rate(m) * seconds) <= MOST_RESULTS for m in connected)


def _is_connected(query: Query, members: list[object]) -> bool:
    aliases = {member.alias for member in members}  # type: ignore[attr-defined]
    reached = {min(aliases)}
    for _ in aliases:
        reached |= {near for alias in reached for near in query.graph.neighbours(alias)} & aliases
    return reached == aliases


@dataclass(frozen=True)
class Tried:
    """An option with the bytes a second it was predicted to ship, and those it shipped."""

    option: SiteOption
    predicted: float
    shipped: float  # of the tuples that all options of a case were run on
    mean: float  # of these and others

    @property
    def error(self) -> float:
        """How far the prediction is off, as a share of it."""
        return abs(self.mean / self.predicted - 1) if self.predicted else float(self.mean > 0)


@dataclass(frozen=True)
class Trial:
    """A case, its advice, and every different option of it, the advised one first."""

    case: Case
    advice: SiteAdvice
    options: tuple[Tried, ...]

    @property
    def advised(self) -> Tried:
        return self.options[0]

    @property
    def simple(self) -> Tried:
        """The baseline: simple shipping at its best, by the prediction."""
        return next(tried for tried in self.options if tried.option is self.advice.baseline)

    @property
    def cheapest(self) -> Tried:
        return min(self.options, key=lambda tried: tried.shipped)


def try_advice(seed: int) -> Trial:
    """Everything that is advised on one random case, simulated on the same tuples."""
    case = random_case(seed)
    query, statistics = case.query, case.statistics
    advice = advise_sites(query, statistics, interval_s=case.interval_s)
    draws = [
        draw_sample(query, statistics, case.fill_s + case.seconds, seed=number, reason="a trial")
        for number in range(SAMPLES * seed, SAMPLES * (seed + 1))
    ]
    span = Span(round(case.fill_s * SECOND), round((case.fill_s + case.seconds) * SECOND))
    tried = []
    for option in different(advice):
        samples = draws if option.method in FEW_RESULTS else draws[:1]
        runs = [run_option(option, advice, statistics, sample, span) for sample in samples]
        shipped = [sum(run.crossed.values()) / span.seconds for run in runs]
        tried.append(Tried(option, option.bytes_per_s, shipped[0], math.fsum(shipped) / len(shipped)))
    return Trial(case, advice, tuple(tried))


def different(advice: SiteAdvice) -> Iterator[SiteOption]:
    """The options of an advice without those whose plan another one has."""
    seen = []
    for option in (advice.chosen, *advice.options):
        plan = getattr(option.plan, "steps", option.plan)
        if plan not in seen or (option is advice.baseline and option is not advice.chosen):
            seen.append(plan)
            yield option

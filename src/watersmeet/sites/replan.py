"""Whether another plan would be cheaper by now: what the running plan ships, and the planner's best.

Rates drift. For a stretch of event time the tuples of every stream and the bytes on all links are counted.
The statistics with those rates, and all else as it was, give the planner's best. If the running plan has
shipped more than `factor` times that, a change is proposed. How often single values come, and how large
tuples are, is not measured here: `watersmeet analyze` does that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from watersmeet.plan.sites.advice import SiteOption, advise_sites
from watersmeet.plan.sites.plan_tree import number
from watersmeet.plan.statistics.attribute import AttributeStatistics
from watersmeet.plan.statistics.statistics import Statistics, StreamStatistics
from watersmeet.query import Query

FACTOR = 1.5
MONTH_S = 30 * 86_400.0
LEAST_ROWS = 100  # of each stream, before its rate says anything


@dataclass
class MeasuredInput:
    """The tuples of an input since counting began, and the event time they take."""

    first_us: int | None = None
    last_us: int | None = None
    rows: int = 0

    def note(self, rows: int, newest_us: int | None) -> None:
        """Counts a batch; that of the first batch is where counting begins."""
        if newest_us is None:
            return
        if self.first_us is None:
            self.first_us = newest_us
        else:
            self.rows += rows
        self.last_us = newest_us

    @property
    def seconds(self) -> float:
        """Of event time."""
        return (self.last_us - self.first_us) / 1e6 if self.first_us is not None and self.last_us else 0.0

    @property
    def rate_per_s(self) -> float | None:
        """Tuples a second of event time; None if there were too few to tell."""
        return self.rows / self.seconds if self.rows >= LEAST_ROWS and self.seconds > 0 else None


@dataclass
class Measured:
    """What a query has read and shipped since counting began."""

    inputs: dict[str, MeasuredInput] = field(default_factory=dict)
    shipped_before: float | None = None  # on all links, when counting began

    def note(self, progress: Mapping[str, Any]) -> None:
        """Takes a site's report of a batch."""
        for item in progress["inputs"]:
            self.inputs.setdefault(item["alias"], MeasuredInput()).note(item["rows"], item["max_ts_us"])

    def rates(self, query: Query) -> dict[str, float] | None:
        """The rate of each input; None while that of some is not known."""
        found = {
            alias: self.inputs[alias].rate_per_s for alias in query.graph.aliases if alias in self.inputs
        }
        known = {alias: rate for alias, rate in found.items() if rate is not None}
        return known if len(known) == len(query.inputs) else None

    @property
    def seconds(self) -> float:
        """Of event time, of the stream that has come the least far."""
        return min((item.seconds for item in self.inputs.values()), default=0.0)


@dataclass(frozen=True)
class Proposal:
    """Another plan that would ship less."""

    query: str
    running: str
    shipped_per_s: float  # by the running plan, as measured
    option: SiteOption
    statistics: Statistics  # with the measured rates

    @property
    def saving_per_month(self) -> float:
        """Bytes in a month of thirty days."""
        return (self.shipped_per_s - self.option.bytes_per_s) * MONTH_S

    def pretty(self) -> str:
        return (
            f"{self.query}: {self.running} ships {number(self.shipped_per_s)} bytes/s. At the rates measured "
            f"{self.option.name} would ship {number(self.option.bytes_per_s)} bytes/s, "
            f"{number(self.saving_per_month / 1e9)} GB less a month"
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "query": self.query,
            "running": self.running,
            "shipped_bytes_per_s": self.shipped_per_s,
            "plan": self.option.name,
            "plan_bytes_per_s": self.option.bytes_per_s,
            "saving_bytes_per_month": self.saving_per_month,
        }


def propose(
    name: str,
    query: Query,
    statistics: Statistics,
    running: str,
    measured: Measured,
    shipped: float,
    factor: float,
) -> Proposal | None:
    """The best plan at the measured rates, if the running one ships `factor` times that.

    `shipped` are the bytes on all links since the first batch.
    """
    rates = measured.rates(query)
    if rates is None or measured.shipped_before is None or measured.seconds <= 0:
        return None
    per_s = (shipped - measured.shipped_before) / measured.seconds
    known = with_rates(query, statistics, rates)
    best = advise_sites(query, known).chosen
    if best.name == running or per_s <= factor * best.bytes_per_s:
        return None
    return Proposal(name, running, per_s, best, known)


def with_rates(query: Query, statistics: Statistics, rates: Mapping[str, float]) -> Statistics:
    """The statistics with the measured rates of a query's inputs; values keep their share of a stream."""
    streams = dict(statistics.streams)
    for item in query.inputs:
        known = statistics.stream(item.stream.name)
        rate = rates[item.alias] / statistics.filter_selectivity(item)  # filtered tuples are not counted
        listed = next(
            (name for name in streams if name.lower() == item.stream.name.lower()), item.stream.name
        )
        streams[listed] = _at_rate(known, rate)
    return replace(statistics, streams=streams)


def _at_rate(known: StreamStatistics, rate_per_s: float) -> StreamStatistics:
    share = rate_per_s / known.rate_per_s
    attributes = {name: _scaled(own, share) for name, own in known.attributes.items()}
    return replace(known, rate_per_s=rate_per_s, attributes=attributes)


def _scaled(known: AttributeStatistics, share: float) -> AttributeStatistics:
    return replace(
        known,
        heavy_hitters=tuple((value, rate * share) for value, rate in known.heavy_hitters),
        histogram=tuple(replace(each, rate_per_s=each.rate_per_s * share) for each in known.histogram),
    )

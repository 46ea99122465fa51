"""A wide-area network: sites, and between any two of them a link each way, with latency and bandwidth.

Each direction of a pair of sites is a queue. A message starts when the one before it has gone, occupies the
link for its size over the bandwidth, and arrives a latency later, plus, where the link has jitter, a random
delay up to that bound. Messages of one direction arrive in the order they were sent. Within a site a message
is there at once and costs nothing. With 100 bytes/s and a latency of 1 s, two messages of 50 bytes sent
together at 0 s arrive at 1.5 s and at 2 s.

Everything that crosses a link is counted: bytes, messages, how long the link was occupied, and the longest
delay from sending to arrival, which is what a protocol's delay bound has to cover.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from watersmeet.errors import ConfigurationError
from watersmeet.lab.simulation import SECOND_US, Simulator
from watersmeet.plan.statistics import statistics as plan_statistics


@dataclass(frozen=True)
class Link:
    """One direction between two sites; `bytes_per_s=None` is infinitely fast."""

    latency_us: int = 0
    bytes_per_s: float | None = None
    jitter_us: int = 0  # the bound of a random delay on top of the latency

    def __post_init__(self) -> None:
        if self.latency_us < 0 or self.jitter_us < 0:
            raise ConfigurationError(f"a link's latency and jitter cannot be negative: {self}")
        if self.bytes_per_s is not None and not self.bytes_per_s > 0:
            raise ConfigurationError(f"a link's bandwidth is above 0 bytes/s, or None if endless: {self}")

    @staticmethod
    def of(known: plan_statistics.Link, jitter_us: int = 0) -> Link:
        """The link that the planner's statistics describe."""
        speed = None if math.isinf(known.bytes_per_s) else known.bytes_per_s
        return Link(round(known.latency_s * SECOND_US), speed, jitter_us)

    def transfer_us(self, size_bytes: float) -> int:
        """How long a message of this size occupies the link."""
        return 0 if self.bytes_per_s is None else math.ceil(size_bytes * SECOND_US / self.bytes_per_s)


@dataclass
class Traffic:
    """The traffic over one direction of a link so far."""

    bytes: float = 0.0
    messages: int = 0
    busy_us: int = 0  # the link was sending
    latency_us: int = 0  # added up over messages, jitter and all
    largest_delay_us: int = 0  # from sending to arrival, waiting for the queue included

    @property
    def transmission_us(self) -> int:
        """The papers' S(x) added up: latency and transfer of every message."""
        return self.busy_us + self.latency_us


class Wan:
    """Carries messages between sites on a simulator's clock."""

    def __init__(
        self,
        simulator: Simulator,
        sites: Iterable[str],
        links: Link | Mapping[tuple[str, str], Link],
        rng: random.Random,
    ) -> None:
        self.simulator = simulator
        self.sites = tuple(dict.fromkeys(sites))
        self.traffic: dict[tuple[str, str], Traffic] = {}
        self._links = links
        self._rng = rng
        self._free_us: dict[tuple[str, str], int] = {}  # when the queue of a direction is empty
        self._last_arrival_us: dict[tuple[str, str], int] = {}

    def link(self, source: str, target: str) -> Link:
        """The link from one site to another; one way described is both ways described."""
        for site in (source, target):
            if site not in self.sites:
                raise ConfigurationError(f"there is no site {site!r}: the sites are {', '.join(self.sites)}")
        if isinstance(self._links, Link):
            return self._links
        found = self._links.get((source, target)) or self._links.get((target, source))
        if found is None:
            raise ConfigurationError(f"no link joins the sites {source!r} and {target!r}")
        return found

    def send(
        self, source: str, target: str, size_bytes: float, deliver: Callable[..., object], *arguments: Any
    ) -> int:
        """Has `deliver(*arguments)` called when a message of this size arrives; says when that is."""
        now = self.simulator.now_us
        if source == target:
            self.simulator.at(now, deliver, *arguments)
            return now
        way, link = (source, target), self.link(source, target)
        gone = max(now, self._free_us.get(way, now)) + link.transfer_us(size_bytes)
        jitter = self._rng.randint(0, link.jitter_us) if link.jitter_us else 0
        arrival = max(gone + link.latency_us + jitter, self._last_arrival_us.get(way, now))
        self._free_us[way], self._last_arrival_us[way] = gone, arrival
        seen = self.traffic.setdefault(way, Traffic())
        seen.bytes += size_bytes
        seen.messages += 1
        seen.busy_us += link.transfer_us(size_bytes)
        seen.latency_us += link.latency_us + jitter
        seen.largest_delay_us = max(seen.largest_delay_us, arrival - now)
        self.simulator.at(arrival, deliver, *arguments)
        return arrival

    @property
    def total_bytes(self) -> float:
        return math.fsum(seen.bytes for seen in self.traffic.values())

    @property
    def total_messages(self) -> int:
        return sum(seen.messages for seen in self.traffic.values())

    @property
    def transmission_us(self) -> int:
        """Latency and transfer of every message, over all links."""
        return sum(seen.transmission_us for seen in self.traffic.values())

    def delay_bound_us(self) -> int:
        """The longest delay that any message has had so far: the papers' delta, measured."""
        return max((seen.largest_delay_us for seen in self.traffic.values()), default=0)

    def reset(self) -> None:
        """Starts to count anew; messages under way stay under way."""
        self.traffic.clear()

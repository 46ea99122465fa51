"""A deterministic event loop: a virtual clock in whole microseconds, and message delays.

Events run in the order of (time, priority, number), the number being that of scheduling, so a run is a
function of what was scheduled and of the seeds of the random generators passed in: no wall clock, no threads.

    simulator.at(5, print, "b"); simulator.at(2, print, "a"); simulator.run()     prints a, then b
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from watersmeet.errors import ConfigurationError


class Simulator:
    """Runs scheduled actions in order of virtual time."""

    __slots__ = ("_events", "_number", "now_us")

    def __init__(self, start_us: int = 0) -> None:
        self.now_us = start_us
        self._events: list[tuple[int, int, int, Callable[..., object], tuple[Any, ...]]] = []
        self._number = 0

    @property
    def pending(self) -> int:
        """How many events are still to run."""
        return len(self._events)

    def at(self, time_us: int, action: Callable[..., object], *arguments: Any, priority: int = 0) -> None:
        """Runs an action at an instant; at equal instants a lower priority number goes first."""
        if time_us < self.now_us:
            raise ConfigurationError(f"an event at {time_us} us is in the past: it is {self.now_us} us")
        self._number += 1
        heapq.heappush(self._events, (time_us, priority, self._number, action, arguments))

    def after(self, delay_us: int, action: Callable[..., object], *arguments: Any, priority: int = 0) -> None:
        """Runs an action some time from now."""
        self.at(self.now_us + delay_us, action, *arguments, priority=priority)

    def run(self, until_us: int | None = None) -> int:
        """Runs every event, or those up to and including an instant, and says how many ran."""
        events, ran = self._events, 0
        while events and (until_us is None or events[0][0] <= until_us):
            self.now_us, _, _, action, arguments = heapq.heappop(events)
            action(*arguments)
            ran += 1
        if until_us is not None and until_us > self.now_us:
            self.now_us = until_us
        return ran


@dataclass(frozen=True)
class Delay:
    """How long one message between two nodes takes; `bound_us` is the papers' delta."""

    kind: Literal["none", "constant", "random"] = "none"
    bound_us: int = 0

    def __post_init__(self) -> None:
        if self.kind not in ("none", "constant", "random"):
            raise ConfigurationError(f"a delay is none, constant or random, not {self.kind!r}")
        if self.bound_us < 0 or (self.kind == "none" and self.bound_us):
            raise ConfigurationError(f"a {self.kind} delay cannot be bounded by {self.bound_us} us")

    def over(self, hops: int, rng: random.Random) -> int:
        """The time that a number of hops takes; each hop draws its own delay."""
        if self.kind == "none":
            return 0
        if self.kind == "constant":
            return hops * self.bound_us
        return sum(rng.randint(0, self.bound_us) for _ in range(hops))


NO_DELAY = Delay()


def constant_delay(delay_us: int) -> Delay:
    return Delay("constant", delay_us)


def random_delay(bound_us: int) -> Delay:
    """Each hop takes a uniformly random time of at most `bound_us`."""
    return Delay("random", bound_us)

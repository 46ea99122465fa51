"""A deterministic event loop: a virtual clock in whole microseconds.

Events run in the order of (time, priority, number), the number being that of scheduling, so a run is a
function of what was scheduled and of the seeds of the random generators passed in: no wall clock, no threads.

    simulator.at(5, print, "b"); simulator.at(2, print, "a"); simulator.run()     prints a, then b
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any

from watersmeet.errors import ConfigurationError

SECOND_US = 1_000_000


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

"""The watermark: min over streams of (largest ts seen - lateness), taken at the end of a micro-batch.

A stream that has shown nothing yet holds the watermark at the beginning of time, unless it is declared idle.
The watermark never goes back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from watersmeet.query import BEGINNING, NEVER


@dataclass
class Watermark:
    """Follows the streams of one query."""

    lateness_us: Mapping[str, int]
    max_ts: dict[str, int] = field(default_factory=dict)
    now: int = BEGINNING

    def observe(self, stream: str, ts: int) -> None:
        """A tuple of this event time has been seen."""
        self.max_ts[stream] = max(ts, self.max_ts.get(stream, BEGINNING))

    def advance(self, idle: frozenset[str] = frozenset()) -> int:
        """Closes a micro-batch; `idle` streams do not hold the others back."""
        bounds = [
            self.max_ts[stream] - lateness if stream in self.max_ts else BEGINNING
            for stream, lateness in self.lateness_us.items()
            if stream not in idle
        ]
        if bounds:
            self.now = max(self.now, min(bounds))
        return self.now

    def flush(self) -> int:
        """The end of the input is the end of time."""
        self.now = NEVER
        return self.now

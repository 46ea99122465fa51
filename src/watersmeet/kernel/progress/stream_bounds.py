"""How far each stream has come, for queries that read different ones.

A stream's bound is its largest event time seen minus its lateness, at the end of a micro-batch; a query's
watermark is the least bound of the streams it reads (see `watermark.py`). Bounds never go back. A stream that
is silent for longer than its `idle_after` holds nobody back: its bound goes along with the furthest of the
others, and tuples that it brings later are late behind that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from watersmeet.kernel.progress.watermark import LatenessPolicy, Punctuation, Silence
from watersmeet.query import BEGINNING, NEVER


@dataclass
class StreamBounds:
    """Follows the streams of a shared dataflow."""

    lateness: Mapping[str, LatenessPolicy]
    now: dict[str, int] = field(default_factory=dict)
    _last_seen_us: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.now = {stream: self.now.get(stream, BEGINNING) for stream in self.lateness}
        self._silence = Silence(self.lateness, self._last_seen_us)

    def advance(self, punctuation: Punctuation) -> dict[str, int]:
        """Closes a micro-batch; the bounds after it."""
        for stream, ts in punctuation.max_ts.items():
            self.now[stream] = max(self.now[stream], ts - self.lateness[stream].lateness_us)
        idle = self._silence.idle(punctuation)
        furthest = max(
            (self.now[stream] for stream in self.lateness if stream not in idle), default=BEGINNING
        )
        for stream in idle:
            self.now[stream] = max(self.now[stream], furthest)
        if punctuation.is_end:
            self.now = dict.fromkeys(self.lateness, NEVER)
        return dict(self.now)

    def snapshot(self) -> dict[str, Any]:
        return {"now": self.now, "last_seen_us": self._last_seen_us}

    @classmethod
    def restore(cls, lateness: Mapping[str, LatenessPolicy], snapshot: Mapping[str, Any]) -> StreamBounds:
        return cls(lateness, dict(snapshot["now"]), dict(snapshot["last_seen_us"]))

"""How far streams have come, for queries that read different ones.

A stream's bound is its largest event time seen minus its lateness, at the end of a micro-batch; a query's
watermark is the least bound of the streams it reads (see `watermark.py`). Bounds never go back.

A stream that may fall idle has no say while it is, and that depends on who asks: the watermark of its query
then follows the query's other streams, and stays there when the stream comes back. No bound of a single
stream could say this to all queries. So sets of streams that queries read, and in which one may fall idle,
have a watermark of their own under the name of the set, which is what it would be if such a query ran alone.

    a at 100, b idle at 10, c at 20    a: 100, b: 10, c: 20, {a, b}: 100, {b, c}: 20
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from watersmeet.kernel.progress.watermark import LatenessPolicy, Punctuation, Silence, Watermark, bound_us
from watersmeet.query import BEGINNING, NEVER

StreamSets = Mapping[str, tuple[str, ...]]  # by name, the streams


@dataclass
class StreamBounds:
    """Follows the streams of a shared dataflow, and the sets of them that need it."""

    lateness: Mapping[str, LatenessPolicy]
    sets: StreamSets = field(default_factory=dict)
    now: dict[str, int] = field(default_factory=dict)  # of streams and of sets
    _last_seen_us: dict[str, int] = field(default_factory=dict)
    _watermarks: dict[str, Watermark] = field(default_factory=dict)  # of sets

    def __post_init__(self) -> None:
        self.now = {stream: self.now.get(stream, BEGINNING) for stream in self.lateness}
        self._silence = Silence(self.lateness, self._last_seen_us)
        self._watermarks = {
            name: self._watermarks.get(name) or self._joined(streams) for name, streams in self.sets.items()
        }
        self.now |= {name: watermark.now for name, watermark in self._watermarks.items()}

    def advance(self, punctuation: Punctuation) -> dict[str, int]:
        """Closes a micro-batch; the bounds after it."""
        for stream, ts in punctuation.max_ts.items():
            if not self.lateness[stream].by_marks:
                self.now[stream] = max(self.now[stream], bound_us(ts, self.lateness[stream]))
        for stream, mark in punctuation.marks.items():
            self.now[stream] = max(self.now[stream], mark)
        self._silence.idle(punctuation)
        for name, watermark in self._watermarks.items():
            own = punctuation.of(watermark.lateness)
            if own.sources:  # a query that ran alone would have no batch otherwise
                self.now[name] = watermark.advance(own)
        if punctuation.is_end:
            self.now = dict.fromkeys(self.now, NEVER)
        return dict(self.now)

    def _joined(self, streams: tuple[str, ...]) -> Watermark:
        """The watermark of a set that comes anew, from what is known of its streams."""
        lateness = {stream: self.lateness[stream] for stream in streams}
        max_ts = {
            stream: min(NEVER, self.now[stream] + policy.lateness_us)
            for stream, policy in lateness.items()
            if self.now[stream] != BEGINNING
        }
        seen = {stream: self._last_seen_us[stream] for stream in streams if stream in self._last_seen_us}
        marks = {stream: self.now[stream] for stream, policy in lateness.items() if policy.by_marks}
        return Watermark(lateness, min(self.now[stream] for stream in streams), max_ts, seen, marks)

    def snapshot(self) -> dict[str, Any]:
        sets = {name: watermark.snapshot() for name, watermark in self._watermarks.items()}
        now = {stream: self.now[stream] for stream in self.lateness}
        return {"now": now, "last_seen_us": self._last_seen_us, **({"sets": sets} if sets else {})}

    @classmethod
    def restore(
        cls, lateness: Mapping[str, LatenessPolicy], sets: StreamSets, snapshot: Mapping[str, Any]
    ) -> StreamBounds:
        """As it was persisted; `sets` may be others than then."""
        kept = {
            name: Watermark.restore({stream: lateness[stream] for stream in sets[name]}, one)
            for name, one in snapshot.get("sets", {}).items()
            if name in sets
        }
        return cls(lateness, sets, dict(snapshot["now"]), dict(snapshot["last_seen_us"]), kept)

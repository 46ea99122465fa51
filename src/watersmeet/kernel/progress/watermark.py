"""The watermark: min over streams of (largest ts seen - lateness), taken at the end of a micro-batch.

A stream that has shown nothing yet holds the watermark at the beginning of time. A stream declared with
`idle_after` stops holding the others back once it has been silent that long, by the clock of the batches (the
batch's own time, which a replay repeats). The watermark never goes back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from watersmeet.query import BEGINNING, NEVER, Query


@dataclass(frozen=True)
class Punctuation:
    """What a micro-batch says of progress: largest event times by stream, the batch's own time, the end."""

    max_ts: Mapping[str, int] = field(default_factory=dict)
    now_us: int | None = None
    is_end: bool = False


@dataclass(frozen=True)
class LatenessPolicy:
    """How late tuples of a stream may be, and how long its silence is waited for."""

    lateness_us: int = 0
    idle_after_us: int | None = None


def lateness_policies(query: Query) -> dict[str, LatenessPolicy]:
    return {stream.name: LatenessPolicy(stream.lateness_us, stream.idle_after_us) for stream in query.streams}


@dataclass
class Silence:
    """Follows when streams last brought tuples, by the clock of the batches."""

    lateness: Mapping[str, LatenessPolicy]
    last_seen_us: dict[str, int] = field(default_factory=dict)

    def idle(self, punctuation: Punctuation) -> set[str]:
        """Closes a micro-batch; the streams that nobody waits for any more."""
        if punctuation.now_us is None:
            return set()
        for stream in self.lateness:
            if stream in punctuation.max_ts or stream not in self.last_seen_us:
                self.last_seen_us[stream] = punctuation.now_us
        return {
            stream
            for stream, lateness in self.lateness.items()
            if lateness.idle_after_us is not None
            and punctuation.now_us - self.last_seen_us[stream] > lateness.idle_after_us
        }


@dataclass
class Watermark:
    """Follows the streams of one query."""

    lateness: Mapping[str, LatenessPolicy]
    now: int = BEGINNING
    max_ts: dict[str, int] = field(default_factory=dict)
    _last_seen_us: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._silence = Silence(self.lateness, self._last_seen_us)

    def advance(self, punctuation: Punctuation) -> int:
        """Closes a micro-batch."""
        for stream, ts in punctuation.max_ts.items():
            self.max_ts[stream] = max(ts, self.max_ts.get(stream, BEGINNING))
        idle = self._silence.idle(punctuation)
        bounds = [
            self.max_ts[stream] - lateness.lateness_us if stream in self.max_ts else BEGINNING
            for stream, lateness in self.lateness.items()
            if stream not in idle
        ]
        if punctuation.is_end:
            self.now = NEVER
        elif bounds:
            self.now = max(self.now, min(bounds))
        return self.now

    def snapshot(self) -> dict[str, object]:
        return {"now": self.now, "max_ts": self.max_ts, "last_seen_us": self._last_seen_us}

    @classmethod
    def restore(cls, lateness: Mapping[str, LatenessPolicy], snapshot: Mapping[str, Any]) -> Watermark:
        return cls(lateness, snapshot["now"], dict(snapshot["max_ts"]), dict(snapshot["last_seen_us"]))

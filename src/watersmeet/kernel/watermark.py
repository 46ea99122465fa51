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
class Marks:
    """What a micro-batch tells of progress: largest event times by stream, the batch's own time, the end."""

    max_ts: Mapping[str, int] = field(default_factory=dict)
    now_us: int | None = None
    is_end: bool = False


@dataclass(frozen=True)
class Patience:
    """How late tuples of a stream may be, and how long its silence is waited for."""

    lateness_us: int = 0
    idle_after_us: int | None = None


def patience_of(query: Query) -> dict[str, Patience]:
    return {stream.name: Patience(stream.lateness_us, stream.idle_after_us) for stream in query.streams}


@dataclass
class Watermark:
    """Follows the streams of one query."""

    patience: Mapping[str, Patience]
    now: int = BEGINNING
    max_ts: dict[str, int] = field(default_factory=dict)
    _last_heard_us: dict[str, int] = field(default_factory=dict)

    def advance(self, marks: Marks) -> int:
        """Closes a micro-batch."""
        for stream, ts in marks.max_ts.items():
            self.max_ts[stream] = max(ts, self.max_ts.get(stream, BEGINNING))
        if marks.now_us is not None:
            for stream in self.patience:
                if stream in marks.max_ts or stream not in self._last_heard_us:
                    self._last_heard_us[stream] = marks.now_us
        bounds = [
            self.max_ts[stream] - patience.lateness_us if stream in self.max_ts else BEGINNING
            for stream, patience in self.patience.items()
            if not self._is_idle(stream, marks.now_us)
        ]
        if marks.is_end:
            self.now = NEVER
        elif bounds:
            self.now = max(self.now, min(bounds))
        return self.now

    def _is_idle(self, stream: str, now_us: int | None) -> bool:
        limit = self.patience[stream].idle_after_us
        if limit is None or now_us is None:
            return False
        return now_us - self._last_heard_us.get(stream, now_us) > limit

    def snapshot(self) -> dict[str, object]:
        return {"now": self.now, "max_ts": self.max_ts, "last_heard_us": self._last_heard_us}

    @classmethod
    def restore(cls, patience: Mapping[str, Patience], snapshot: Mapping[str, Any]) -> Watermark:
        return cls(patience, snapshot["now"], dict(snapshot["max_ts"]), dict(snapshot["last_heard_us"]))

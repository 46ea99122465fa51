"""The watermark: min over streams of (largest ts seen - lateness), taken at the end of a micro-batch.

A stream that has shown nothing yet holds the watermark at the beginning of time. A stream declared with
`idle_after` stops holding the others back once it has been silent that long. The watermark never goes back.

Silence is measured by the clock of the batches, the time that Spark logs with the offsets of each, and only
while the query runs: of the time between two batches that part counts which comes after the start of the run
that planned the second. So a batch that is done again, by whichever run, is judged as it was. A batch takes
something of every source that has anything left; a stream without a row in it has nothing more to bring.

    batches at 0 s and 3610 s, the second of a run that began at 3600 s: 10 s of silence
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from watersmeet.query import BEGINNING, NEVER, Query, Stream


@dataclass(frozen=True)
class Punctuation:
    """What a micro-batch says of progress: largest event times by stream, the batch's own time, the end.

    `heard` are streams that brought rows, be it without a usable event time; `began_us` is when the run began
    that planned the batch, as far as it is known; `marks` are those of streams of answers.
    """

    max_ts: Mapping[str, int] = field(default_factory=dict)
    now_us: int | None = None
    is_end: bool = False
    heard: frozenset[str] = frozenset()
    began_us: int = BEGINNING
    marks: Mapping[str, int] = field(default_factory=dict)

    def of(self, streams: Collection[str]) -> Punctuation:
        """What it says of some streams."""
        max_ts = {stream: ts for stream, ts in self.max_ts.items() if stream in streams}
        marks = {stream: mark for stream, mark in self.marks.items() if stream in streams}
        return replace(self, max_ts=max_ts, heard=self.heard.intersection(streams), marks=marks)

    @property
    def sources(self) -> frozenset[str]:
        """The streams that brought anything."""
        return self.heard.union(self.max_ts, self.marks)


@dataclass(frozen=True)
class LatenessPolicy:
    """How late tuples of a stream may be, and how long its silence is waited for.

    A stream of answers goes `by_marks`: how far it has come is reported to it, and its tuples do not say.
    """

    lateness_us: int = 0
    idle_after_us: int | None = None
    by_marks: bool = False

    @staticmethod
    def of(stream: Stream) -> LatenessPolicy:
        """What a declaration says."""
        return LatenessPolicy(stream.lateness_us, stream.idle_after_us, stream.answers is not None)


def bound_us(max_ts: int, lateness: LatenessPolicy) -> int:
    """How far a stream has come whose largest event time is this; never before the beginning of time."""
    return max(BEGINNING, max_ts - lateness.lateness_us)


def lateness_policies(query: Query) -> dict[str, LatenessPolicy]:
    return {stream.name: LatenessPolicy.of(stream) for stream in query.streams}


def describe_policies(lateness: Mapping[str, LatenessPolicy]) -> str:
    """All that a watermark goes by, as a text: a bucket that is kept goes by what it was made with."""
    return ", ".join(f"{name} {each.lateness_us} {each.idle_after_us}" for name, each in lateness.items())


@dataclass
class Silence:
    """Follows when streams last brought rows, by the clock of the batches, less the time stopped since."""

    lateness: Mapping[str, LatenessPolicy]
    last_seen_us: dict[str, int] = field(default_factory=dict)

    def idle(self, punctuation: Punctuation) -> set[str]:
        """Closes a micro-batch; the streams that nobody waits for any more."""
        now = punctuation.now_us
        if now is None:
            return set()
        self._leave_out_stop(now, punctuation.began_us)
        for stream in self.lateness:
            if stream in punctuation.sources or stream not in self.last_seen_us:
                self.last_seen_us[stream] = now
        return {
            stream
            for stream, lateness in self.lateness.items()
            if lateness.idle_after_us is not None and now - self.last_seen_us[stream] > lateness.idle_after_us
        }

    def _leave_out_stop(self, now: int, began_us: int) -> None:
        """Moves all streams on by the time before the run; some stream was last seen in the batch before."""
        if self.last_seen_us:
            before = max(self.last_seen_us.values())
            stopped = max(0, min(began_us, now) - before)
            self.last_seen_us.update({stream: seen + stopped for stream, seen in self.last_seen_us.items()})


@dataclass
class Watermark:
    """Follows the streams of one query."""

    lateness: Mapping[str, LatenessPolicy]
    now: int = BEGINNING
    max_ts: dict[str, int] = field(default_factory=dict)
    _last_seen_us: dict[str, int] = field(default_factory=dict)
    marks: dict[str, int] = field(default_factory=dict)  # of streams of answers

    def __post_init__(self) -> None:
        self._silence = Silence(self.lateness, self._last_seen_us)

    def advance(self, punctuation: Punctuation) -> int:
        """Closes a micro-batch."""
        for stream, ts in punctuation.max_ts.items():
            self.max_ts[stream] = max(ts, self.max_ts.get(stream, BEGINNING))
        for stream, mark in punctuation.marks.items():
            self.marks[stream] = max(mark, self.marks.get(stream, BEGINNING))
        idle = self._silence.idle(punctuation)
        bounds = [
            self._bound(stream, lateness) for stream, lateness in self.lateness.items() if stream not in idle
        ]
        if punctuation.is_end:
            self.now = NEVER
        elif bounds:
            self.now = max(self.now, min(bounds))
        return self.now

    def _bound(self, stream: str, lateness: LatenessPolicy) -> int:
        if lateness.by_marks:
            return self.marks.get(stream, BEGINNING)
        return bound_us(self.max_ts[stream], lateness) if stream in self.max_ts else BEGINNING

    def snapshot(self) -> dict[str, object]:
        marks = {"marks": self.marks} if self.marks else {}
        return {"now": self.now, "max_ts": self.max_ts, "last_seen_us": self._last_seen_us, **marks}

    @classmethod
    def restore(cls, lateness: Mapping[str, LatenessPolicy], snapshot: Mapping[str, Any]) -> Watermark:
        max_ts, seen = dict(snapshot["max_ts"]), dict(snapshot["last_seen_us"])
        return cls(lateness, snapshot["now"], max_ts, seen, dict(snapshot.get("marks", {})))

"""What counts of the tuples that arrive: not those that are late, nor those too far ahead of their time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from watersmeet.query import BEGINNING, Query, Stream


@dataclass(frozen=True)
class Tuple:
    """One tuple of a stream: its event time in microseconds and its values by declared column name."""

    ts: int
    values: Mapping[str, Any]


MicroBatch = Mapping[str, Sequence[Tuple]]  # what arrived together, by stream name


@dataclass(frozen=True)
class Clock:
    """The time of each micro-batch, where it is known, and when the runs began that made them."""

    times: Sequence[int | None] = ()
    starts: Sequence[int] = (BEGINNING,)
    marks: Sequence[Mapping[str, int]] = ()  # with each micro-batch, how far streams of answers have come

    def reached(self, stream: Stream, batch: int) -> int:
        """How far a stream of answers has come with a micro-batch and those before it."""
        said = (marks[stream.name] for marks in self.marks[: batch + 1] if stream.name in marks)
        return max(said, default=BEGINNING)

    def time(self, batch: int) -> int | None:
        return self.times[batch] if batch < len(self.times) else None

    def running(self, before: int, now: int) -> int:
        """The time from one micro-batch to the next, as far as the query is known to have been running."""
        began = max((start for start in self.starts if start <= now), default=now)
        return max(0, now - max(before, began))


@dataclass(frozen=True)
class Arrivals:
    """The tuples that count of each stream, in order of arrival, what was left out, and the watermark."""

    accepted: dict[str, list[Tuple]]
    late: dict[str, int]
    ahead: dict[str, int]
    watermark: int


def accept(query: Query, batches: Iterable[MicroBatch]) -> tuple[dict[str, list[Tuple]], dict[str, int]]:
    """The tuples that count, in order of arrival, and how many were late, for each stream of the query."""
    came = take_in(query, batches)
    return came.accepted, came.late


def take_in(query: Query, batches: Iterable[MicroBatch], clock: Clock | None = None) -> Arrivals:
    """Goes through micro-batches: a tuple counts unless it is late, or too far ahead of its batch."""
    clock = clock or Clock()
    accepted: dict[str, list[Tuple]] = {stream.name: [] for stream in query.streams}
    late, ahead = dict.fromkeys(accepted, 0), dict.fromkeys(accepted, 0)
    silent_us = dict.fromkeys(accepted, 0)
    clocked: int | None = None  # the time of the batch before
    reached = BEGINNING
    for number, batch in enumerate(batches):
        marked = clock.marks[number] if number < len(clock.marks) else {}
        if not any(batch.get(name) or name in marked for name in accepted):
            continue
        now = clock.time(number)
        for stream in query.streams:
            arrived = batch.get(stream.name, ())
            due = [tuple_ for tuple_ in arrived if not _is_ahead(stream, tuple_, now)]
            in_time = [tuple_ for tuple_ in due if tuple_.ts >= reached or stream.answers is not None]
            accepted[stream.name] += in_time
            late[stream.name] += len(due) - len(in_time)
            ahead[stream.name] += len(arrived) - len(due)
            if now is not None:
                passed_us = 0 if clocked is None else clock.running(clocked, now)
                silent_us[stream.name] = 0 if arrived else silent_us[stream.name] + passed_us
        idle = [] if now is None else [one for one in query.streams if _is_idle(one, silent_us[one.name])]
        clocked = clocked if now is None else now
        waited_for = [stream for stream in query.streams if stream not in idle]
        if waited_for:
            reached = max(reached, min(_reached(stream, accepted, clock, number) for stream in waited_for))
    return Arrivals(accepted, late, ahead, reached)


def watermark(query: Query, seen: Mapping[str, Sequence[Tuple]]) -> int:
    """The instant before which no more tuples are taken; the beginning until every stream has been seen."""
    return min(_bound(stream, seen.get(stream.name, ())) for stream in query.streams)


def _bound(stream: Stream, seen: Sequence[Tuple]) -> int:
    """How far a stream has come, if its tuples are as late as they may be."""
    newest = max((tuple_.ts for tuple_ in seen), default=BEGINNING)
    return max(BEGINNING, newest - stream.lateness_us)


def _reached(stream: Stream, seen: Mapping[str, Sequence[Tuple]], clock: Clock, batch: int) -> int:
    if stream.answers is not None:
        return clock.reached(stream, batch)
    return _bound(stream, seen[stream.name])


def _is_ahead(stream: Stream, tuple_: Tuple, now: int | None) -> bool:
    if now is None or stream.max_ahead_us is None or stream.event_time is None:
        return False
    return tuple_.ts > now + stream.max_ahead_us


def _is_idle(stream: Stream, silent_us: int) -> bool:
    return stream.idle_after_us is not None and silent_us > stream.idle_after_us

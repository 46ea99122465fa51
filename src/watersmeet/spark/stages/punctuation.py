"""The punctuation of a micro-batch, from what its tasks report of the streams."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from watersmeet.kernel import Punctuation
from watersmeet.query import BEGINNING
from watersmeet.spark.exchange.messages import UNKNOWN

Reported = tuple[str, int, int]  # a stream, its largest event time, and the time of the batch


def punctuate(
    reports: Iterable[Reported],
    starts: Sequence[int],
    *,
    is_end: bool,
    marks: Iterable[tuple[str, int]] = (),
) -> Punctuation:
    """What tasks have said of a micro-batch; `starts` are those of the runs, where they are known.

    `marks` are those of streams of answers.

    A batch that is older than all of them was planned by a run nobody knows of: then none of the time before
    it counts.
    """
    max_ts: dict[str, int] = {}
    heard, now = set(), UNKNOWN
    for stream, newest, now_us in reports:
        heard.add(stream)
        now = max(now, now_us)
        if newest != UNKNOWN:
            max_ts[stream] = max(newest, max_ts.get(stream, UNKNOWN))
    marked: dict[str, int] = {}
    for stream, mark in marks:
        if mark != UNKNOWN:
            marked[stream] = max(mark, marked.get(stream, UNKNOWN))
    if now == UNKNOWN:
        return Punctuation(max_ts, None, is_end, frozenset(heard), marks=marked)
    began = max((start for start in starts if start <= now), default=now if starts else BEGINNING)
    return Punctuation(max_ts, now, is_end, frozenset(heard), began, marked)

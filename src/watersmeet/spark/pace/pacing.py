"""A streaming query whose sources are paced: what its batches report decides what the next ones may take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql.streaming.query import StreamingQuery

from watersmeet.spark.metrics.progress import Progress
from watersmeet.spark.pace.pace import Pace, StreamBatch
from watersmeet.spark.pace.read_limits import ReadLimits
from watersmeet.spark.sources.read_sources import Sources


@dataclass
class Pacing:
    """One run of a query; `streams` names the stream of each input by its alias."""

    streams: Mapping[str, str]
    pace: Pace
    limits: ReadLimits
    has_held: bool = False  # whether some stream has waited in this run, so that it may have more at its end
    _works: bool = True

    def advance(self, progress: Progress) -> None:
        """Takes a batch into account."""
        if self._works and self.pace.limits:
            allowed = self.pace.advance(stream_batches(progress, self.streams), progress.arrived_bytes)
            self._change(allowed)

    def release(self) -> None:
        """Lets all streams go on."""
        if self.is_holding:
            self._change(self.pace.release())

    @property
    def is_holding(self) -> bool:
        """Whether some stream waits, so that there may be tuples although no source gives any."""
        return self._works and bool(self.pace.waiting)

    def _change(self, allowed: Mapping[str, int]) -> None:
        self._works = self.limits.change(self.pace.limits, allowed)
        self.has_held |= self.is_holding


def start_pacing(
    query: StreamingQuery,
    sources: Sources,
    inputs: Sequence[tuple[str, str]],
    leaves: Sequence[str | None],
    *,
    is_finite: bool,
) -> Pacing:
    """Paces a query that has just started; `inputs` are aliases with their streams.

    `leaves` names the streams in the order in which the query's plan reads them.
    """
    names = {stream for _, stream in inputs}
    limits = {name: limit for name, limit in sources.limits.items() if name in names}
    pace = Pace(limits, sources.batch_bytes, is_finite)
    return Pacing(dict(inputs), pace, ReadLimits(query, leaves))


def stream_batches(progress: Progress, streams: Mapping[str, str]) -> dict[str, StreamBatch]:
    """What each stream has brought in a batch; one that is read under several aliases is counted once."""
    found: dict[str, StreamBatch] = {}
    for item in progress.inputs:
        name = streams.get(item.alias, item.alias)
        rows = max(item.rows, found[name].rows) if name in found else item.rows
        found[name] = StreamBatch(rows, item.max_ts_us)
    return found

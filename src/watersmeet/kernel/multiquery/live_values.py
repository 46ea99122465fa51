"""How many tuples of a value are alive in each feed, by which results choose their way.

After RJoin (Idreos, Liarou, Koubarakis, EDBT 2008), section 6: a rewritten query goes on to the candidate
with the lowest rate of incoming tuples (RIC), asked for value by value. What a result will meet is that rate
times the window, so we count the tuples that are alive: the frequent values each by itself, in summaries that
fade as tuples leave their window (`fading_summary`), all others by their average. A way that joins several
feeds at once is worth the product: the results that one result would become there.

Guarantee: what is followed is a function of the summaries heard and of the streams' progress alone. Every
bucket of the first level hears the same, so all know the same, and a batch that is done again chooses again
in the same way. Any choice gives the right answers; a bad one costs.

Where we differ: nobody is asked. Every packing task tells all buckets what it has sent.

    b: 90 of 100 tuples have x = 1, c: 2 of 100 have y = 7     (x = 1, y = 7) meets c first, then b
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.kernel.columns.hashing import Hashes, find_values, hash_column
from watersmeet.kernel.routing.fading_summary import elapsed_us, fade
from watersmeet.kernel.routing.heavy_hitters import Summary, summarise
from watersmeet.query import BEGINNING, NEVER
from watersmeet.query.shared_dataflow import Expected, SharedDataflow, Way

SIZE = 64  # values counted of a feed: of a value that is not, fewer than one tuple in SIZE is alive

Heard = tuple[str, int, Summary]  # a feed, the earliest event time of some tuples, their values
Longs = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class LiveValues:
    """What is known of the feeds that results may go on to meet."""

    summaries: Mapping[str, Summary] = field(default_factory=dict)  # by feed; none: nothing was heard
    clocks: Mapping[str, int] = field(default_factory=dict)  # how far each feed's stream had come by then

    def followed(
        self, dataflow: SharedDataflow, heard: Iterable[Heard], after: Mapping[str, int]
    ) -> LiveValues:
        """What is known after a micro-batch; `after` is each stream's progress."""
        if not dataflow.expected:
            return self
        told: dict[str, list[tuple[int, Summary]]] = {}
        for name, min_ts, summary in heard:
            told.setdefault(name, []).append((min_ts, summary))
        streams = {feed.name: feed.stream for feed in dataflow.feeds}
        windows = {one.source: one.window.duration_us for one in dataflow.relations if one.window is not None}
        summaries, clocks = dict(self.summaries), dict(self.clocks)
        for name in (one.feed for one in dataflow.expected):
            clock = after.get(streams[name], BEGINNING)
            if not BEGINNING < clock < NEVER:  # nothing was seen, or nothing more will be
                continue
            new = told.get(name, [])
            since, duration = self.clocks.get(name), windows[name]
            passed_us = elapsed_us(since, clock, (min_ts for min_ts, _ in new))
            summaries[name] = fade(
                self.summaries.get(name, Summary()),
                (summary for _, summary in new),
                passed_us / duration if duration else 0.0,
                SIZE,
            )
            clocks[name] = clock if since is None else max(clock, since)
        return LiveValues(summaries, clocks)

    def to_json(self) -> dict[str, Any]:
        return {
            "summaries": {name: summary.to_json() for name, summary in self.summaries.items()},
            "clocks": dict(self.clocks),
        }

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> LiveValues:
        summaries = {name: Summary.from_json(each) for name, each in fields["summaries"].items()}
        return cls(summaries, fields["clocks"])

    def choose(
        self, ways: Sequence[Way], routes: Sequence[pa.Array], expected: Mapping[str, Expected]
    ) -> Longs:
        """For each result the way by which it becomes the fewest; of equal ones the first.

        `routes` has, for each way, the values by which results would be sent. NULL meets nothing.
        """
        becoming = []
        for way, column in zip(ways, routes, strict=True):
            hashes, results = hash_column(column), np.ones(len(column))
            for name in way.meets:
                results *= self._live(expected[name], hashes)
            if column.null_count:
                results[np.asarray(column.is_null())] = -1.0
            becoming.append(results)
        return np.asarray(np.argmin(np.stack(becoming), axis=0), np.int64)

    def _live(self, expected: Expected, hashes: Hashes) -> Floats:
        listed = self._listed.get(expected.feed)
        if listed is None:
            return np.full(len(hashes), expected.live / expected.distinct)
        values, counts, rest = listed
        others = rest / max(1.0, expected.distinct - len(values))
        places = find_values(hashes, values)
        return np.where(places >= 0, np.append(counts, others)[places], others)

    @cached_property
    def _listed(self) -> dict[str, tuple[Hashes, Floats, float]]:
        """Of each feed the frequent values in order, the tuples of each, and those of all others."""
        listed = {}
        for name, summary in self.summaries.items():
            ordered = sorted(summary.counts.items())
            counts = np.array([count for _, count in ordered], np.float64)
            rest = max(0.0, summary.total - float(counts.sum()))
            listed[name] = np.array([value for value, _ in ordered], np.uint64), counts, rest
        return listed


NOTHING_KNOWN = LiveValues()


def encode_reports(sent: Mapping[str, pa.Array], min_ts: int) -> bytes:
    """What a packing task tells of the values it has sent, by feed."""
    found = {name: summarise(hash_column(column.drop_null()), SIZE) for name, column in sent.items()}
    return json.dumps([[name, min_ts, summary.to_json()] for name, summary in found.items()]).encode()


def decode_reports(blobs: Iterable[bytes]) -> list[Heard]:
    """What all packing tasks have told, whatever the order in which it came."""
    return [
        (name, min_ts, Summary.from_json(fields))
        for blob in sorted(blobs)
        for name, min_ts, fields in json.loads(blob)
    ]

"""What a shared dataflow sends and keeps of its streams, compared with indexing everything.

RJoin indexes a whole tuple under every attribute of its stream, whatever the queries ask for; DHTJoin noted
that the attributes of known queries suffice. Counted for one tuple of each stream:

    sent    copies: one per feed, against one per attribute
    values  in those copies: keys and columns of the feeds, against all attributes in every copy
    kept    copies in state: one per relation over the stream, against one per attribute

The event time goes with every copy in both cases and does not count as an attribute. A stream that no query
reads sends nothing.

Example: s1(a, b, c), where queries join by a and answer b: 1 copy of 2 values, against 3 copies of 3.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from watersmeet.query import Stream
from watersmeet.query.shared_dataflow import SharedDataflow


@dataclass(frozen=True)
class StreamSavings:
    """For a tuple of one stream: copies sent, values in them, copies kept; and how many attributes it has."""

    stream: str
    attributes: int
    sent: int
    values: int
    kept: int

    @property
    def values_of_everything(self) -> int:
        return self.attributes * self.attributes


@dataclass(frozen=True)
class DataflowSavings:
    """All streams; shares are weighted by the tuples of each, or equally where `tuples` is not given."""

    streams: tuple[StreamSavings, ...]

    def sent_share(self, tuples: Mapping[str, float] | None = None) -> float:
        """Copies sent, as a share of those that indexing everything sends."""
        return self._share([(each.sent, each.attributes) for each in self.streams], tuples)

    def values_share(self, tuples: Mapping[str, float] | None = None) -> float:
        """Values sent, as a share of those that indexing everything sends."""
        return self._share([(each.values, each.values_of_everything) for each in self.streams], tuples)

    def _share(self, counts: Sequence[tuple[int, int]], tuples: Mapping[str, float] | None) -> float:
        weights = [1.0 if tuples is None else tuples.get(each.stream, 0.0) for each in self.streams]
        ours = math.fsum(weight * own for weight, (own, _) in zip(weights, counts, strict=True))
        everything = math.fsum(weight * all_ for weight, (_, all_) in zip(weights, counts, strict=True))
        return ours / everything if everything else 0.0


def measure_savings(dataflow: SharedDataflow, streams: Sequence[Stream]) -> DataflowSavings:
    """What a dataflow saves on each of these streams."""
    feed_stream = {feed.name: feed.stream for feed in dataflow.feeds}
    return DataflowSavings(
        tuple(
            StreamSavings(
                stream.name,
                sum(column.name != stream.event_time for column in stream.columns),
                sum(feed.stream == stream.name for feed in dataflow.feeds),
                sum(
                    sum(
                        name != stream.event_time
                        for name in (*(key.name for key in feed.keys), *feed.columns)
                    )
                    for feed in dataflow.feeds
                    if feed.stream == stream.name
                ),
                sum(feed_stream.get(relation.source) == stream.name for relation in dataflow.relations),
            )
            for stream in streams
        )
    )

"""What a ring sends and keeps of its streams, against indexing everything.

RJoin indexes a tuple under every attribute of its stream, whole, whoever may ask for it; DHTJoin noted that
only the attributes of known queries need be. Counted for one tuple of each stream:

    sent    copies: one a feed, against one an attribute
    values  in those copies: keys and columns of the feeds, against all attributes in every copy
    kept    copies in state: one a relation over the stream, against one an attribute

The event time goes with every copy either way and is no attribute. A stream that no query reads sends
nothing.

Example: s1(a, b, c) of which queries join by a and answer b: 1 copy of 2 values, against 3 copies of 3.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from watersmeet.query import Stream
from watersmeet.query.shared_dataflow import SharedDataflow


@dataclass(frozen=True)
class StreamSavings:
    """Of one stream's tuple: copies sent, values in them, copies kept; and its attributes."""

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
    """All streams of a ring; shares weigh them by the tuples each has, alike where nothing is said."""

    streams: tuple[StreamSavings, ...]

    def sent_share(self, tuples: Mapping[str, float] | None = None) -> float:
        """Copies sent, as a share of those that indexing everything sends."""
        return self._share([(each.sent, each.attributes) for each in self.streams], tuples)

    def values_share(self, tuples: Mapping[str, float] | None = None) -> float:
        """Values sent, as a share of those that indexing everything sends."""
        return self._share([(each.values, each.values_of_everything) for each in self.streams], tuples)

    def kept_share(self, tuples: Mapping[str, float] | None = None) -> float:
        """Copies kept, as a share of those that indexing everything keeps."""
        return self._share([(each.kept, each.attributes) for each in self.streams], tuples)

    def _share(self, counts: Sequence[tuple[int, int]], tuples: Mapping[str, float] | None) -> float:
        weights = [1.0 if tuples is None else tuples.get(each.stream, 0.0) for each in self.streams]
        ours = math.fsum(weight * own for weight, (own, _) in zip(weights, counts, strict=True))
        everything = math.fsum(weight * all_ for weight, (_, all_) in zip(weights, counts, strict=True))
        return ours / everything if everything else 0.0


def measure_savings(dataflow: SharedDataflow, streams: Sequence[Stream]) -> DataflowSavings:
    """What a ring spares of each of these streams."""
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

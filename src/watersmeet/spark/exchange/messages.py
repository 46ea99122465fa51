"""What a bucket of a join is sent: the kinds of rows in Spark's shuffle.

Messages of one stage's output are the messages of the next stage's input, so tuples never become rows of the
JVM between them. All name their bucket by its label, and inputs by their number in the query.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from watersmeet.kernel import RowPositions
from watersmeet.query import BEGINNING
from watersmeet.spark.exchange.codec import Codec
from watersmeet.spark.exchange.packed_chunk import PackedChunk

UNKNOWN = BEGINNING  # no event time was seen, no batch time is known


@dataclass(frozen=True)
class Tuples:
    """Tuples of an input; the last `copies` of them are counted in another bucket."""

    bucket: int
    input: int
    chunk: PackedChunk
    copies: int = 0


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far an input's stream has come in a task, and what the task reports beside."""

    bucket: int
    input: int
    max_ts: int = UNKNOWN
    now_us: int = UNKNOWN  # the batch's own time, where some stream is judged by it
    table: int = 0  # the digest of the routing table by which the task has sent tuples
    summary: bytes = b""  # of the frequent values, for the first bucket
    mark: int = UNKNOWN  # of a stream of answers: no later tuple of it is before


@dataclass(frozen=True)
class ReadRows:
    """How many rows of an input a task has read, how many meet its filters, and of those lack a key."""

    read: int = 0
    kept: int = 0
    lacking: int = 0
    null_keys: Mapping[int, int] = field(default_factory=dict)  # by attribute class

    def to_bytes(self) -> bytes:
        return json.dumps([self.read, self.kept, self.lacking, sorted(self.null_keys.items())]).encode()

    @classmethod
    def from_bytes(cls, body: bytes) -> ReadRows:
        if not body:
            return cls()
        read, kept, lacking, null_keys = json.loads(body)
        return cls(read, kept, lacking, dict(null_keys))

    def __add__(self, other: ReadRows) -> ReadRows:
        both = self.null_keys.keys() | other.null_keys.keys()
        null_keys = {cls: self.null_keys.get(cls, 0) + other.null_keys.get(cls, 0) for cls in both}
        return ReadRows(
            self.read + other.read, self.kept + other.kept, self.lacking + other.lacking, null_keys
        )


@dataclass(frozen=True, kw_only=True)
class Dropped:
    """What a task has read of an input, and how many tuples it left out; the first bucket counts them."""

    bucket: int
    input: int
    late: int = 0
    null_times: int = 0  # their event time was NULL
    ahead: int = 0  # their event time was too far ahead of the batch's
    read: bytes = b""  # `ReadRows`


@dataclass(frozen=True)
class FileName:
    """A file of an input that the bucket is to read itself."""

    bucket: int
    input: int
    path: str
    now_us: int = UNKNOWN


@dataclass(frozen=True)
class EndOfInput:
    """No stream has more to come."""

    bucket: int


@dataclass(frozen=True)
class Positions:
    """The row positions that the numbering stage has just given to tuples of an input, by event time."""

    bucket: int
    input: int
    first: int
    event_times: bytes

    @classmethod
    def of(cls, bucket: int, input: int, positions: RowPositions) -> Positions:
        return cls(bucket, input, positions.first, positions.ts.astype(np.int64).tobytes())

    @property
    def positions(self) -> RowPositions:
        return RowPositions(self.first, np.frombuffer(self.event_times, np.int64))


@dataclass(frozen=True)
class NumberedUpTo:
    """How far the numbering stage has come, and the bucket's part of the bytes that wait there."""

    bucket: int
    watermark_us: int
    waiting_bytes: int


@dataclass(frozen=True)
class Results:
    """Combinations that a stage of a pipeline has put together, for the one that joins them on."""

    bucket: int
    stage: int  # that they are of
    chunk: PackedChunk


@dataclass(frozen=True)
class StageMetrics:
    """The metrics of a bucket of an earlier stage of a pipeline, on their way out."""

    bucket: int
    text: str


Message = (
    Tuples | Progress | Dropped | FileName | EndOfInput | Positions | NumberedUpTo | Results | StageMetrics
)

MESSAGES: Codec[Message] = Codec(
    Tuples, Progress, Dropped, FileName, EndOfInput, Positions, NumberedUpTo, Results, StageMetrics
)

"""Links in process: a folder as a list of files, a topic as a list of messages that come at least once."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from watersmeet.spark.exchange.packed_chunk import PackedChunk
from watersmeet.spark.multiquery.messages import LevelRows
from watersmeet.spark.sites.batch_contents import contents_of, describe_messages
from watersmeet.spark.sites.link_file import BODY, MARKS, SCHEMA, SOURCE, Marks
from watersmeet.spark.sites.link_record import NOTHING, LinkCounts
from watersmeet.spark.sites.messages import SITE_MESSAGES
from watersmeet.spark.sites.topic_messages import (
    BUCKET,
    KEY,
    OFFSET,
    PARTITION,
    VALUE,
    MessageKey,
    PackPieces,
    end_of_batch,
)


@dataclass
class Log:
    """A link: what was put on it, in order, and what the receiver has read."""

    files: list[pa.RecordBatch] = field(default_factory=list)
    read: set[int] = field(default_factory=set)
    last: int = NOTHING  # the batch that wrote the newest file
    counts: LinkCounts = field(default_factory=LinkCounts)  # what has crossed, each batch once

    @property
    def unread(self) -> list[int]:
        return [number for number in range(len(self.files)) if number not in self.read]

    def publish(
        self, rows: Sequence[LevelRows], marks: Mapping[str, int], fingerprint: str, number: int
    ) -> None:
        """Puts what a batch sends onto the link."""
        self._count(rows)
        columns = {
            SOURCE: [*(message.source for message in rows), MARKS],
            BODY: [
                *(message.chunk.blob for message in rows),
                Marks(fingerprint, number, self.last, marks).body(),
            ],
        }
        self.files.append(pa.RecordBatch.from_pydict(columns, schema=SCHEMA))
        self.last = number

    def _count(self, rows: Sequence[LevelRows]) -> None:
        described = describe_messages(iter([SITE_MESSAGES.to_arrow(list(rows))])) if rows else ()
        found = contents_of(row for batch in described for row in batch.to_pylist())
        self.counts = sum(found.counts.values(), self.counts) + LinkCounts(batches=1)


@dataclass
class TopicLog(Log):
    """A topic: each message is read by itself, and some come again, as of a batch that is done again."""

    source: str = ""
    target: str = ""
    piece_bytes: int = 40
    random: random.Random = field(default_factory=random.Random)
    sent: list[pa.RecordBatch] = field(default_factory=list)  # each message once

    def publish(
        self, rows: Sequence[LevelRows], marks: Mapping[str, int], fingerprint: str, number: int
    ) -> None:
        self._count(rows)
        key = MessageKey(
            source=self.source,
            target=self.target,
            query="q",
            plan=fingerprint,
            writer="writer",
            number=number,
            batch_plan=f"plan {number}",
        )
        for is_last in [*[False] * self.random.choice([0, 0, 1, 2]), True]:
            messages = self._messages(rows, marks, key)
            self.sent += messages if is_last else []
            tried = (
                messages if is_last else self.random.sample(messages, self.random.randint(0, len(messages)))
            )
            self.files += tried
        self.last = number

    def _messages(
        self, rows: Sequence[LevelRows], marks: Mapping[str, int], key: MessageKey
    ) -> list[pa.RecordBatch]:
        """What a try of a batch sends: its rows in another order each time, and in other chunks."""
        shuffled = [_shuffled(message, self.random) for message in rows]
        self.random.shuffle(shuffled)
        columns = {
            BUCKET: pa.array([message.bucket for message in shuffled], pa.int32()),
            SOURCE: pa.array([message.source for message in shuffled], pa.string()),
            BODY: pa.array([message.chunk.blob for message in shuffled], pa.binary()),
        }
        packed = PackPieces(key, self.piece_bytes)(iter([pa.RecordBatch.from_pydict(columns)]))
        pairs = [(one.column(KEY)[0].as_py(), one.column(VALUE)[0].as_py()) for one in packed]
        groups = sorted({(message.source, message.bucket) for message in rows})
        pairs.append(end_of_batch(key, self.last, marks, groups))
        return [_message(*pair) for pair in pairs]


def _message(key: bytes, value: bytes) -> pa.RecordBatch:
    """A message as Spark reads it."""
    columns = {KEY: [key], VALUE: [value], PARTITION: pa.array([0], pa.int32()), OFFSET: [0]}
    return pa.RecordBatch.from_pydict(columns)


def _shuffled(message: LevelRows, random_: random.Random) -> LevelRows:
    """The rows of a message in another order."""
    batch = message.chunk.batch
    order = list(range(batch.num_rows))
    random_.shuffle(order)
    rows = PackedChunk(batch.take(pa.array(order, pa.int64())))
    return LevelRows(message.bucket, message.level, message.source, rows)

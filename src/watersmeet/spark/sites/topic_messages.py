"""What is in a message of a link that is a topic: a piece of what a batch sends, or the batch's end.

    key    JSON: ["watersmeet link", 1, from, to, query, plan, writer, batch, its plan, send, bucket, piece,
           of how many]
    value  a piece: an Arrow chunk, as in a link's file; an end, of send "": JSON, the batch before, the
           marks, and the groups (send, bucket) that the batch has pieces of

Kafka takes messages at least once. A batch that is done again makes the same pieces under the same keys
(`kernel/columns/canonical_order.py`), so the receiver counts each once (`kernel/progress/link_pieces.py`).
Where it splits a message's rows on their way to buckets, each bucket decides for its own part, and all
buckets are told of every piece: so all of them know which batches are whole.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, replace
from typing import Any

import pyarrow as pa

from watersmeet.errors import DataError
from watersmeet.kernel import LinkBatch, route_rows
from watersmeet.kernel.columns.canonical_order import cut
from watersmeet.query.shared_dataflow import Relation
from watersmeet.spark.exchange.packed_chunk import PackedChunk, decode, encode
from watersmeet.spark.sites.link_file import BODY, MARKS, SOURCE, refuse_plan
from watersmeet.spark.sites.messages import SITE_MESSAGES, PieceRows, PiecesOfLink, SiteMessage

KEY, VALUE, PARTITION, OFFSET, BUCKET = "key", "value", "partition", "offset", "bucket"
MESSAGE_SCHEMA = pa.schema([(KEY, pa.binary()), (VALUE, pa.binary())])
MESSAGE_SQL = f"{KEY} binary, {VALUE} binary"
PIECE_BYTES = 512 << 10  # of a message: a broker takes a megabyte, unless it is told otherwise
_MAGIC = ["watersmeet link", 1]


@dataclass(frozen=True, kw_only=True)
class MessageKey:
    """Which message it is, of all that any link may bring."""

    source: str  # the site it comes from
    target: str
    query: str
    plan: str  # that the sites go by
    writer: str
    number: int  # of the sender's batch
    batch_plan: str
    send: str = MARKS
    bucket: int = 0
    piece: int = 0
    of: int = 1

    def to_bytes(self) -> bytes:
        return json.dumps([*_MAGIC, *astuple(self)], separators=(",", ":")).encode()

    @property
    def batch(self) -> LinkBatch:
        return LinkBatch(self.source, self.writer, self.number, self.batch_plan)


_FIELDS = tuple(MessageKey.__dataclass_fields__)


def read_key(key: bytes | None) -> MessageKey | None:
    """A message's key; None if it is no message of a link."""
    try:
        found = json.loads(key or b"")
    except ValueError:
        return None
    if not isinstance(found, list) or found[:2] != _MAGIC or len(found) != len(_FIELDS) + 2:
        return None
    return MessageKey(**dict(zip(_FIELDS, found[2:], strict=True)))


def end_of_batch(
    key: MessageKey, previous: int, marks: Mapping[str, int], groups: Sequence[tuple[str, int]]
) -> tuple[bytes, bytes]:
    """The message that ends a batch."""
    fields = {"previous": previous, "marks": dict(marks), "groups": sorted(groups)}
    return key.to_bytes(), json.dumps(fields, separators=(",", ":")).encode()


@dataclass(frozen=True)
class PackPieces:
    """Makes messages of a batch's rows (bucket, source, body); called by `mapInArrow` for each bucket."""

    key: MessageKey  # of the batch's end
    nbytes: int = PIECE_BYTES

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        groups: dict[tuple[str, int], list[pa.RecordBatch]] = {}
        for batch in batches:
            sources, buckets = batch.column(SOURCE).to_pylist(), batch.column(BUCKET).to_pylist()
            for source, bucket, body in zip(sources, buckets, batch.column(BODY), strict=True):
                groups.setdefault((source, bucket), []).append(decode(body.as_buffer()))
        for (source, bucket), chunks in groups.items():
            pieces = cut(pa.Table.from_batches(chunks), self.nbytes)
            for number, piece in enumerate(pieces):
                key = replace(self.key, send=source, bucket=bucket, piece=number, of=len(pieces))
                columns = [pa.array([key.to_bytes()]), pa.array([encode(piece)])]
                yield pa.RecordBatch.from_arrays(columns, schema=MESSAGE_SCHEMA)


@dataclass(frozen=True)
class UnpackTopic:
    """Makes messages for buckets of those of a topic; called by `mapInArrow` at the site they come to."""

    link: str  # the site they come from
    site: str
    plan: str
    ports: Mapping[str, Relation]  # by the name of the send
    labels: tuple[int, ...]
    query: str = ""
    topic: str = ""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            found: list[SiteMessage] = []
            noted: list[dict[str, Any]] = []
            for row in range(batch.num_rows):
                key = self._key(batch, row)
                if key is None:
                    continue
                body = batch.column(VALUE)[row]
                note: dict[str, Any] = asdict(key)
                if key.send == MARKS:
                    note["end"] = json.loads(body.as_py())
                else:
                    found += self._rows(key, decode(body.as_buffer()))
                noted.append(note)
            if noted:
                text = json.dumps(noted).encode()
                found += [PiecesOfLink(label, text) for label in self.labels]
                yield SITE_MESSAGES.to_arrow(found)

    def _key(self, batch: pa.RecordBatch, row: int) -> MessageKey | None:
        """The key of a message for this query; None if it is for another query of the same sites."""
        key = read_key(batch.column(KEY)[row].as_py())
        if key is None or (key.source, key.target) != (self.link, self.site):
            where = f"partition {batch.column(PARTITION)[row]}, offset {batch.column(OFFSET)[row]}"
            what = "none of a link's" if key is None else f"of the link from {key.source} to {key.target}"
            raise DataError(
                f"topic {self.topic} has a message that is {what} ({where}), and is read as the link from "
                f"{self.link} to {self.site}. A link needs a topic of its own: name a new one, and start all "
                "sites anew with other checkpoints"
            )
        if key.query != self.query:
            return None
        if key.plan != self.plan:
            raise refuse_plan(self.link, key.plan, self.site, self.plan)
        return key

    def _rows(self, key: MessageKey, rows: pa.RecordBatch) -> Iterator[SiteMessage]:
        port = self.ports.get(key.send)
        if port is None:
            raise DataError(f"{self.link} sends {key.send}, which nothing at {self.site} awaits")
        for bucket, part in route_rows(rows, port.route, len(self.labels)):
            if part.num_rows:
                yield PieceRows(self.labels[bucket], piece_name(asdict(key)), PackedChunk(part))


def piece_name(note: Mapping[str, Any]) -> str:
    """What rows of a piece are known by within a micro-batch."""
    return json.dumps([note["source"], note["number"], note["send"], note["bucket"], note["piece"]])


def send_of(name: str) -> str:
    """The send of a piece, given its name."""
    return str(json.loads(name)[2])

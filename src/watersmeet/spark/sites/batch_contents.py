"""What is in a site's micro-batch on its way out: progress, the rows of each send, the times of answers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from watersmeet.kernel import ANSWER_TS, TS
from watersmeet.spark.exchange.codec import BUCKET, KIND
from watersmeet.spark.exchange.packed_chunk import decode
from watersmeet.spark.multiquery.messages import Answers, Bounds, LevelRows
from watersmeet.spark.sites.link_record import LinkCounts
from watersmeet.spark.sites.messages import SITE_MESSAGES
from watersmeet.spark.sites.semijoin.mail import FIRST_US, PRICED, TUPLES

_SOURCE = SITE_MESSAGES.column(LevelRows, "source")
_CHUNK = SITE_MESSAGES.column(LevelRows, "chunk")
_ANSWERS = SITE_MESSAGES.column(Answers, "chunk")
_BOUNDS = SITE_MESSAGES.column(Bounds, "body")
_FOUND = pa.schema(
    [
        ("kind", pa.string()),
        ("source", pa.string()),
        ("bucket", pa.int32()),
        ("rows", pa.int64()),
        ("bytes", pa.int64()),
        ("first_us", pa.int64()),
        ("last_us", pa.int64()),
        ("sum_us", pa.float64()),
        ("priced", pa.float64()),
        ("body", pa.binary()),
    ]
)
_FOUND_SQL = (
    "kind string, source string, bucket int, rows bigint, bytes bigint, first_us bigint, last_us bigint, "
    "sum_us double, priced double, body binary"
)


Bounded = dict[str, dict[str, int]]  # progress by origin, before a batch and after it


@dataclass(frozen=True)
class AnswerTimes:
    """How many combinations a batch has found, and their t: the earliest, the latest and the mean."""

    rows: int = 0
    first_us: int = 0
    last_us: int = 0
    mean_us: float = 0.0


@dataclass(frozen=True)
class BatchContents:
    """A site's micro-batch; `progress` is by origin, None where the batch did not get so far."""

    before: Mapping[str, int] | None = None
    after: Mapping[str, int] | None = None
    groups: tuple[tuple[str, int], ...] = ()  # sends that have rows, and in which buckets
    counts: Mapping[str, LinkCounts] = field(default_factory=dict)  # by send
    answers: AnswerTimes = AnswerTimes()


def look_into(messages: DataFrame) -> BatchContents:
    """What is in a batch, found in one pass."""
    wanted = messages.where(F.col(KIND).isin(Bounds.__name__, LevelRows.__name__, Answers.__name__))
    return contents_of(row.asDict() for row in wanted.mapInArrow(describe_messages, _FOUND_SQL).collect())


def describe_messages(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """A row about each message that carries rows or progress; called by `mapInArrow`."""
    for batch in batches:
        found = []
        names = batch.schema.names
        columns = {name: batch.column(names.index(name)) for name in names}
        kinds, buckets = columns[KIND].to_pylist(), columns[BUCKET].to_pylist()
        for n, (kind, bucket) in enumerate(zip(kinds, buckets, strict=True)):
            if kind == Bounds.__name__:
                found.append(_row(kind, body=columns[_BOUNDS][n].as_py()))
            elif kind == LevelRows.__name__:
                source = columns[_SOURCE][n].as_py()
                found.append(_chunk(kind, columns[_CHUNK][n], TS, source=source, bucket=bucket))
            elif kind == Answers.__name__:
                found.append(_chunk(kind, columns[_ANSWERS][n], ANSWER_TS))
        if found:
            yield pa.RecordBatch.from_pylist(found, schema=_FOUND)


def contents_of(rows: Iterable[Mapping[str, Any]]) -> BatchContents:
    """What these rows about a batch's messages say together."""
    bounds: list[Bounded] = []
    counts: dict[str, LinkCounts] = {}
    groups: dict[tuple[str, int], None] = {}
    answers: list[Mapping[str, Any]] = []
    for row in rows:
        if row["kind"] == Bounds.__name__:
            bounds.append(json.loads(bytes(row["body"])))
        elif row["kind"] == Answers.__name__:
            answers += [row] if row["rows"] else []
        else:
            send = row["source"]
            groups[send, row["bucket"]] = None
            own = LinkCounts(
                rows={send: row["rows"]},
                chunk_bytes={send: row["bytes"]},
                priced={} if row["priced"] is None else {send: row["priced"]},
                first_us=row["first_us"],
                last_us=row["last_us"],
            )
            counts[send] = counts.get(send, LinkCounts()) + own
    known = joined_bounds(bounds) or {}
    return BatchContents(
        known.get("before"), known.get("after"), tuple(sorted(groups)), counts, _answer_times(answers)
    )


def joined_bounds(reports: Sequence[Bounded]) -> Bounded | None:
    """The progress that all buckets together have reported: that of the slowest."""
    if not reports:
        return None
    return {
        when: {origin: min(one[when][origin] for one in reports) for origin in reports[0][when]}
        for when in ("before", "after")
    }


def _answer_times(rows: list[Mapping[str, Any]]) -> AnswerTimes:
    if not rows:
        return AnswerTimes()
    many = sum(row["rows"] for row in rows)
    return AnswerTimes(
        many,
        min(row["first_us"] for row in rows),
        max(row["last_us"] for row in rows),
        sum(row["sum_us"] for row in rows) / many,
    )


def _chunk(kind: str, body: pa.BinaryScalar, time: str, **facts: Any) -> dict[str, Any]:
    chunk = decode(body.as_buffer())
    if PRICED in chunk.schema.names:  # mail says itself what is in it
        facts["priced"] = pc.sum(chunk.column(PRICED)).as_py()
        first, last = pc.min(chunk.column(FIRST_US)).as_py(), pc.max(chunk.column(time)).as_py()
        tuples = pc.sum(chunk.column(TUPLES)).as_py()
        return _row(kind, rows=tuples, bytes=len(body.as_buffer()), first_us=first, last_us=last, **facts)
    times = pc.min_max(chunk.column(time).cast(pa.int64())).as_py()
    return _row(
        kind,
        rows=chunk.num_rows,
        bytes=len(body.as_buffer()),
        first_us=times["min"],
        last_us=times["max"],
        sum_us=float(pc.sum(chunk.column(time).cast(pa.float64())).as_py() or 0.0),
        **facts,
    )


def _row(kind: str, **facts: Any) -> dict[str, Any]:
    return {**dict.fromkeys(_FOUND.names), "kind": kind, **facts}

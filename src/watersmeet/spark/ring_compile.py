"""A ring becomes one streaming DataFrame: of answers in blobs, each with the shape it has.

    streams -> project -> pack -> exchange -> level 1 -> exchange -> level 2 ... -> answers

A stream is read once, whatever the number of queries; all streams of the ring are read at all times, since
Spark's checkpoint knows its sources by their place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from watersmeet.kernel import TS, Patience
from watersmeet.query import Stream
from watersmeet.query.expression import quote_name
from watersmeet.query.ring import Feed, Ring
from watersmeet.spark.labels import bucket_labels
from watersmeet.spark.pack import NOW
from watersmeet.spark.parquet_files import INPUT, PackFiles
from watersmeet.spark.parquet_rows import FileColumn
from watersmeet.spark.progress import OBSERVATION
from watersmeet.spark.ring_metrics import ring_observed
from watersmeet.spark.ring_pack import RingPack, RingPackEnd, feed_columns
from watersmeet.spark.ring_ship import RingShip
from watersmeet.spark.ring_stage import LevelPlan, RingStage
from watersmeet.spark.ring_wire import ANSWERS, RING_SCHEMA
from watersmeet.spark.sources import event_microseconds

RING_FORMAT = 1  # raised when state written by an older version can no longer be read
_NOW = "unix_micros(current_timestamp())"


@dataclass(frozen=True)
class RingCompiler:
    """Builds the streaming DataFrame of a ring; `control` is a stream of which any row ends all input."""

    spark: SparkSession
    ring: Ring
    streams: Sequence[Stream]  # in the order of the ring's
    sources: Mapping[str, DataFrame]
    partitions: int
    control: DataFrame | None = None
    files: Mapping[str, DataFrame] = field(default_factory=dict)  # names of the files of some sources

    def answers(self, ship: RingShip) -> DataFrame:
        """Rows (source, rows, chunk): the name of a shape, and answers of this shape."""
        labels = bucket_labels(self.partitions)
        patience = {s.name: Patience(s.lateness_us, s.idle_after_us) for s in self.streams}
        fingerprint, digest = ring_fingerprint(self.ring, self.streams, self.partitions), ship.digest
        rows = self._packed(labels)
        for level in range(1, self.ring.levels + 1):
            plan = LevelPlan(f"level {level} {digest}", level, ship, patience, labels, fingerprint)
            rows = rows.groupBy("bucket").transformWithStateInPandas(
                RingStage(plan), RING_SCHEMA, "Append", "None"
            )
        rows = rows.observe(OBSERVATION, *ring_observed(self.ring.streams, self.ring.levels))
        return rows.where(F.col("level") == ANSWERS).select("source", "rows", "chunk")

    def _packed(self, labels: tuple[int, ...]) -> DataFrame:
        parts: list[DataFrame] = []
        direct: list[tuple[int, Stream, tuple[Feed, ...]]] = []
        for number, stream in enumerate(self.streams):
            feeds = tuple(feed for feed in self.ring.feeds if feed.stream == stream.name)
            if stream.name in self.files and all(_is_bare(stream, feed) for feed in feeds):
                direct.append((number, stream, feeds))
                continue
            projected, given = self._projected(stream, feeds)
            pack = RingPack(stream.name, feeds, labels, _columns(feeds), given)
            parts.append(projected.mapInArrow(pack, RING_SCHEMA))
        if direct:
            parts.append(self._packed_files(direct, labels))
        if self.control is not None:
            parts.append(self.control.mapInArrow(RingPackEnd(labels), RING_SCHEMA))
        return reduce(DataFrame.unionAll, parts)

    def _packed_files(
        self, direct: list[tuple[int, Stream, tuple[Feed, ...]]], labels: tuple[int, ...]
    ) -> DataFrame:
        packs, frames = {}, []
        for number, stream, feeds in direct:
            assert stream.event_time is not None
            types = {column.name: column.type for column in stream.columns}
            columns = tuple(
                FileColumn(name, name, types[name])
                if name != TS
                else FileColumn(TS, stream.event_time, types[stream.event_time], is_time=True)
                for name in _columns(feeds)
            )
            names = _columns(feeds)
            packs[number] = (RingPack(stream.name, feeds, labels, names, names), columns)
            frame = self.files[stream.name].withColumn(INPUT, F.lit(number))
            frames.append(frame.withColumn(NOW, F.expr(_NOW)) if self._tells_time else frame)
        united = reduce(DataFrame.unionAll, frames).coalesce(self.partitions)
        return united.mapInArrow(PackFiles(packs, may_be_late=False), RING_SCHEMA)

    def _projected(self, stream: Stream, feeds: tuple[Feed, ...]) -> tuple[DataFrame, tuple[str, ...]]:
        """A stream as the columns its feeds hold, and the names they have here."""
        name = quote_name(stream.name)
        texts = {TS: event_microseconds(stream, stream.name)}
        for key in (key for feed in feeds for key in feed.keys):
            texts[key.name] = key.sql if key.type is None else f"CAST({key.sql} AS {key.type})"
        for column in (column for feed in feeds for column in feed.columns):
            texts.setdefault(column, f"{name}.{quote_name(column)}")
        given = {column: TS if column == TS else f"__{n}" for n, column in enumerate(_columns(feeds))}
        selected = [f"{texts[column]} AS {safe}" for column, safe in given.items()]
        if self._tells_time:
            selected.append(f"{_NOW} AS {NOW}")
        source = self.sources[stream.name].alias(stream.name)
        return source.selectExpr(*selected), tuple(given.values())

    @property
    def _tells_time(self) -> bool:
        return any(stream.idle_after_us is not None for stream in self.streams)


def ring_fingerprint(ring: Ring, streams: Sequence[Stream], partitions: int) -> str:
    """What the state of a ring depends on, whatever its queries, as lines a person can compare."""
    lines = [f"ring format {RING_FORMAT}", f"shuffle partitions {partitions}", f"levels {ring.levels}"]
    for stream in streams:
        columns = ", ".join(column.pretty() for column in stream.columns)
        lines.append(f"stream {stream.name}: {columns}; event time {stream.event_time}")
    return "\n".join(lines)


def _columns(feeds: tuple[Feed, ...]) -> tuple[str, ...]:
    """What the feeds of one stream hold, each once."""
    return tuple(dict.fromkeys((TS, *(name for feed in feeds for name in feed_columns(feed)))))


def _is_bare(stream: Stream, feed: Feed) -> bool:
    """Whether a feed's files go into chunks without an expression of Spark's between."""
    declared = {column.name for column in stream.columns}
    return all(name == TS or name in declared for name in feed_columns(feed))

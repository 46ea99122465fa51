"""A shared dataflow becomes one streaming DataFrame: of answers in blobs, each with the name of its template.

    streams -> project -> pack -> exchange -> level 1 -> exchange -> level 2 ... -> answers

A stream is read once, whatever the number of queries. All streams are read at all times, since Spark's
checkpoint knows its sources by their order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from watersmeet.kernel import KEEP, TS, LatenessPolicy
from watersmeet.plan.state_format import identify_dataflow
from watersmeet.query import Stream
from watersmeet.query.expression import quote_name
from watersmeet.query.shared_dataflow import Feed, SharedDataflow
from watersmeet.spark.exchange.gather import NOW, NOW_SQL
from watersmeet.spark.exchange.labels import bucket_labels
from watersmeet.spark.metrics.metrics import observed
from watersmeet.spark.metrics.progress import OBSERVATION
from watersmeet.spark.multiquery.metrics import dataflow_metric_names
from watersmeet.spark.multiquery.pack import SharedPack, SharedPackEnd, feed_columns
from watersmeet.spark.multiquery.ship import ShippedDataflow
from watersmeet.spark.multiquery.stage import LevelPlan, SharedStage
from watersmeet.spark.multiquery.wire import ANSWERS, SHARED_SCHEMA
from watersmeet.spark.sources.event_time import event_microseconds
from watersmeet.spark.sources.parquet.files import FileInput, PackFiles, number_files
from watersmeet.spark.sources.parquet.rows import FileColumn


@dataclass(frozen=True, kw_only=True)
class DataflowInput:
    """What is read once and sent as some feeds: a stream, under the name by which it is counted."""

    name: str
    stream: Stream
    feeds: tuple[Feed, ...]
    frame: DataFrame
    files: DataFrame | None = None  # the names of its files, where they can be read directly
    keep: str | None = None  # a condition, over `name`: tuples that do not meet it are not sent

    @property
    def columns(self) -> tuple[str, ...]:
        """What its feeds hold, each once."""
        return tuple(dict.fromkeys((TS, *(name for feed in self.feeds for name in feed_columns(feed)))))

    @property
    def is_direct(self) -> bool:
        """Whether its files go into chunks without an expression of Spark's between."""
        declared = {column.name for column in self.stream.columns}
        bare = all(name == TS or name in declared for name in self.columns)
        return self.files is not None and self.keep is None and bare


def dataflow_inputs(
    dataflow: SharedDataflow,
    streams: Sequence[Stream],
    sources: Mapping[str, DataFrame],
    files: Mapping[str, DataFrame],
) -> list[DataflowInput]:
    """The inputs of a shared dataflow: each stream, once."""
    feeds = {s.name: tuple(feed for feed in dataflow.feeds if feed.stream == s.name) for s in streams}
    return [
        DataflowInput(
            name=s.name, stream=s, feeds=feeds[s.name], frame=sources[s.name], files=files.get(s.name)
        )
        for s in streams
    ]


@dataclass(frozen=True, kw_only=True)
class DataflowCompiler:
    """Builds the streaming DataFrame of a dataflow; any row of the stream `control` ends all input."""

    dataflow: SharedDataflow
    ship: ShippedDataflow
    inputs: Sequence[DataflowInput]
    partitions: int
    fingerprint: str
    control: DataFrame | None = None

    def answers(self) -> DataFrame:
        """Rows (source, rows, chunk): the name of a template, and answers of queries with this template."""
        labels = bucket_labels(self.partitions)
        lateness = {
            item.stream.name: LatenessPolicy(item.stream.lateness_us, item.stream.idle_after_us)
            for item in self.inputs
        }
        names = {item.name: item.stream.name for item in self.inputs}
        attributes = {
            item.name: len(item.stream.columns) - (item.stream.event_time is not None) for item in self.inputs
        }
        rows = self._packed(labels)
        for level in range(1, self.dataflow.levels + 1):
            name = f"level {level} {self.ship.digest}"
            plan = LevelPlan(name, level, self.ship, lateness, names, attributes, labels, self.fingerprint)
            rows = rows.groupBy("bucket").transformWithStateInPandas(
                SharedStage(plan), SHARED_SCHEMA, "Append", "None"
            )
        rows = observed(rows, OBSERVATION, dataflow_metric_names(names, self.dataflow))
        return rows.where(F.col("level") == ANSWERS).select("source", "rows", "chunk")

    def _packed(self, labels: tuple[int, ...]) -> DataFrame:
        direct = [item for item in self.inputs if item.is_direct]
        parts = [self._packed_rows(item, labels) for item in self.inputs if not item.is_direct]
        if direct:
            parts.append(self._packed_files(direct, labels))
        if self.control is not None:
            parts.append(self.control.mapInArrow(SharedPackEnd(labels), SHARED_SCHEMA))
        return reduce(DataFrame.unionAll, parts)

    def _packed_rows(self, item: DataflowInput, labels: tuple[int, ...]) -> DataFrame:
        """An input as Spark reads it, its columns renamed so that no name needs quoting."""
        stream = quote_name(item.stream.name)
        texts = {TS: event_microseconds(item.stream, item.stream.name)}
        for key in (key for feed in item.feeds for key in feed.keys):
            texts[key.name] = key.sql if key.type is None else f"CAST({key.sql} AS {key.type})"
        for column in (column for feed in item.feeds for column in feed.columns):
            texts.setdefault(column, f"{stream}.{quote_name(column)}")
        given = {column: TS if column == TS else f"__{n}" for n, column in enumerate(item.columns)}
        selected = [f"{texts[column]} AS {safe}" for column, safe in given.items()]
        frame = item.frame
        if item.keep is not None:
            frame = frame.alias(item.name).withColumn(KEEP, F.expr(item.keep))
            selected.append(KEEP)
        if self._sends_time:
            selected.append(f"{NOW_SQL} AS {NOW}")
        pack = SharedPack(item.name, item.feeds, labels, item.columns, tuple(given.values()), self._reported)
        return frame.alias(item.stream.name).selectExpr(*selected).mapInArrow(pack, SHARED_SCHEMA)

    def _packed_files(self, direct: list[DataflowInput], labels: tuple[int, ...]) -> DataFrame:
        packs, named = {}, []
        for number, item in enumerate(direct):
            time, types = item.stream.event_time, {column.name: column.type for column in item.stream.columns}
            assert time is not None
            assert item.files is not None
            columns = tuple(
                FileColumn(TS, time, types[time], is_time=True)
                if name == TS
                else FileColumn(name, name, types[name])
                for name in item.columns
            )
            pack = SharedPack(item.name, item.feeds, labels, item.columns, item.columns, self._reported)
            packs[number] = FileInput(pack, columns)
            named.append((number, item.files))
        rows = number_files(named, self.partitions, tells_time=self._sends_time)
        return rows.mapInArrow(PackFiles(packs), SHARED_SCHEMA)

    @property
    def _reported(self) -> frozenset[str]:
        """Feeds whose frequent values every bucket must know."""
        return frozenset(one.feed for one in self.dataflow.expected)

    @property
    def _sends_time(self) -> bool:
        return any(item.stream.idle_after_us is not None for item in self.inputs)


def dataflow_fingerprint(dataflow: SharedDataflow, streams: Sequence[Stream], partitions: int) -> str:
    """What the state of a shared dataflow depends on, whatever its queries."""
    return identify_dataflow(dataflow.levels, streams, partitions).fingerprint

"""The tasks of a shared dataflow as data: what is packed of each input, and its levels as stages.

    streams -> project -> pack -> exchange -> level 1 -> exchange -> level 2 ... -> answers

A stream is read once, whatever the number of queries. Nothing here holds a session or a DataFrame.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from watersmeet.kernel import IN_VIEW, MARK, TS, LatenessPolicy, StateLimit
from watersmeet.query import Branch, Reading, Stream
from watersmeet.query.expression import quote_name
from watersmeet.query.shared_dataflow import Feed, SharedDataflow
from watersmeet.spark.exchange.collect import NOW, NOW_SQL
from watersmeet.spark.exchange.file_input import PackFiles
from watersmeet.spark.exchange.labels import bucket_labels
from watersmeet.spark.metrics.metrics import Metrics
from watersmeet.spark.multiquery.metrics import dataflow_metrics
from watersmeet.spark.multiquery.pack import SharedPack, feed_columns
from watersmeet.spark.multiquery.ship import ShippedDataflow
from watersmeet.spark.multiquery.stage import LevelPlan, SharedStage
from watersmeet.spark.sources.event_time import event_microseconds
from watersmeet.spark.sources.parquet.reader import ParquetReader
from watersmeet.spark.sources.parquet.rows import FileColumn
from watersmeet.spark.tuning import DEFAULT, Tuning


@dataclass(frozen=True)
class FeedInput:
    """What is read once and sent as some feeds: a stream, or a view, under the name by which it is counted.

    Of a view each branch is an input of its own; `name` is its own too, where `alias` is that of the view.
    """

    name: str
    stream: Stream
    feeds: tuple[Feed, ...]
    keep: str | None = None  # a condition, over `alias`: tuples that do not meet it are not sent
    branch: Branch | None = None
    alias: str = ""

    @property
    def origin(self) -> Stream:
        """The declared stream, which tells how far it has come."""
        return self.stream if self.branch is None else self.branch.stream

    @property
    def columns(self) -> tuple[str, ...]:
        """What its feeds hold, each once."""
        return tuple(dict.fromkeys((TS, *(name for feed in self.feeds for name in feed_columns(feed)))))

    @property
    def is_bare(self) -> bool:
        """Whether its files could go into chunks without an expression of Spark's between."""
        declared = {column.name for column in self.stream.columns}
        if self.branch is not None and (len(self.stream.view) > 1 or not self.branch.is_bare):
            return False
        return self.keep is None and all(name == TS or name in declared for name in self.columns)

    def held(self, column: str) -> str:
        """What the stream itself calls a column; only of an input that is bare."""
        return column if self.branch is None else self.branch.origin(column)


@dataclass(frozen=True)
class PackFeeds:
    """An input that Spark reads, under its alias in `keep` and its stream's name in the other texts."""

    alias: str
    reading: Reading
    stream: str
    columns: tuple[tuple[str, str, str | None], ...]  # name, SQL text, Spark's name of the type where known
    keep: str | None
    pack: SharedPack


@dataclass(frozen=True)
class PackFeedFiles:
    """Inputs whose files the packing tasks read: rows (input, path) are packed."""

    streams: tuple[tuple[int, str], ...]  # number of the input, its stream
    pack: PackFiles


@dataclass(frozen=True, kw_only=True)
class LevelTasks:
    """A shared dataflow from its inputs to blobs of answers."""

    inputs: tuple[PackFeeds | PackFeedFiles, ...]
    stages: tuple[SharedStage, ...]  # a level each
    labels: tuple[int, ...]
    metrics: Metrics
    reports_time: bool
    partitions: int
    limit: StateLimit | None = None  # of the whole dataflow


def dataflow_inputs(dataflow: SharedDataflow, streams: Sequence[Stream]) -> list[FeedInput]:
    """The inputs of many queries in one dataflow: each stream, once."""
    feeds = {s.name: tuple(feed for feed in dataflow.feeds if feed.stream == s.name) for s in streams}
    return [FeedInput(s.name, s, feeds[s.name]) for s in streams]


def plan_levels(
    dataflow: SharedDataflow,
    ship: ShippedDataflow,
    inputs: Sequence[FeedInput],
    *,
    partitions: int,
    fingerprint: str,
    direct: Mapping[str, str | None],
    starts: tuple[int, ...] = (),
    limit: StateLimit | None = None,
    parallelism: int = 1,
    tuning: Tuning = DEFAULT,
) -> LevelTasks:
    """The tasks of a dataflow; the files of streams in `direct` are read without Spark's reader.

    With each stream comes the folder below which folders give columns, if they do. `starts` are those of the
    query's runs, as far as they are known; `limit` is of the state of all levels and buckets together, of
    which as many as the `parallelism` are at work at a time.
    """
    planner = _LevelPlanner(dataflow, inputs, bucket_labels(partitions), direct, tuning)
    lateness = {item.origin.name: LatenessPolicy.of(item.origin) for item in inputs}
    names = {item.name: item.origin.name for item in inputs}
    attributes = {
        item.name: len(item.stream.columns) - (item.stream.event_time is not None) for item in inputs
    }
    stages = []
    for level in range(1, dataflow.levels + 1):
        name = f"level {level} {ship.digest}"
        plan = LevelPlan(
            name=name,
            level=level,
            ship=ship,
            lateness=lateness,
            names=names,
            attributes=attributes,
            labels=planner.labels,
            fingerprint=fingerprint,
            starts=starts,
            limit=limit.share(partitions) if limit else None,
            cached_buckets=-(-partitions // max(1, parallelism)) if limit else None,
            tuning=tuning,
        )
        stages.append(SharedStage(plan))
    return LevelTasks(
        inputs=planner.tasks(),
        stages=tuple(stages),
        labels=planner.labels,
        metrics=dataflow_metrics(names, dataflow, is_limited=limit is not None),
        reports_time=planner.reports_time,
        partitions=partitions,
        limit=limit,
    )


@dataclass(frozen=True)
class _LevelPlanner:
    dataflow: SharedDataflow
    inputs: Sequence[FeedInput]
    labels: tuple[int, ...]
    direct: Mapping[str, str | None]
    tuning: Tuning

    def tasks(self) -> tuple[PackFeeds | PackFeedFiles, ...]:
        """The tasks in order of the inputs, which Spark's checkpoint knows its sources by.

        A stream has one source, so all inputs that are this stream are read in the same way.
        """
        by_spark = {item.origin.name for item in self.inputs if not item.is_bare}
        direct = self.direct.keys() - by_spark
        found: list[PackFeeds | PackFeedFiles] = []
        for name_files, group in itertools.groupby(self.inputs, lambda item: item.origin.name in direct):
            members = list(group)
            found += (
                [self._pack_files(members)] if name_files else [self._pack_rows(each) for each in members]
            )
        return tuple(found)

    @property
    def reports_time(self) -> bool:
        """Whether the batch's own time travels with the tuples."""
        return any(item.origin.needs_batch_time for item in self.inputs)

    def _pack(self, item: FeedInput, given: tuple[str, ...]) -> SharedPack:
        return SharedPack(
            name=item.name,
            feeds=item.feeds,
            labels=self.labels,
            columns=item.columns,
            given=given,
            reported=frozenset(one.feed for one in self.dataflow.expected),
            max_ahead_us=item.origin.max_ahead_us if item.origin.event_time else None,
            tuning=self.tuning,
        )

    def _pack_rows(self, item: FeedInput) -> PackFeeds:
        """An input as Spark reads it; columns have names of ours there, without any sign that Spark reads."""
        stream = quote_name(item.stream.name)
        types = {column.name: column.type for column in item.stream.columns}
        texts: dict[str, tuple[str, str | None]] = {
            TS: (event_microseconds(item.stream, item.stream.name), "bigint")
        }
        for key in (key for feed in item.feeds for key in feed.keys):
            text = key.sql if key.type is None else f"CAST({key.sql} AS {key.type})"
            texts[key.name] = (text, key.type or types.get(key.name))
        for column in (column for feed in item.feeds for column in feed.columns):
            texts.setdefault(column, (f"{stream}.{quote_name(column)}", types[column]))
        given = {column: TS if column == TS else f"__{n}" for n, column in enumerate(item.columns)}
        columns = [(safe, *texts[column]) for column, safe in given.items()]
        if item.origin.answers is not None:
            columns.append((MARK, f"{stream}.{MARK}", "bigint"))
        if self.reports_time:
            columns.append((NOW, NOW_SQL, "bigint"))
        pack = self._pack(item, tuple(given.values()))
        alias, keep = item.alias or item.name, item.keep
        if item.branch is not None and item.branch.leaves_out:
            in_view = f"{quote_name(alias)}.{IN_VIEW}"
            keep = in_view if keep is None else f"{in_view} AND {keep}"
        reading = Reading(0, 0, item.origin, item.branch)
        return PackFeeds(alias, reading, item.stream.name, tuple(columns), keep, pack)

    def _pack_files(self, read: Sequence[FeedInput]) -> PackFeedFiles:
        packs = {}
        for number, item in enumerate(read):
            time, types = item.stream.event_time, {column.name: column.type for column in item.stream.columns}
            assert time is not None
            root = self.direct[item.origin.name]
            columns = tuple(
                FileColumn(TS, item.held(time), types[time], is_time=True, root=root)
                if name == TS
                else FileColumn(name, item.held(name), types[name], root=root)
                for name in item.columns
            )
            packs[number] = (self._pack(item, item.columns), ParquetReader(columns, tuning=self.tuning))
        streams = tuple((number, item.origin.name) for number, item in enumerate(read))
        return PackFeedFiles(streams, PackFiles(packs))

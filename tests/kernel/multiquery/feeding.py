"""Runs a shared dataflow in process: feeds oracle tuples to levels of buckets and routes results onward.

`run_dataflow` is the entry; `expected_rows` are the oracle's answers to a query that came and went midway.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from tests.kernel.feeding import SMALL
from tests.strategies import to_arrow
from watersmeet.kernel import (
    ANSWER_TS,
    QUERY,
    TICK,
    TS,
    ChangeTracker,
    LiveValues,
    PersistedChunk,
    SharedBucket,
    SharedCounts,
    SharedRows,
    Tuning,
    Values,
    decode_reports,
    encode_reports,
    route_rows,
    route_values,
)
from watersmeet.kernel.multiquery.live_values import Report
from watersmeet.oracle import oracle
from watersmeet.oracle.cast import cast_value
from watersmeet.oracle.evaluate import evaluate
from watersmeet.oracle.oracle import MicroBatch, Tuple
from watersmeet.query import ANSWER_TIME, BEGINNING, NEVER, Expr, Query, Stream
from watersmeet.query.arrow_types import arrow_type
from watersmeet.query.shared_dataflow import Feed, SharedDataflow, TailTemplate

Rows = list[tuple[Any, ...]]

# Small inputs reach the code that cuts large ones.
SMALL_SHARED = replace(
    SMALL,
    cell_windows=2,
    block_bytes=2000,
    held_results=10,
    cut_result_rows=2,
)


@dataclass
class DataflowRun:
    """What came of a run: each query's rows, and what was counted in each batch, by level and bucket."""

    rows: dict[str, Rows] = field(default_factory=dict)
    counts: list[dict[tuple[int, int], SharedCounts]] = field(default_factory=list)
    buckets: dict[tuple[int, int], SharedBucket] = field(default_factory=dict)
    live: LiveValues = field(default_factory=LiveValues)  # what was known of the feeds in the last batch


def run_dataflow(
    dataflow_of_batch: Callable[[int], SharedDataflow],
    queries: Mapping[str, Query],
    batches: Sequence[MicroBatch],
    buckets: int = 1,
    *,
    restore: bool = False,
    live_in_batch: Callable[[int], LiveValues] | None = None,
    tuning: Tuning = SMALL_SHARED,
) -> DataflowRun:
    """Feeds batches 0, 1, ... to a dataflow; state is read back where it changes or `restore` says so.

    By what results choose their way is followed as the engine does, unless `live_in_batch` says otherwise.
    """
    streams = {stream.name: stream for query in queries.values() for stream in query.streams}
    outcome, logs, dataflow = DataflowRun({name: [] for name in queries}), dict[tuple[int, int], Log](), None
    before = dict.fromkeys(streams, BEGINNING)
    for number, batch in enumerate(batches):
        now = dataflow_of_batch(number)
        if restore or now is not dataflow:
            places = [(level, bucket) for level in range(1, now.levels + 1) for bucket in range(buckets)]
            logs = {place: logs.get(place) or Log() for place in places}
            outcome.buckets = {place: logs[place].restored(now, place[0], tuning) for place in places}
            dataflow = now
        after = progress(streams.values(), batch, before)
        outcome.live = outcome.live.followed(dataflow, _heard(dataflow, streams, batch), after)
        if live_in_batch is not None:
            outcome.live = live_in_batch(number)
        _step(outcome, dataflow, queries, streams, batch, number, before, after, buckets)
        for place, bucket in outcome.buckets.items():
            logs[place].follow(bucket)
        outcome.counts.append({place: bucket.counts for place, bucket in outcome.buckets.items()})
        before = after
    return outcome


def _step(
    outcome: DataflowRun,
    dataflow: SharedDataflow,
    queries: Mapping[str, Query],
    streams: Mapping[str, Stream],
    batch: MicroBatch,
    number: int,
    before: Mapping[str, int],
    after: Mapping[str, int],
    buckets: int,
) -> None:
    inboxes: dict[tuple[int, int], dict[str, list[pa.RecordBatch]]] = {at: {} for at in outcome.buckets}
    for feed in dataflow.at(number).feeds:
        tuples = batch.get(feed.stream, ())
        if tuples:
            for bucket, part in route_rows(fed(feed, streams[feed.stream], tuples), feed.route, buckets):
                for level in feed.levels:
                    inboxes[level, bucket].setdefault(feed.name, []).append(part)
    relations = {relation.name: relation for relation in dataflow.relations}
    for level, bucket in sorted(outcome.buckets):
        for rows in outcome.buckets[level, bucket].step(
            inboxes[level, bucket], before, after, number, outcome.live
        ):
            if isinstance(rows.target, TailTemplate):
                for query, row in answers_of(dataflow, queries, streams, rows):
                    outcome.rows[query].append(row)
                continue
            if isinstance(rows.target, Values):
                for part in rows.table.to_batches():
                    for home, routed in route_values(part, buckets):
                        inbox = inboxes[rows.target.level, home]
                        inbox.setdefault(rows.target.name, []).append(routed)
                continue
            relation = relations[rows.target]
            for part in rows.table.to_batches():
                for home, routed in route_rows(part, relation.route, buckets):
                    inboxes[relation.level, home].setdefault(relation.name, []).append(routed)


def _heard(dataflow: SharedDataflow, streams: Mapping[str, Stream], batch: MicroBatch) -> list[Report]:
    """What is told of the values of a batch that some way leads to."""
    told = {one.feed for one in dataflow.expected}
    blobs = []
    for feed in dataflow.feeds:
        tuples = batch.get(feed.stream, ())
        if feed.name in told and tuples:
            column = fed(feed, streams[feed.stream], tuples).column(feed.route)
            blobs.append(encode_reports({feed.name: column}, min(t.ts for t in tuples)))
    return decode_reports(blobs)


def progress(streams: Iterable[Stream], batch: MicroBatch, before: Mapping[str, int]) -> dict[str, int]:
    """Each stream's bound at the end of a batch."""
    return {
        stream.name: max(
            [before[stream.name], *(t.ts - stream.lateness_us for t in batch.get(stream.name, ()))]
        )
        for stream in streams
    }


def fed(feed: Feed, stream: Stream, tuples: Sequence[Tuple]) -> pa.RecordBatch:
    """Tuples as a feed sends them."""
    table = to_arrow(stream, tuples)
    columns: dict[str, pa.Array] = {TS: pa.array([t.ts for t in tuples], pa.int64())}
    columns |= {name: table[name] for name in feed.columns}
    for key in feed.keys:
        rows = [{stream.name: {**t.values, stream.event_time or TS: t.ts}} for t in tuples]
        values = [evaluate(Expr(key.sql), row) for row in rows]
        if key.type is not None:
            values = [cast_value(value, key.type) for value in values]
        column = stream.column(key.name)
        type_ = arrow_type(key.type or (column.type if column else "string"))
        columns[key.name] = pa.array(values, type_)
    return pa.table(columns).combine_chunks().to_batches()[0]


def answers_of(
    dataflow: SharedDataflow, queries: Mapping[str, Query], streams: Mapping[str, Stream], rows: SharedRows
) -> list[tuple[str, tuple[Any, ...]]]:
    """(query, its row) of each answer; what a shape leaves to Spark is evaluated naively."""
    shape = rows.target
    assert isinstance(shape, TailTemplate)
    if TICK in rows.table.column_names:
        return []  # samples, which are to be grouped
    names = {ending.number: ending.query for ending in dataflow.tails}
    table = _event_times_whole(dataflow, streams, shape, rows.table)
    found = []
    for values in table.to_pylist():
        query = queries[names[values[QUERY]]]
        if not shape.needs_spark:
            assert shape.outputs is not None
            found.append((names[values[QUERY]], tuple(values[name] for name, _ in shape.outputs)))
            continue
        combination: dict[str, dict[str, Any]] = {item.alias: {} for item in query.inputs}
        for alias, slot in shape.slots:
            for name, value in values.items():
                if name.startswith(f"{slot}."):
                    combination[alias][name.removeprefix(f"{slot}.")] = value
        t = values[ANSWER_TS]
        if all(evaluate(Expr(condition), combination, t) is True for condition in shape.conditions):
            row = tuple(evaluate(output.expr, combination, t) for output in query.select)
            found.append((names[values[QUERY]], row))
    return found


def _event_times_whole(
    dataflow: SharedDataflow, streams: Mapping[str, Stream], shape: TailTemplate, table: pa.Table
) -> pa.Table:
    """Event times as the oracle has them: whole microseconds."""
    feeds = {feed.name: feed.stream for feed in dataflow.feeds}
    times = {ANSWER_TIME}
    for relation in dataflow.relations:
        if relation.slot is not None and feeds[relation.source] in streams:
            times.add(f"{relation.slot}.{streams[feeds[relation.source]].event_time}")
    outputs = () if shape.needs_spark else shape.outputs or ()
    named = [name for name, column in outputs if column in times]
    for name in [*named, *(name for name in table.column_names if name in times)]:
        place = table.column_names.index(name)
        table = table.set_column(place, name, table[name].cast(pa.int64()))
    return table


class Log:
    """A state store as a bucket sees one: it learns only what changed, and keeps numbers as JSON."""

    def __init__(self) -> None:
        self.chunks: dict[tuple[str, int], PersistedChunk] = {}
        self.snapshot = "{}"
        self._tracker = ChangeTracker()

    def follow(self, bucket: SharedBucket) -> None:
        changes = self._tracker.changes(bucket.persisted())
        for key in changes.expired:
            del self.chunks[key]
        for chunk in changes.appended:
            assert (chunk.section, chunk.number) not in self.chunks
            self.chunks[chunk.section, chunk.number] = chunk
        self.snapshot = json.dumps(bucket.snapshot())

    def restored(self, dataflow: SharedDataflow, level: int, tuning: Tuning) -> SharedBucket:
        return SharedBucket.restore(dataflow, level, json.loads(self.snapshot), self.chunks.values(), tuning)


def expected_rows(query: Query, batches: Sequence[MicroBatch], since: int = 0, until: int = NEVER) -> Rows:
    """The oracle's answers over tuples that arrived in these batches; lateness counts from the beginning."""
    accepted: dict[str, list[Tuple]] = {stream.name: [] for stream in query.streams}
    before = dict.fromkeys(accepted, BEGINNING)
    for number, batch in enumerate(batches):
        watermark = min(before.values())
        if since <= number < until:
            for name in accepted:
                accepted[name] += [t for t in batch.get(name, ()) if t.ts >= watermark]
        before = progress(query.streams, batch, before)
    return oracle.emitted(query, accepted)

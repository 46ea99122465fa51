"""A level of a ring as a stateful stage of Spark.

Each bucket of a level takes its rows, joins them, and sends results on to the buckets of the next level by
the value they are joined on there. The first level follows the streams' progress and tells the levels after
it, bucket by bucket, so every bucket of every level wakes in every batch.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd
import pyarrow as pa

from watersmeet.errors import DataError
from watersmeet.kernel import (
    LatenessPolicy,
    LiveValues,
    PersistedChunk,
    Punctuation,
    SharedBucket,
    SharedRows,
    StreamBounds,
    decode_reports,
    route_rows,
)
from watersmeet.query.shared_dataflow import SharedDataflow, TailTemplate
from watersmeet.spark.exchange.wire import UNKNOWN, decode, encode
from watersmeet.spark.multiquery.metrics import SharedMetrics
from watersmeet.spark.multiquery.ship import ShippedDataflow
from watersmeet.spark.multiquery.wire import (
    ANSWERS,
    BOUNDS,
    END,
    MARK,
    TOLD,
    SharedRow,
    dataflow_pandas,
    from_dataflow_pandas,
)
from watersmeet.spark.stages.stage import ANSWER_ROWS, BucketStage
from watersmeet.spark.worker.task_facts import known_batch

ROWS_PER_FRAME = 512  # every frame handed to Spark costs about as much as thousands of answers
BYTES_PER_FRAME = 16 << 20


@dataclass(frozen=True)
class LevelPlan:
    """All a level must know."""

    name: str  # of the level and the set of queries: another set starts from what the state store holds
    level: int
    ship: ShippedDataflow
    lateness: Mapping[str, LatenessPolicy]
    names: Mapping[str, str]  # of the inputs, and the stream of each
    attributes: Mapping[str, int]  # how many each input has, used or not
    labels: tuple[int, ...]
    fingerprint: str
    cached_buckets: int | None = None
    is_limited: bool = False


class LevelState:
    """A bucket of a level; that of the first also knows how far the streams have come, and what is alive."""

    def __init__(
        self,
        dataflow: SharedDataflow,
        bucket: SharedBucket,
        bounds: StreamBounds | None,
        live: LiveValues | None = None,
    ) -> None:
        self.bucket = bucket
        self.bounds = bounds
        self.live = live or LiveValues()
        self.shapes = {shape: name for name, shape in template_names(dataflow).items()}
        self.relations = {relation.name: relation for relation in dataflow.relations}
        self.feed_levels = {feed.name: feed.levels for feed in dataflow.feeds}

    def persisted(self) -> list[PersistedChunk]:
        return self.bucket.persisted()

    def snapshot(self) -> dict[str, Any]:
        bounds = self.bounds.snapshot() if self.bounds else None
        live = {"live": self.live.to_json()} if self.bounds and self.bucket.dataflow.expected else {}
        return {"bucket": self.bucket.snapshot(), "bounds": bounds, **live}

    @property
    def nbytes(self) -> int:
        return self.bucket.nbytes


class SharedStage(BucketStage):
    """Runs one level."""

    def __init__(self, plan: LevelPlan) -> None:
        self.plan: LevelPlan = plan

    def fresh(self) -> LevelState:
        dataflow, level = self.plan.ship.dataflow, self.plan.level
        bounds = StreamBounds(self.plan.lateness) if level == 1 else None
        return LevelState(dataflow, SharedBucket(dataflow, level), bounds)

    def restore(self, snapshot: Mapping[str, Any], chunks: Iterable[PersistedChunk]) -> LevelState:
        dataflow, level = self.plan.ship.dataflow, self.plan.level
        bucket = SharedBucket.restore(dataflow, level, snapshot["bucket"], chunks)
        bounds = StreamBounds.restore(self.plan.lateness, snapshot["bounds"]) if level == 1 else None
        live = LiveValues.from_json(snapshot["live"]) if "live" in snapshot else None
        return LevelState(dataflow, bucket, bounds, live)

    def rows_of(self, frames: Iterator[pd.DataFrame]) -> Iterator[SharedRow]:
        return from_dataflow_pandas(frames)

    def run(
        self, state: LevelState, number: int, arriving: Iterator[SharedRow], started: float
    ) -> Iterator[pd.DataFrame]:
        batch = known_batch()
        if batch is None:
            raise DataError("a ring runs in a streaming query alone")
        rows = list(arriving)
        dataflow = self.plan.ship.dataflow
        metrics = SharedMetrics(self.plan.names, dataflow)
        out = _Outbox()
        own = [row for row in rows if row.level == self.plan.level]
        for row in rows:
            if row.level > self.plan.level:
                yield from out.put(row)
        before, after = self._follow(state, own)
        if self.plan.level < dataflow.levels:
            told: dict[str, Any] = {"before": before, "after": after}
            if dataflow.expected:
                told["live"] = state.live.to_json()
            row = SharedRow(self.plan.labels[number], self.plan.level + 1, BOUNDS)
            yield from out.put(replace(row, chunk=json.dumps(told).encode()))
        kernel_s = time.perf_counter()
        for found in state.bucket.step(self._chunks(state, own, out), before, after, batch, state.live):
            yield from out.put_all(self._send(state, found, number))
        yield from out.put_all(out.forwarded)
        kernel_s = time.perf_counter() - kernel_s
        metrics.count(self.plan.level, own, state.bucket, after, state.feed_levels, self.plan.attributes)
        metrics.set("kernel_us", int(1e6 * kernel_s))
        metrics.set("stage_us", int(1e6 * (time.perf_counter() - started)))
        yield from out.put(SharedRow(self.plan.labels[number], TOLD, "", metrics=metrics.text))
        yield from out.flush()

    def _follow(self, state: LevelState, rows: list[SharedRow]) -> tuple[dict[str, int], dict[str, int]]:
        """How far the streams had come before this batch, and have after it; learns what values are alive."""
        if state.bounds is None:
            told = next((row for row in rows if row.source == BOUNDS), None)
            if told is None:
                raise DataError(f"level {self.plan.level} of the ring was not told of the streams' progress")
            known = json.loads(told.chunk)
            if "live" in known:
                state.live = LiveValues.from_json(known["live"])
            return known["before"], known["after"]
        max_ts: dict[str, int] = {}
        for row in rows:
            if row.source.startswith(MARK) and row.max_ts != UNKNOWN:
                stream = self.plan.names[row.source.removeprefix(MARK)]
                max_ts[stream] = max(row.max_ts, max_ts.get(stream, UNKNOWN))
        times = [row.now_us for row in rows if row.now_us != UNKNOWN]
        is_end = any(row.source == END for row in rows)
        before = dict(state.bounds.now)
        after = state.bounds.advance(Punctuation(max_ts, max(times, default=None), is_end))
        heard = decode_reports(row.chunk for row in rows if row.source.startswith(MARK) and row.chunk)
        state.live = state.live.followed(self.plan.ship.dataflow, heard, after)
        return before, after

    def _chunks(
        self, state: LevelState, rows: list[SharedRow], out: _Outbox
    ) -> dict[str, list[pa.RecordBatch]]:
        """The tuples and results of a batch by their source; feeds that go further are handed on."""
        new: dict[str, list[pa.RecordBatch]] = {}
        for row in rows:
            if not row.chunk or row.source == BOUNDS or row.source.startswith(MARK):
                continue
            new.setdefault(row.source, []).append(decode(row.chunk))
            further = [level for level in state.feed_levels.get(row.source, ()) if level > self.plan.level]
            if further:
                out.forwarded.append(replace(row, level=min(further)))
        return new

    def _send(self, state: LevelState, found: SharedRows, number: int) -> Iterator[SharedRow]:
        labels = self.plan.labels
        batches = found.table.combine_chunks().to_batches(max_chunksize=ANSWER_ROWS)
        if isinstance(found.target, TailTemplate):
            for batch in batches:
                name = state.shapes[found.target]
                yield SharedRow(labels[number], ANSWERS, name, batch.num_rows, chunk=encode(batch))
            return
        relation = state.relations[found.target]
        for batch in batches:
            for bucket, part in route_rows(batch, relation.route, len(labels)):
                if part.num_rows:
                    yield SharedRow(
                        labels[bucket], relation.level, relation.name, part.num_rows, chunk=encode(part)
                    )


class _Outbox:
    """Rows on their way out, in frames that are neither many nor large."""

    def __init__(self) -> None:
        self.forwarded: list[SharedRow] = []
        self._rows: list[SharedRow] = []
        self._nbytes = 0

    def put(self, row: SharedRow) -> Iterator[pd.DataFrame]:
        self._rows.append(row)
        self._nbytes += len(row.chunk)
        if len(self._rows) >= ROWS_PER_FRAME or self._nbytes >= BYTES_PER_FRAME:
            yield from self.flush()

    def put_all(self, rows: Iterable[SharedRow]) -> Iterator[pd.DataFrame]:
        for row in rows:
            yield from self.put(row)

    def flush(self) -> Iterator[pd.DataFrame]:
        if self._rows:
            yield dataflow_pandas(self._rows)
        self._rows, self._nbytes = [], 0


def template_names(dataflow: SharedDataflow) -> dict[str, TailTemplate]:
    """The templates of the queries' tails by short names, the same wherever they are asked for."""
    templates = dict.fromkeys(tail.template for tail in dataflow.tails)
    return {str(number): template for number, template in enumerate(templates)}

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
    LiveValues,
    Marks,
    Patience,
    PersistedChunk,
    RingBucket,
    RingRows,
    StreamBounds,
    decode_heard,
    route_rows,
)
from watersmeet.query.ring import Ring, Shape
from watersmeet.spark.ring_metrics import RingMetrics
from watersmeet.spark.ring_ship import RingShip
from watersmeet.spark.ring_wire import (
    ANSWERS,
    BOUNDS,
    END,
    MARK,
    TOLD,
    RingRow,
    from_ring_pandas,
    ring_pandas,
)
from watersmeet.spark.stage import ANSWER_ROWS, BucketStage
from watersmeet.spark.task_facts import known_batch
from watersmeet.spark.wire import UNKNOWN, decode, encode

ROWS_PER_FRAME = 512  # every frame handed to Spark costs about as much as thousands of answers
BYTES_PER_FRAME = 16 << 20


@dataclass(frozen=True)
class LevelPlan:
    """All a level must know."""

    name: str  # of the level and the set of queries: another set starts from what the state store holds
    level: int
    ship: RingShip
    patience: Mapping[str, Patience]
    names: Mapping[str, str]  # of the inputs, and the stream of each
    attributes: Mapping[str, int]  # how many each input has, used or not
    labels: tuple[int, ...]
    fingerprint: str
    cached_buckets: int | None = None
    is_limited: bool = False


class LevelState:
    """A bucket of a level; that of the first also knows how far the streams have come, and what is alive."""

    def __init__(
        self, ring: Ring, bucket: RingBucket, bounds: StreamBounds | None, live: LiveValues | None = None
    ) -> None:
        self.bucket = bucket
        self.bounds = bounds
        self.live = live or LiveValues()
        self.shapes = {shape: name for name, shape in shape_names(ring).items()}
        self.relations = {relation.name: relation for relation in ring.relations}
        self.feed_levels = {feed.name: feed.levels for feed in ring.feeds}

    def persisted(self) -> list[PersistedChunk]:
        return self.bucket.persisted()

    def snapshot(self) -> dict[str, Any]:
        bounds = self.bounds.snapshot() if self.bounds else None
        live = {"live": self.live.to_json()} if self.bounds and self.bucket.ring.expected else {}
        return {"bucket": self.bucket.snapshot(), "bounds": bounds, **live}

    @property
    def nbytes(self) -> int:
        return self.bucket.nbytes


class RingStage(BucketStage):
    """Runs one level."""

    def __init__(self, plan: LevelPlan) -> None:
        self.plan: LevelPlan = plan

    def fresh(self) -> LevelState:
        ring, level = self.plan.ship.ring, self.plan.level
        bounds = StreamBounds(self.plan.patience) if level == 1 else None
        return LevelState(ring, RingBucket(ring, level), bounds)

    def restore(self, snapshot: Mapping[str, Any], chunks: Iterable[PersistedChunk]) -> LevelState:
        ring, level = self.plan.ship.ring, self.plan.level
        bucket = RingBucket.restore(ring, level, snapshot["bucket"], chunks)
        bounds = StreamBounds.restore(self.plan.patience, snapshot["bounds"]) if level == 1 else None
        live = LiveValues.from_json(snapshot["live"]) if "live" in snapshot else None
        return LevelState(ring, bucket, bounds, live)

    def rows_of(self, frames: Iterator[pd.DataFrame]) -> Iterator[RingRow]:
        return from_ring_pandas(frames)

    def run(
        self, state: LevelState, number: int, arriving: Iterator[RingRow], started: float
    ) -> Iterator[pd.DataFrame]:
        batch = known_batch()
        if batch is None:
            raise DataError("a ring runs in a streaming query alone")
        rows = list(arriving)
        ring = self.plan.ship.ring
        metrics = RingMetrics(self.plan.names, ring)
        out = _Outbox()
        own = [row for row in rows if row.level == self.plan.level]
        for row in rows:
            if row.level > self.plan.level:
                yield from out.put(row)
        before, after = self._follow(state, own)
        if self.plan.level < ring.levels:
            told: dict[str, Any] = {"before": before, "after": after}
            if ring.expected:
                told["live"] = state.live.to_json()
            row = RingRow(self.plan.labels[number], self.plan.level + 1, BOUNDS)
            yield from out.put(replace(row, chunk=json.dumps(told).encode()))
        kernel_s = time.perf_counter()
        for found in state.bucket.step(self._chunks(state, own, out), before, after, batch, state.live):
            yield from out.put_all(self._send(state, found, number))
        yield from out.put_all(out.forwarded)
        kernel_s = time.perf_counter() - kernel_s
        metrics.count(self.plan.level, own, state.bucket, after, state.feed_levels, self.plan.attributes)
        metrics.set("kernel_us", int(1e6 * kernel_s))
        metrics.set("stage_us", int(1e6 * (time.perf_counter() - started)))
        yield from out.put(RingRow(self.plan.labels[number], TOLD, "", metrics=metrics.text))
        yield from out.flush()

    def _follow(self, state: LevelState, rows: list[RingRow]) -> tuple[dict[str, int], dict[str, int]]:
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
        after = state.bounds.advance(Marks(max_ts, max(times, default=None), is_end))
        heard = decode_heard(row.chunk for row in rows if row.source.startswith(MARK) and row.chunk)
        state.live = state.live.followed(self.plan.ship.ring, heard, after)
        return before, after

    def _chunks(
        self, state: LevelState, rows: list[RingRow], out: _Outbox
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

    def _send(self, state: LevelState, found: RingRows, number: int) -> Iterator[RingRow]:
        labels = self.plan.labels
        batches = found.table.combine_chunks().to_batches(max_chunksize=ANSWER_ROWS)
        if isinstance(found.target, Shape):
            for batch in batches:
                name = state.shapes[found.target]
                yield RingRow(labels[number], ANSWERS, name, batch.num_rows, chunk=encode(batch))
            return
        relation = state.relations[found.target]
        for batch in batches:
            for bucket, part in route_rows(batch, relation.route, len(labels)):
                if part.num_rows:
                    yield RingRow(
                        labels[bucket], relation.level, relation.name, part.num_rows, chunk=encode(part)
                    )


class _Outbox:
    """Rows on their way out, in frames that are neither many nor large."""

    def __init__(self) -> None:
        self.forwarded: list[RingRow] = []
        self._rows: list[RingRow] = []
        self._nbytes = 0

    def put(self, row: RingRow) -> Iterator[pd.DataFrame]:
        self._rows.append(row)
        self._nbytes += len(row.chunk)
        if len(self._rows) >= ROWS_PER_FRAME or self._nbytes >= BYTES_PER_FRAME:
            yield from self.flush()

    def put_all(self, rows: Iterable[RingRow]) -> Iterator[pd.DataFrame]:
        for row in rows:
            yield from self.put(row)

    def flush(self) -> Iterator[pd.DataFrame]:
        if self._rows:
            yield ring_pandas(self._rows)
        self._rows, self._nbytes = [], 0


def shape_names(ring: Ring) -> dict[str, Shape]:
    """The shapes of a ring's answers by short names, the same wherever they are asked for."""
    return {str(place): shape for place, shape in enumerate(dict.fromkeys(e.shape for e in ring.endings))}

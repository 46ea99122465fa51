"""A level of a shared dataflow as a stateful stage of Spark.

Each bucket of a level takes its messages, joins them, and sends results on to the buckets of the next level
by the value they are joined on there. The first level follows the streams' progress and reports it to the
levels after it, bucket by bucket, so every bucket of every level wakes in every batch.
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
    SharedBucket,
    SharedRows,
    StateLimit,
    StreamBounds,
    Values,
    decode_reports,
    describe_policies,
    route_rows,
    route_values,
)
from watersmeet.query import BEGINNING
from watersmeet.query.shared_dataflow import SharedDataflow, TailTemplate
from watersmeet.spark.exchange.codec import Codec
from watersmeet.spark.exchange.messages import EndOfInput
from watersmeet.spark.exchange.packed_chunk import PackedChunk
from watersmeet.spark.multiquery.messages import (
    LEVEL_MESSAGES,
    Answers,
    Bounds,
    InputProgress,
    LevelMessage,
    LevelMetrics,
    LevelRows,
    level_of,
)
from watersmeet.spark.multiquery.metrics import SharedMetrics
from watersmeet.spark.multiquery.ship import ShippedDataflow
from watersmeet.spark.stages.bucket_stage import BucketStage
from watersmeet.spark.stages.punctuation import punctuate
from watersmeet.spark.tuning import DEFAULT, Tuning
from watersmeet.spark.worker.bucket_state import Snapshot
from watersmeet.spark.worker.task_facts import known_batch


@dataclass(frozen=True, kw_only=True)
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
    starts: tuple[int, ...] = ()  # of the runs, as far as they are known
    links: tuple[str, ...] = ()  # the sites that something comes from over links, where there are sites
    cached_buckets: int | None = None
    limit: StateLimit | None = None  # of the buckets of one number, at all levels together
    tuning: Tuning = DEFAULT

    @property
    def is_limited(self) -> bool:
        return self.limit is not None

    @property
    def kept_as(self) -> str:
        name = f"{self.name}, {describe_policies(self.lateness)}"
        return name if self.limit is None else f"{name}, {self.limit.shed.value} within {self.limit.nbytes}"

    @property
    def query_set(self) -> str | None:
        """A bucket serves one set of queries: when they change, workers have no use for it any more."""
        return self.ship.digest


@dataclass(frozen=True)
class LevelInput:
    """What a bucket of a level is fed: chunks by feed or relation, the streams' bounds around the batch."""

    chunks: Mapping[str, list[pa.RecordBatch]]
    before: Mapping[str, int]
    after: Mapping[str, int]
    batch: int
    room: int | None = None  # what the levels before have left of the limit, if there is one


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
        self.templates = {template: name for name, template in template_names(dataflow).items()}
        self.relations = {relation.name: relation for relation in dataflow.relations}
        self.feed_levels = {feed.name: feed.levels for feed in dataflow.feeds}
        self._followed = {name for tail in dataflow.tails for name in tail.streams} or {*dataflow.streams}

    def step(self, batch: LevelInput | None) -> Iterator[SharedRows]:
        """Joins a batch; None while it has not arrived as a whole."""
        if batch is None:
            return iter(())
        return self.bucket.step(batch.chunks, batch.before, batch.after, batch.batch, self.live, batch.room)

    def persisted(self) -> list[PersistedChunk]:
        return self.bucket.persisted()

    def snapshot(self) -> dict[str, Any]:
        bounds = self.bounds.snapshot() if self.bounds else None
        live = {"live": self.live.to_json()} if self.bounds and self.bucket.dataflow.expected else {}
        return {"bucket": self.bucket.snapshot(), "bounds": bounds, **live}

    def watermark(self, progress: Mapping[str, int]) -> int:
        """The least watermark of all queries; of the streams, while there is no query."""
        return min((progress.get(name, BEGINNING) for name in self._followed), default=BEGINNING)

    @property
    def nbytes(self) -> int:
        return self.bucket.nbytes


class SharedStage(BucketStage[LevelState, LevelMessage, LevelInput | None, Iterator[SharedRows]]):
    """Runs one level."""

    codec = LEVEL_MESSAGES
    bucket_type: type[LevelState] = LevelState

    def __init__(self, plan: LevelPlan) -> None:
        self.plan: LevelPlan = plan

    def begin(self, bucket: LevelState, number: int, started: float) -> LevelWork:
        return LevelWork(self.plan, bucket, number, started)

    def fresh(self) -> LevelState:
        dataflow, level = self.plan.ship.dataflow, self.plan.level
        bounds = StreamBounds(self.plan.lateness, dict(dataflow.sets)) if level == 1 else None
        bucket = SharedBucket(dataflow, level, self.plan.tuning.kernel, self.plan.limit)
        return LevelState(dataflow, bucket, bounds)

    def restore(self, snapshot: Snapshot, chunks: Iterable[PersistedChunk]) -> LevelState:
        dataflow, level = self.plan.ship.dataflow, self.plan.level
        kernel = self.plan.tuning.kernel
        limit = self.plan.limit
        bucket = SharedBucket.restore(dataflow, level, snapshot["bucket"], chunks, kernel, limit)
        bounds = None
        if level == 1:
            bounds = StreamBounds.restore(self.plan.lateness, dict(dataflow.sets), snapshot["bounds"])
        live = LiveValues.from_json(snapshot["live"]) if "live" in snapshot else None
        return LevelState(dataflow, bucket, bounds, live)


class LevelWork:
    """One micro-batch of one bucket of a level; what rows mean beyond that, a site's work says otherwise."""

    codec: Codec[Any] = LEVEL_MESSAGES

    def __init__(self, plan: LevelPlan, bucket: LevelState, number: int, started: float) -> None:
        self.bucket = bucket
        self.plan = plan
        self.label = plan.labels[number]
        self._started = started
        self._kernel_s = 0.0
        self.own: list[LevelMessage] = []
        self.handed_on: list[LevelMessage] = []
        self._before: Mapping[str, int] = {}
        self._after: Mapping[str, int] = {}
        self._room: int | None = None
        self._frames = MessageFrames(plan.tuning, self.codec)

    def read(self, messages: Iterator[LevelMessage]) -> Iterator[LevelInput | None]:
        """What is for this level; all else is handed on, and the streams' bounds to the next level.

        Answers of earlier levels may be many: they go on as they come, with None, which is no batch.
        """
        batch = known_batch()
        if batch is None:
            raise DataError("a shared dataflow runs in a streaming query alone")
        for message in messages:
            is_own = self.level_of(message) == self.plan.level
            (self.own if is_own else self.handed_on).append(message)
            if not is_own and isinstance(message, LevelRows):
                self._foresee(message)
            if len(self.handed_on) >= self.plan.tuning.handed_on_at_once:
                yield None
        before, after = self.follow()
        self._before, self._after = before, after
        yield LevelInput(self.chunks(before), before, after, batch, self._room)

    def answer(self, found: Iterator[SharedRows]) -> Iterator[pd.DataFrame]:
        yield from self._hand_on()
        before = time.perf_counter()
        for rows in found:
            self._kernel_s += time.perf_counter() - before
            yield from self._frames.put(self.messages(rows))
            del rows  # not beside the next ones
            before = time.perf_counter()
        self._kernel_s += time.perf_counter() - before

    def finish(self) -> Iterator[pd.DataFrame]:
        plan, bucket = self.plan, self.bucket
        metrics = SharedMetrics(plan.names, plan.ship.dataflow, plan.links, is_limited=plan.limit is not None)
        metrics.count(plan.level, self.own, bucket.bucket, bucket.feed_levels, plan.attributes)
        self.count(metrics)
        metrics.values["watermark_us"] = bucket.watermark(self._after)
        metrics.values["kernel_us"] = int(1e6 * self._kernel_s)
        metrics.values["stage_us"] = int(1e6 * (time.perf_counter() - self._started))
        yield from self._frames.put([LevelMetrics(self.label, metrics.values.text)])
        if self.is_followed_by_level:
            yield from self._frames.put([self._bounds()])
        yield from self._frames.flush()

    def level_of(self, message: Any) -> int | None:
        """The level that a message is for; None if it is to leave the dataflow."""
        return level_of(message)

    @property
    def is_followed_by_level(self) -> bool:
        """Whether somebody is to be told of the streams' progress."""
        return self.plan.level < self.plan.ship.dataflow.levels

    def count(self, metrics: SharedMetrics) -> None:
        """Counts what the bucket itself does not know."""

    def _hand_on(self) -> Iterator[pd.DataFrame]:
        messages, self.handed_on = self.handed_on, []
        yield from self._frames.put(messages)

    def follow(self) -> tuple[dict[str, int], dict[str, int]]:
        """How far the streams had come before this batch, and have after it; learns what values are alive."""
        state = self.bucket
        if state.bounds is None:
            reported = next((message for message in self.own if isinstance(message, Bounds)), None)
            if reported is None:
                raise DataError(f"level {self.plan.level} got no report of the streams' progress")
            known = json.loads(reported.body)
            if "live" in known:
                state.live = LiveValues.from_json(known["live"])
            self._room = known.get("room")
            return known["before"], known["after"]
        progress = [message for message in self.own if isinstance(message, InputProgress)]
        said = [(self.plan.names[message.name], message.max_ts, message.now_us) for message in progress]
        is_end = any(isinstance(message, EndOfInput) for message in self.own)
        before = dict(state.bounds.now)
        marks = [(self.plan.names[message.name], message.mark) for message in progress]
        after = state.bounds.advance(punctuate(said, self.plan.starts, is_end=is_end, marks=marks))
        reports = decode_reports(message.frequent for message in progress if message.frequent)
        state.live = state.live.followed(self.plan.ship.dataflow, reports, after)
        return before, after

    def _foresee(self, message: LevelRows) -> None:
        """Under a limit a level leaves room for the rows that it hands on."""
        limited = self.bucket.bucket.limited
        if limited is not None:
            limited.foresee(message.source, message.chunk.batch)

    def _bounds(self) -> Bounds:
        """How far the streams have come, and what is left of the limit, for the bucket after this one."""
        reported: dict[str, Any] = {"before": self._before, "after": self._after}
        limited = self.bucket.bucket.limited
        if limited is not None:
            reported["room"] = max(0, limited.room - self.bucket.bucket.used_bytes)
        if self.plan.ship.dataflow.expected:
            reported["live"] = self.bucket.live.to_json()
        return Bounds(self.label, self.plan.level + 1, json.dumps(reported).encode())

    def chunks(self, before: Mapping[str, int]) -> dict[str, list[pa.RecordBatch]]:
        """The tuples and results of a batch by their source; feeds that go further are handed on."""
        new: dict[str, list[pa.RecordBatch]] = {}
        for message in self.own:
            if isinstance(message, LevelRows):
                new.setdefault(message.source, []).append(message.chunk.batch)
                levels = self.bucket.feed_levels.get(message.source, ())
                further = [level for level in levels if level > self.plan.level]
                if further:
                    self._foresee(message)
                    self.handed_on.append(replace(message, level=min(further)))
        return new

    def messages(self, found: SharedRows) -> Iterator[Any]:
        state, labels = self.bucket, self.plan.labels
        batches = found.table.combine_chunks().to_batches(max_chunksize=self.plan.tuning.answer_rows)
        if isinstance(found.target, TailTemplate):
            for batch in batches:
                name = state.templates[found.target]
                yield Answers(self.label, name, int(batch.num_rows), PackedChunk(batch))
            return
        if isinstance(found.target, Values):
            name, level = found.target.name, found.target.level
            for batch in batches:
                for bucket, part in route_values(batch, len(labels)):
                    yield LevelRows(labels[bucket], level, name, PackedChunk(part))
            return
        relation = state.relations[found.target]
        for batch in batches:
            for bucket, part in route_rows(batch, relation.route, len(labels)):
                if part.num_rows:
                    yield LevelRows(labels[bucket], relation.level, relation.name, PackedChunk(part))


class MessageFrames:
    """Messages on their way out, in frames that are neither many nor large."""

    def __init__(self, tuning: Tuning, codec: Codec[Any]) -> None:
        self._tuning = tuning
        self._codec = codec
        self._held: list[Any] = []
        self._nbytes = 0

    def put(self, messages: Iterable[Any]) -> Iterator[pd.DataFrame]:
        for message in messages:
            self._held.append(message)
            if isinstance(message, LevelRows | Answers):
                self._nbytes += message.chunk.nbytes
            is_many = len(self._held) >= self._tuning.messages_per_frame
            if is_many or self._nbytes >= self._tuning.message_frame_bytes:
                yield from self.flush()

    def flush(self) -> Iterator[pd.DataFrame]:
        if self._held:
            yield self._codec.to_pandas(self._held)
        self._held, self._nbytes = [], 0


def template_names(dataflow: SharedDataflow) -> dict[str, TailTemplate]:
    """The templates of the queries' tails by short names, the same wherever they are asked for."""
    templates = dict.fromkeys(tail.template for tail in dataflow.tails)
    return {str(number): template for number, template in enumerate(templates)}

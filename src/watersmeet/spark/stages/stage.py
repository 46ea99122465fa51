"""Stateful stages: one call per bucket and micro-batch, all work vectorised in the kernel.

A stage finds its bucket in the worker's cache, or catches up from the chunk log of Spark's state store, feeds
it the batch, and writes what changed. The state store is the truth; the cache is only speed.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import pandas as pd
import pyarrow as pa
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from watersmeet.kernel import (
    BucketPlan,
    ChangeTracker,
    Grid,
    JoinBucket,
    NumberingBucket,
    PersistedChunk,
    Punctuation,
    RowPositions,
    route,
)
from watersmeet.spark.exchange.hot_keys import HotKeys, batch_id, check_tables, late_copies, table_of
from watersmeet.spark.exchange.pack import Pack
from watersmeet.spark.exchange.wire import (
    END_OF_INPUT,
    UNKNOWN,
    WATERMARK,
    WireRow,
    decode_places,
    encode,
    encode_places,
    from_pandas,
    to_pandas,
)
from watersmeet.spark.metrics.metrics import StageMetrics
from watersmeet.spark.sources.parquet.files import FileInput, read_named
from watersmeet.spark.sources.parquet.late_columns import LateColumns
from watersmeet.spark.sources.parquet.rows import FileColumn
from watersmeet.spark.stages.answers import AnswerBlobs, AnswerOutput
from watersmeet.spark.stages.hot_key_coordinator import HotKeyCoordinator
from watersmeet.spark.stages.state_log import Head, StateLog
from watersmeet.spark.worker.frugal import hand_back, keep_little
from watersmeet.spark.worker.task_facts import known_batch, query_id
from watersmeet.spark.worker.worker_cache import Entry, Key, worker_cache

ANSWER_ROWS = 1 << 16  # answers in one batch
BATCHES_PER_FRAME = 16  # every frame handed to Spark costs about as much as thousands of answers
FRAME_BYTES = 64 << 20  # but a frame of wide answers is handed over before it has so many


@dataclass(frozen=True)
class StagePlan:
    """All a stage must know; it travels to the workers with every task."""

    name: str
    bucket: BucketPlan
    streams: tuple[str, ...]  # the stream of each input, in order
    grid: Grid
    labels: tuple[int, ...]
    fingerprint: str
    late: Mapping[str, tuple[FileColumn, ...]] = field(default_factory=dict)  # what may come after the join
    cached_buckets: int | None = None  # of this stage a worker may keep between batches; None: any number
    hot: HotKeys | None = None
    output: AnswerOutput = field(default_factory=AnswerBlobs)
    files: Mapping[int, FileInput[Pack]] = field(default_factory=dict)  # inputs whose files are read here

    @property
    def is_limited(self) -> bool:
        """Whether memory is short."""
        return self.bucket.limit is not None


class KeptPlan(Protocol):
    """What keeping a bucket depends on."""

    @property
    def name(self) -> str: ...

    @property
    def labels(self) -> tuple[int, ...]: ...

    @property
    def fingerprint(self) -> str: ...

    @property
    def cached_buckets(self) -> int | None: ...

    @property
    def is_limited(self) -> bool: ...


class BucketStage(StatefulProcessor):
    """What all stages share: finding the bucket, running it, keeping it."""

    plan: KeptPlan

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._state = StateLog(handle)

    def handleInputRows(  # noqa: N802 - Spark's name
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: Any,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        started = time.perf_counter()
        number = self.plan.labels.index(int(key[0]))
        if self.plan.is_limited:
            keep_little()
        head = self._state.read_head(self.plan.fingerprint)
        cache, cache_key = worker_cache(), _cache_key(self.plan, number)
        entry = self._find(head, cache.take(cache_key))
        yield from self.run(entry.bucket, number, self.rows_of(rows), started)
        changes = entry.tracker.changes(entry.bucket.persisted())
        head = self._state.write(head, changes, entry.bucket.snapshot())
        kept = Entry(head.token, entry.bucket, entry.tracker, entry.bucket.nbytes, known_batch())
        cache.put(cache_key, kept, self.plan.cached_buckets)
        if self.plan.is_limited:
            hand_back()

    def close(self) -> None:
        """Nothing to close: state belongs to Spark, the cache to the worker."""

    def rows_of(self, frames: Iterator[pd.DataFrame]) -> Iterator[Any]:
        """The rows of the shuffle, as this stage knows them."""
        return from_pandas(frames)

    @abstractmethod
    def run(
        self, bucket: Any, number: int, arriving: Iterator[Any], started: float
    ) -> Iterator[pd.DataFrame]:
        """Feeds a micro-batch to a bucket and yields the stage's output."""

    @abstractmethod
    def fresh(self) -> Any:
        """A bucket that has seen nothing."""

    @abstractmethod
    def restore(self, snapshot: Mapping[str, Any], chunks: Iterable[PersistedChunk]) -> Any:
        """A bucket as it was persisted."""

    def catch_up(self, bucket: Any, snapshot: Mapping[str, Any], chunks: Iterable[PersistedChunk]) -> Any:
        """A bucket as it was persisted, given an earlier state of it, which may be used up."""
        return self.restore(snapshot, chunks)

    def _find(self, head: Head, cached: Entry | None) -> Entry:
        """The bucket as the state store has it, reading only what the worker does not hold already."""
        if head.chunks is None or head.snapshot is None:
            return Entry("", self.fresh(), ChangeTracker(), 0)
        if cached is not None and cached.token == head.token:
            return cached
        if cached is None or cached.token not in head.tokens:
            bucket = self.restore(head.snapshot, self._state.read_chunks(head.chunks))
        else:  # an ancestor: its chunks are the store's
            held = {(chunk.section, chunk.number): chunk for chunk in cached.bucket.persisted()}
            missing = {key: place for key, place in head.chunks.items() if key not in held}
            chunks = [*(held[key] for key in head.chunks if key in held), *self._state.read_chunks(missing)]
            bucket = self.catch_up(cached.bucket, head.snapshot, chunks)
        return Entry(head.token, bucket, ChangeTracker(head.chunks), bucket.nbytes)


class JoinStage(BucketStage):
    """Joins the tuples of one bucket; yields answers, then one row of metrics."""

    def __init__(self, plan: StagePlan) -> None:
        self.plan: StagePlan = plan

    def fresh(self) -> JoinBucket:
        return JoinBucket(self.plan.bucket)

    def restore(self, snapshot: Mapping[str, Any], chunks: Iterable[PersistedChunk]) -> JoinBucket:
        return JoinBucket.restore(self.plan.bucket, snapshot, chunks)

    def catch_up(
        self, bucket: JoinBucket, snapshot: Mapping[str, Any], chunks: Iterable[PersistedChunk]
    ) -> JoinBucket:
        if not self.plan.bucket.can_catch_up:
            return self.restore(snapshot, chunks)
        bucket.catch_up(snapshot, chunks)
        return bucket

    def run(
        self, bucket: JoinBucket, number: int, arriving: Iterator[WireRow], started: float
    ) -> Iterator[pd.DataFrame]:
        metrics = StageMetrics.named(self.plan.bucket.layout, self.plan.streams)
        rows: list[WireRow] = []
        copies: dict[int, int] = {}
        kernel_s, answers = 0.0, 0
        self._reading_s = 0.0
        held: list[pa.RecordBatch] = []
        limit = self.plan.bucket.limit
        frame_bytes = FRAME_BYTES if limit is None else min(FRAME_BYTES, limit.nbytes // 8)
        before = time.perf_counter()
        for table in self._join(bucket, number, arriving, rows, copies):
            kernel_s += time.perf_counter() - before
            answers += table.num_rows
            held += table.combine_chunks().to_batches(max_chunksize=ANSWER_ROWS)
            if len(held) >= BATCHES_PER_FRAME or sum(batch.nbytes for batch in held) >= frame_bytes:
                yield self.plan.output.frame(held)
                held = []
            before = time.perf_counter()
        kernel_s += time.perf_counter() - before
        if number == 0 and self.plan.hot is not None:
            self._conduct(bucket, rows, self.plan.hot)
        metrics.count_arrivals(self.plan.grid, number, rows, bucket, copies)
        metrics.count_state(bucket)
        metrics.count_work(rows, answers, table_of(bucket.hot))
        metrics.set("kernel_us", int(1e6 * (kernel_s - self._reading_s)))
        metrics.set("stage_us", int(1e6 * (time.perf_counter() - started)))
        yield self.plan.output.frame(held, metrics.text)

    def _join(
        self,
        bucket: JoinBucket,
        number: int,
        arriving: Iterator[WireRow],
        rows: list[WireRow],
        copies: dict[int, int],
    ) -> Iterator[pa.Table]:
        """Answers of a micro-batch; `rows` is filled with what arrived, as the metrics are to see it.

        `copies` is filled with the late ones of each input that are counted in another bucket.

        Under a limit of memory a batch that is large beside it is joined as it comes in. Its tuples are then
        not in order of time, so that is left to batches that must.
        """
        late, limit = LateColumns(self.plan.late), self.plan.bucket.limit
        most = limit.nbytes // 2 if limit and not self.plan.bucket.layout.delayed else None
        held, before = 0, time.perf_counter()
        for row in read_named(self.plan.files, number, arriving):
            rows.append(row)
            held += row.nbytes
            if most is not None and held > most:
                self._check(bucket, number, rows, copies)
                self._reading_s += time.perf_counter() - before
                yield from bucket.feed(read_batch(self.plan, rows)[0])
                rows[:] = [row.joined() for row in rows]
                held, before = 0, time.perf_counter()
        self._check(bucket, number, rows, copies)
        new, marks = read_batch(self.plan, rows, late)
        self._reading_s += time.perf_counter() - before
        told = [row for row in rows if row.input == WATERMARK]
        bucket.waiting_bytes = sum(row.copies for row in told)
        places, now = read_places(self.plan, rows), max((row.max_ts for row in told), default=None)
        yield from bucket.step(new, marks, places, now, late)

    def _check(self, bucket: JoinBucket, number: int, rows: list[WireRow], copies: dict[int, int]) -> None:
        """Refuses tuples that were sent by another table; counts the late copies among those at hand."""
        check_tables(rows, None if number else table_of(bucket.hot), self.plan.hot)
        for index, late in late_copies(rows, bucket.join.watermark).items():
            copies[index] = copies.get(index, 0) + late

    def _conduct(self, bucket: JoinBucket, rows: list[WireRow], hot: HotKeys) -> None:
        """Decides what values are hot in the next batch, and leaves word of it where its tasks look."""
        conductor = HotKeyCoordinator(self.plan.bucket.layout, self.plan.streams, self.plan.grid, hot)
        before, bucket.hot = table_of(bucket.hot), conductor.step(bucket.hot, rows, bucket.watermark)
        after, files = table_of(bucket.hot), hot.files()
        if files is not None and after != before:
            files.write(batch_id() + 1, after)
        elif files is not None:
            files.forget(batch_id() + 1)


class NumberingStage(BucketStage):
    """Stands before a join with ROWS windows: sees every tuple, and sends them on in watermark order."""

    def __init__(self, plan: StagePlan, next_grid: Grid, next_labels: tuple[int, ...]) -> None:
        self.plan: StagePlan = plan
        self._next_grid = next_grid
        self._next_labels = next_labels

    def fresh(self) -> NumberingBucket:
        return NumberingBucket(self.plan.bucket)

    def restore(self, snapshot: Mapping[str, Any], chunks: Iterable[PersistedChunk]) -> NumberingBucket:
        return NumberingBucket.restore(self.plan.bucket, snapshot, chunks)

    def run(
        self, bucket: NumberingBucket, number: int, arriving: Iterator[WireRow], started: float
    ) -> Iterator[pd.DataFrame]:
        rows = list(arriving)
        new, marks = read_batch(self.plan, rows)
        ranked = bucket.step(new, marks)
        for index, item in enumerate(self.plan.bucket.layout.inputs):
            parts: dict[int, pa.RecordBatch] = {}
            if item.alias in ranked.released:
                for buckets, part in route(self._next_grid, item, ranked.released[item.alias]):
                    parts |= dict.fromkeys(buckets, part.select(list(item.columns)))
            known = ranked.places.get(item.alias)
            places = encode_places(known) if known is not None else b""
            max_ts = bucket.watermark.max_ts.get(self.plan.streams[index], UNKNOWN)
            null_times = sum(row.null_times for row in rows if row.input == index)
            sent = []
            for target, label in enumerate(self._next_labels):
                part = parts.get(target)
                count, blob = (0, b"") if part is None else (int(part.num_rows), encode(part))
                late, missing = (0, 0) if target else (ranked.late.get(item.alias, 0), null_times)
                sent.append(
                    WireRow(label, index, count, max_ts, UNKNOWN, late, missing, chunk=blob, places=places)
                )
            yield to_pandas(sent)
        waiting = bucket.nbytes // len(self._next_labels)
        yield to_pandas(
            [
                WireRow(label, WATERMARK, max_ts=ranked.watermark, copies=waiting)
                for label in self._next_labels
            ]
        )


def read_batch(
    plan: StagePlan, rows: list[WireRow], late: LateColumns | None = None
) -> tuple[dict[str, pa.RecordBatch], Punctuation]:
    """The tuples of a micro-batch by alias, and its marks of progress."""
    parts: dict[str, list[pa.RecordBatch]] = {}
    max_ts: dict[str, int] = {}
    for row in rows:
        if row.input >= 0:
            if (tuples := row.tuples) is not None:
                parts.setdefault(plan.bucket.layout.inputs[row.input].alias, []).append(tuples)
            if row.max_ts != UNKNOWN:
                stream = plan.streams[row.input]
                max_ts[stream] = max(row.max_ts, max_ts.get(stream, UNKNOWN))
    times = [row.now_us for row in rows if row.now_us != UNKNOWN]
    is_end = any(row.input == END_OF_INPUT for row in rows)
    if late is not None:
        parts = {alias: late.admit(plan.bucket.layout.of(alias), batches) for alias, batches in parts.items()}
    new = {
        alias: batches[0] if len(batches) == 1 else pa.concat_batches(batches)
        for alias, batches in parts.items()
    }
    return new, Punctuation(max_ts, max(times, default=None), is_end)


def read_places(plan: StagePlan, rows: list[WireRow]) -> dict[str, RowPositions]:
    """The places a rank stage has just given."""
    aliases = [item.alias for item in plan.bucket.layout.inputs]
    return {aliases[row.input]: decode_places(row.places) for row in rows if row.places}


def _cache_key(plan: KeptPlan, bucket: int) -> Key:
    """Two plans may run in one streaming query, when their answers are united."""
    return (query_id() or "", plan.fingerprint, plan.name, bucket)

"""The join of one bucket as a stage of Spark: messages and files in, answers and one row of metrics out."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

import pandas as pd
import pyarrow as pa

from watersmeet.kernel import BatchInput, JoinBucket, PersistedChunk
from watersmeet.spark.exchange.hot_keys import check_tables, table_of
from watersmeet.spark.exchange.messages import MESSAGES, Message
from watersmeet.spark.stages.answers import AnswerFrames
from watersmeet.spark.stages.bucket_stage import BucketStage
from watersmeet.spark.stages.hot_key_coordinator import HotKeyCoordinator
from watersmeet.spark.stages.join_metrics import join_metrics, measure_join
from watersmeet.spark.stages.read_batch import BatchReader
from watersmeet.spark.stages.stage_plan import StagePlan
from watersmeet.spark.worker.bucket_state import Snapshot


class JoinStage(BucketStage[JoinBucket, Message, BatchInput, Iterator[pa.Table]]):
    """Joins the tuples of one bucket; yields answers, then one row of metrics."""

    codec = MESSAGES
    bucket_type = JoinBucket

    def __init__(self, plan: StagePlan) -> None:
        self.plan: StagePlan = plan
        self.predecessor = plan.predecessor

    def begin(self, bucket: JoinBucket, number: int, started: float) -> JoinWork:
        return JoinWork(self.plan, bucket, number, started)

    def fresh(self) -> JoinBucket:
        return JoinBucket(self.plan.bucket)

    def restore(self, snapshot: Snapshot, chunks: Iterable[PersistedChunk]) -> JoinBucket:
        return JoinBucket.restore(self.plan.bucket, snapshot, chunks)

    def catch_up(
        self, bucket: JoinBucket, snapshot: Snapshot, chunks: Iterable[PersistedChunk]
    ) -> JoinBucket:
        if not self.plan.bucket.can_catch_up:
            return self.restore(snapshot, chunks)
        bucket.catch_up(snapshot, chunks)
        return bucket


class JoinWork:
    """One micro-batch of one bucket of a join."""

    def __init__(self, plan: StagePlan, bucket: JoinBucket, number: int, started: float) -> None:
        self.bucket = bucket
        self._plan = plan
        self._number = number
        self._started = started
        self._kernel_s = 0.0
        self._reader = BatchReader(plan, number, bucket.join.watermark)
        self._frames = AnswerFrames(plan.output, plan.tuning, plan.bucket.limit)

    def read(self, messages: Iterator[Message]) -> Iterator[BatchInput]:
        """The batch; one that is large, beside the limit of memory if there is one, is joined as it comes in.

        Its tuples are then not in order of time, so that is not done for batches that must be.
        """
        limit, most = self._plan.bucket.limit, None
        if not self._plan.bucket.layout.delayed:
            most = self._plan.tuning.piece_bytes if limit is None else limit.nbytes // 2
        for batch in self._reader.read(messages, most):
            expected = None if self._number else table_of(self.bucket.hot)
            check_tables(self._reader.arrived.tables, expected, self._plan.hot)
            yield batch
            del batch  # it is large

    def answer(self, found: Iterator[pa.Table]) -> Iterator[pd.DataFrame]:
        """Answers in frames as they are found; the time that the kernel takes is measured here."""
        before = time.perf_counter()
        for table in found:
            self._kernel_s += time.perf_counter() - before
            yield from self._frames.put(table)
            del table  # not beside the next one
            before = time.perf_counter()
        self._kernel_s += time.perf_counter() - before

    def finish(self) -> Iterator[pd.DataFrame]:
        """The last answers, and the metrics; the first bucket decides what is hot in the next batch."""
        plan, bucket, arrived = self._plan, self.bucket, self._reader.arrived
        yield from map(self._frames.beside, arrived.metrics)
        if self._number == 0 and plan.hot is not None:
            coordinator = HotKeyCoordinator(plan.bucket.layout, plan.streams, plan.grid, plan.hot)
            bucket.hot = coordinator.conclude(bucket.hot, arrived.progress, bucket.watermark)
        values = join_metrics(plan.bucket.layout, plan.streams).start()
        measure_join(values, plan, self._number, bucket, arrived, self._frames.answers)
        values["kernel_us"] = int(1e6 * self._kernel_s)
        values["stage_us"] = values["busiest_stage_us"] = int(1e6 * (time.perf_counter() - self._started))
        yield self._frames.last(values.text)

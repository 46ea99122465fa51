"""A stage of a pipeline that joins a part of a tree, and sends the results on to a later stage.

What is for later stages passes through as it came, in the bucket it is for: their tuples, results of earlier
stages, metrics. How far the streams have come every stage is told in the same words, so all of them have one
watermark: which tuples are late is decided where they are joined, and alike everywhere.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

import pandas as pd
import pyarrow as pa

from watersmeet.kernel import BatchInput, JoinBucket, PersistedChunk, route_results
from watersmeet.spark.exchange.messages import (
    MESSAGES,
    Dropped,
    EndOfInput,
    Message,
    Progress,
    Results,
    StageMetrics,
    Tuples,
)
from watersmeet.spark.exchange.packed_chunk import PackedChunk
from watersmeet.spark.stages.bucket_stage import BucketStage
from watersmeet.spark.stages.join_metrics import join_metrics, measure_join
from watersmeet.spark.stages.read_batch import BatchReader
from watersmeet.spark.stages.stage_plan import SentOn, StagePlan
from watersmeet.spark.worker.bucket_state import Snapshot


class PartStage(BucketStage[JoinBucket, Message, BatchInput, Iterator[pa.Table]]):
    """Joins a part of the tree in one bucket; yields messages for the stages that follow."""

    codec = MESSAGES
    bucket_type = JoinBucket

    def __init__(self, plan: StagePlan, sent: SentOn) -> None:
        self.plan: StagePlan = plan
        self._sent = sent

    def begin(self, bucket: JoinBucket, number: int, started: float) -> PartWork:
        return PartWork(self.plan, self._sent, bucket, number, started)

    def fresh(self) -> JoinBucket:
        return JoinBucket(self.plan.bucket)

    def restore(self, snapshot: Snapshot, chunks: Iterable[PersistedChunk]) -> JoinBucket:
        return JoinBucket.restore(self.plan.bucket, snapshot, chunks)


class PartWork:
    """One micro-batch of one bucket of a stage that is not the last."""

    def __init__(
        self, plan: StagePlan, sent: SentOn, bucket: JoinBucket, number: int, started: float
    ) -> None:
        self.bucket = bucket
        self._plan = plan
        self._sent = sent
        self._number = number
        self._started = started
        self._kernel_s = 0.0
        self._found = 0  # results
        self._reader = BatchReader(plan, number, bucket.join.watermark)
        self._held: list[Message] = []  # on their way out
        self._nbytes = 0

    def read(self, messages: Iterator[Message]) -> Iterator[BatchInput]:
        """What is for this stage, in pieces if it is large; with each, what passes through is handed on."""
        return self._reader.read(self._own(messages), self._plan.tuning.piece_bytes)

    def answer(self, found: Iterator[pa.Table]) -> Iterator[pd.DataFrame]:
        """The results as messages for the buckets of the stage they go to."""
        before = time.perf_counter()
        for table in found:
            self._kernel_s += time.perf_counter() - before
            self._found += table.num_rows
            for message in self._messages(table):
                yield from self._put(message)
            del table  # not beside the next one
            before = time.perf_counter()
        self._kernel_s += time.perf_counter() - before
        yield from self._flushed()

    def finish(self) -> Iterator[pd.DataFrame]:
        """The metrics of this stage, in which results are no answers yet."""
        plan = self._plan
        values = join_metrics(plan.bucket.layout, plan.streams).start()
        measure_join(values, plan, self._number, self.bucket, self._reader.arrived, self._found)
        values["answers"] = 0
        values["kernel_us"] = int(1e6 * self._kernel_s)
        values["stage_us"] = values["busiest_stage_us"] = int(1e6 * (time.perf_counter() - self._started))
        yield MESSAGES.to_pandas([StageMetrics(plan.labels[self._number], values.text)])

    def _own(self, messages: Iterator[Message]) -> Iterator[Message]:
        """The messages for this stage; those for later ones are set aside, and some are for all."""
        for message in messages:
            if isinstance(message, Progress | EndOfInput) or not self._is_own(message):
                self._held.append(message)
            if self._is_own(message):
                yield message

    def _is_own(self, message: Message) -> bool:
        match message:
            case Tuples() | Dropped():
                return self._plan.joins(message.input)
            case Results():
                return message.stage in self._plan.takes
            case StageMetrics():
                return False
            case _:
                return True

    def _messages(self, found: pa.Table) -> Iterator[Results]:
        sent, labels = self._sent, self._plan.labels
        for batch in found.combine_chunks().to_batches(max_chunksize=self._plan.tuning.answer_rows):
            home = self._number if sent.keeps_null else None
            for bucket, part in route_results(batch, sent.column, sent.buckets, home):
                yield Results(labels[bucket], sent.stage, PackedChunk(part))

    def _put(self, message: Results) -> Iterator[pd.DataFrame]:
        self._held.append(message)
        self._nbytes += message.chunk.nbytes
        tuning = self._plan.tuning
        if len(self._held) >= tuning.messages_per_frame or self._nbytes >= tuning.message_frame_bytes:
            yield from self._flushed()

    def _flushed(self) -> Iterator[pd.DataFrame]:
        held, self._held, self._nbytes = self._held, [], 0
        if held:
            yield MESSAGES.to_pandas(held)

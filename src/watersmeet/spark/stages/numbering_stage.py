"""Stands before a join with ROWS windows: sees all tuples, and sends them on in the watermark's order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import pandas as pd

from watersmeet.kernel import (
    BatchInput,
    Grid,
    InputLayout,
    Numbered,
    NumberingBucket,
    PersistedChunk,
    route,
)
from watersmeet.spark.exchange.messages import (
    MESSAGES,
    UNKNOWN,
    Message,
    NumberedUpTo,
    Positions,
    Progress,
    Tuples,
)
from watersmeet.spark.exchange.packed_chunk import PackedChunk
from watersmeet.spark.stages.bucket_stage import BucketStage
from watersmeet.spark.stages.read_batch import BatchReader
from watersmeet.spark.stages.stage_plan import StagePlan
from watersmeet.spark.worker.bucket_state import Snapshot


class NumberingStage(BucketStage[NumberingBucket, Message, BatchInput, Numbered]):
    """Numbers the tuples of a query in one bucket, and sends them to the buckets of its join."""

    codec = MESSAGES
    bucket_type = NumberingBucket

    def __init__(self, plan: StagePlan, next_grid: Grid, next_labels: tuple[int, ...]) -> None:
        self.plan: StagePlan = plan
        self._next_grid = next_grid
        self._next_labels = next_labels

    def begin(self, bucket: NumberingBucket, number: int, started: float) -> NumberingWork:
        return NumberingWork(self.plan, bucket, self._next_grid, self._next_labels)

    def fresh(self) -> NumberingBucket:
        return NumberingBucket(self.plan.bucket)

    def restore(self, snapshot: Snapshot, chunks: Iterable[PersistedChunk]) -> NumberingBucket:
        return NumberingBucket.restore(self.plan.bucket, snapshot, chunks)


class NumberingWork:
    """One micro-batch of all tuples of a query."""

    def __init__(self, plan: StagePlan, bucket: NumberingBucket, grid: Grid, labels: tuple[int, ...]) -> None:
        self.bucket = bucket
        self._plan = plan
        self._grid = grid
        self._labels = labels
        self._reader = BatchReader(plan, 0)

    def read(self, messages: Iterator[Message]) -> Iterator[BatchInput]:
        return self._reader.read(messages)

    def answer(self, found: Numbered) -> Iterator[pd.DataFrame]:
        """The tuples that are let through, as messages for the buckets of the join."""
        for index, item in enumerate(self._plan.bucket.layout.inputs):
            sent = [*self._tuples(index, item, found), *self._progress(index, item, found)]
            if (known := found.positions.get(item.alias)) is not None:
                sent += [Positions.of(label, index, known) for label in self._labels]
            yield MESSAGES.to_pandas(sent)
        inputs = len(self._plan.bucket.layout.inputs)
        for reading in range(inputs, len(self._plan.streams)):
            yield MESSAGES.to_pandas(list(self._reached(reading)))
        waiting = self.bucket.nbytes // len(self._labels)
        yield MESSAGES.to_pandas([NumberedUpTo(label, found.watermark, waiting) for label in self._labels])

    def finish(self) -> Iterator[pd.DataFrame]:
        """All has been sent."""
        return iter(())

    def _tuples(self, index: int, item: InputLayout, found: Numbered) -> Iterator[Message]:
        if item.alias in found.released:
            for buckets, part in route(self._grid, item, found.released[item.alias]):
                chunk = PackedChunk(part.select(list(item.arriving)))
                yield from (Tuples(self._labels[bucket], index, chunk) for bucket in buckets)

    def _progress(self, index: int, item: InputLayout, found: Numbered) -> Iterator[Message]:
        """How far the stream has come; the first bucket counts what was dropped."""
        late, dropped = found.late.get(item.alias, 0), self._reader.arrived.left_out(index)
        yield replace(dropped, bucket=self._labels[0], late=late)
        yield from self._reached(index)

    def _reached(self, reading: int) -> Iterator[Message]:
        """How far the stream of a reading has come."""
        max_ts = self.bucket.watermark.max_ts.get(self._plan.streams[reading], UNKNOWN)
        yield from (Progress(bucket=label, input=reading, max_ts=max_ts) for label in self._labels)

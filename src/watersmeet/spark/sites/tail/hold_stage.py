"""Answers wait at the site that finds them all until none with an earlier t can come, as a stage of Spark.

Every origin of a site says by its mark how far it has come, so the least of the marks is the watermark of its
answers, whatever the delay of a link. For DISTINCT answers leave once it is past their t; for an aggregate at
each tick of their lifetime that it passes, with the tick beside them (`kernel/output/held_answers.py`).

    ticks every 10, an answer of [12, 35), marks a: 41, b (from oslo): 25    out: tick 20
                                           marks a: 60, b: 31                out: tick 30
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
import pyarrow as pa

from watersmeet.kernel import ANSWER_END, ANSWER_TS, PersistedChunk
from watersmeet.kernel.output.held_answers import AnswerDelay, AnswerSampler, HeldAnswers
from watersmeet.query import BEGINNING
from watersmeet.spark.exchange.packed_chunk import PackedChunk
from watersmeet.spark.metrics.metrics import Metrics
from watersmeet.spark.multiquery.messages import Answers, Bounds, LevelMetrics
from watersmeet.spark.multiquery.stage import MessageFrames
from watersmeet.spark.sites.batch_contents import joined_bounds
from watersmeet.spark.sites.messages import SITE_MESSAGES, SiteMessage
from watersmeet.spark.stages.bucket_stage import BucketStage
from watersmeet.spark.tuning import Tuning
from watersmeet.spark.worker.bucket_state import Snapshot

HELD = "#answers"  # the section of answers that wait, and their template when they go


@dataclass(frozen=True, kw_only=True)
class HoldPlan:
    """All that the stage must know."""

    name: str
    origins: tuple[str, ...]  # whose marks say how early an answer can still be
    payload: tuple[str, ...]  # the columns of an answer that somebody needs
    metrics: Metrics  # of the stages before, under which it reports what it keeps
    labels: tuple[int, ...]
    fingerprint: str
    tuning: Tuning
    every_us: int | None = None  # from tick to tick of an aggregate; None: answers leave once
    before_us: int = 0  # how long before a tick the answers count that it samples
    cached_buckets: int | None = None
    is_limited: bool = False
    query_set: str | None = None

    @property
    def kept_as(self) -> str:
        return self.name

    def held(self) -> HeldAnswers:
        """Nothing, ready to hold answers."""
        if self.every_us is None:
            return AnswerDelay(HELD)
        return AnswerSampler(HELD, self.every_us, self.tuning.kernel.block_bytes, self.before_us)


@dataclass(frozen=True)
class HoldInput:
    """What has been found in a batch, and how early an answer can still be after it."""

    answers: Sequence[pa.RecordBatch]
    watermark: int


class HoldBucket:
    """Some of the answers that wait."""

    def __init__(self, held: HeldAnswers) -> None:
        self.held = held

    def step(self, batch: HoldInput) -> Iterator[pa.RecordBatch]:
        """The answers that are due; the iterator must be exhausted."""
        for answers in batch.answers:
            self.held.buffer.add(answers)
        return self.held.release(batch.watermark)

    def persisted(self) -> list[PersistedChunk]:
        return self.held.buffer.persisted()

    def snapshot(self) -> dict[str, Any]:
        return {"watermark": self.held.watermark, "next_number": self.held.buffer.next_number}

    @property
    def nbytes(self) -> int:
        return self.held.buffer.nbytes


class HoldStage(BucketStage[HoldBucket, SiteMessage, HoldInput, Iterator[pa.RecordBatch]]):
    """Holds the answers of a site; all else goes through as it is."""

    codec = SITE_MESSAGES
    bucket_type = HoldBucket

    def __init__(self, plan: HoldPlan) -> None:
        self.plan: HoldPlan = plan

    def begin(self, bucket: HoldBucket, number: int, started: float) -> HoldWork:
        return HoldWork(self.plan, bucket, number)

    def fresh(self) -> HoldBucket:
        return HoldBucket(self.plan.held())

    def restore(self, snapshot: Snapshot, chunks: Iterable[PersistedChunk]) -> HoldBucket:
        bucket = self.fresh()
        for chunk in sorted(chunks, key=lambda chunk: chunk.number):
            bucket.held.buffer.add(chunk.wide, chunk.number)
        bucket.held.watermark = snapshot["watermark"]
        bucket.held.buffer.next_number = snapshot["next_number"]
        return bucket


class HoldWork:
    """One micro-batch of one bucket."""

    def __init__(self, plan: HoldPlan, bucket: HoldBucket, number: int) -> None:
        self.bucket = bucket
        self._plan = plan
        self._label = plan.labels[number]
        self._is_first_bucket = number == 0
        self._frames = MessageFrames(plan.tuning, SITE_MESSAGES)
        self._handed_on: list[SiteMessage] = []

    def read(self, messages: Iterator[SiteMessage]) -> Iterator[HoldInput]:
        """The whole batch; each bucket is told of all progress, and one of them hands that on."""
        answers, reports = [], []
        for message in messages:
            if isinstance(message, Answers):
                answers.append(message.chunk.batch.select([*self._plan.payload, ANSWER_TS, ANSWER_END]))
                continue
            if isinstance(message, Bounds):
                reports.append(json.loads(message.body))
            if not isinstance(message, Bounds) or self._is_first_bucket:
                self._handed_on.append(message)
        known: Mapping[str, Mapping[str, int]] = joined_bounds(reports) or {}
        after = known.get("after", {})
        yield HoldInput(answers, min(after.get(name, BEGINNING) for name in self._plan.origins))

    def answer(self, found: Iterator[pa.RecordBatch]) -> Iterator[pd.DataFrame]:
        yield from self._frames.put(self._handed_on)
        for batch in found:
            for start in range(0, batch.num_rows, self._plan.tuning.answer_rows):
                part = batch.slice(start, self._plan.tuning.answer_rows)
                due = Answers(self._label, HELD, int(part.num_rows), PackedChunk(part))
                yield from self._frames.put([due])

    def finish(self) -> Iterator[pd.DataFrame]:
        values, buffer = self._plan.metrics.start(), self.bucket.held.buffer
        values.update(state_rows=buffer.rows, state_bytes=buffer.nbytes, memory_bytes=buffer.nbytes)
        yield from self._frames.put([LevelMetrics(self._label, values.text)])
        yield from self._frames.flush()

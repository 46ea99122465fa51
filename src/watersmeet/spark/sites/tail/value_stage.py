"""SELECT DISTINCT at the site that finds all answers: values meet by hash, and are let out when they appear.

Answers come here in the order of the watermark, so every batch is later than all before it
(`kernel/output/distinct.py`). What is no value goes through as it is: rows for links, and progress.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pandas as pd
import pyarrow as pa

from watersmeet.kernel import ANSWER_TS, DistinctValues, PersistedChunk
from watersmeet.spark.exchange.packed_chunk import PackedChunk
from watersmeet.spark.multiquery.messages import Answers
from watersmeet.spark.multiquery.stage import MessageFrames
from watersmeet.spark.sites.messages import SITE_MESSAGES, SiteMessage
from watersmeet.spark.stages.bucket_stage import BucketStage
from watersmeet.spark.tuning import Tuning
from watersmeet.spark.worker.bucket_state import Snapshot

VALUES = "values"  # the template of values, as they travel


@dataclass(frozen=True, kw_only=True)
class ValuePlan:
    """All that the stage must know."""

    name: str
    columns: tuple[str, ...]  # of a value
    labels: tuple[int, ...]
    fingerprint: str
    tuning: Tuning
    cached_buckets: int | None = None
    is_limited: bool = False
    query_set: str | None = None

    @property
    def kept_as(self) -> str:
        return self.name


class ValueStage(BucketStage[DistinctValues, SiteMessage, pa.RecordBatch, pa.RecordBatch]):
    """Keeps the values that are present; lets out those that appear."""

    codec = SITE_MESSAGES
    bucket_type = DistinctValues

    def __init__(self, plan: ValuePlan) -> None:
        self.plan: ValuePlan = plan

    def begin(self, bucket: DistinctValues, number: int, started: float) -> ValueWork:
        return ValueWork(self.plan, bucket, number)

    def fresh(self) -> DistinctValues:
        return DistinctValues(self.plan.columns)

    def restore(self, snapshot: Snapshot, chunks: Iterable[PersistedChunk]) -> DistinctValues:
        return DistinctValues.restore(self.plan.columns, snapshot, chunks)


class ValueWork:
    """One micro-batch of the values of one bucket."""

    def __init__(self, plan: ValuePlan, bucket: DistinctValues, number: int) -> None:
        self.bucket = bucket
        self._plan = plan
        self._label = plan.labels[number]
        self._frames = MessageFrames(plan.tuning, SITE_MESSAGES)
        self._handed_on: list[SiteMessage] = []

    def read(self, messages: Iterator[SiteMessage]) -> Iterator[pa.RecordBatch]:
        arrived = []
        for message in messages:
            if isinstance(message, Answers):
                arrived.append(message.chunk.batch)
            else:
                self._handed_on.append(message)
        if arrived:
            yield pa.concat_batches(arrived)

    def answer(self, found: pa.RecordBatch) -> Iterator[pd.DataFrame]:
        if found.num_rows:
            values = PackedChunk(found.select([*self._plan.columns, ANSWER_TS]))
            yield from self._frames.put([Answers(self._label, VALUES, int(found.num_rows), values)])

    def finish(self) -> Iterator[pd.DataFrame]:
        yield from self._frames.put(self._handed_on)
        yield from self._frames.flush()

"""The lanes of a semijoin plan at a site as a stateful stage of Spark."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
import pyarrow as pa

from watersmeet.kernel import ANSWER_END, ANSWER_TS, PersistedChunk, SharedBucket
from watersmeet.plan.sites.semijoin.oneway.items import Item
from watersmeet.query import BEGINNING
from watersmeet.query.shared_dataflow import SharedDataflow
from watersmeet.spark.exchange.packed_chunk import PackedChunk
from watersmeet.spark.metrics.site_progress import READ
from watersmeet.spark.multiquery.messages import Answers, Bounds, LevelMetrics, LevelRows
from watersmeet.spark.multiquery.metrics import SharedMetrics
from watersmeet.spark.sites.messages import SITE_MESSAGES, SiteMessage
from watersmeet.spark.sites.semijoin.bucket import BucketOutput, BucketPlan, SemijoinBucket
from watersmeet.spark.sites.semijoin.rows import gathered
from watersmeet.spark.stages.bucket_stage import BucketStage
from watersmeet.spark.tuning import Tuning
from watersmeet.spark.worker.bucket_state import Snapshot

BEYOND = 2  # the level of what leaves the stage
TEMPLATE = "0"


@dataclass(frozen=True, kw_only=True)
class SemijoinStagePlan:
    """All that the stage must know."""

    name: str
    bucket: BucketPlan
    payload: tuple[tuple[str, tuple[str, ...]], ...]  # of answers: the columns of each input
    labels: tuple[int, ...]
    fingerprint: str
    dataflow: SharedDataflow  # an empty one, by which metrics are named
    is_held: bool = False  # whether answers wait in a stage after this one
    tuning: Tuning
    cached_buckets: int | None = None
    is_limited: bool = False
    query_set: str | None = None

    @property
    def kept_as(self) -> str:
        return self.name

    def lanes_of(self, number: int) -> range:
        """The lanes in a bucket."""
        return range(number, self.bucket.program.lanes, len(self.labels))


class SemijoinStage(BucketStage[SemijoinBucket, SiteMessage, list[SiteMessage], BucketOutput]):
    """Runs the lanes of a site."""

    codec = SITE_MESSAGES
    bucket_type = SemijoinBucket

    def __init__(self, plan: SemijoinStagePlan) -> None:
        self.plan: SemijoinStagePlan = plan

    def begin(self, bucket: SemijoinBucket, number: int, started: float) -> SemijoinWork:
        return SemijoinWork(self.plan, bucket, number, started)

    def fresh(self) -> SemijoinBucket:
        return SemijoinBucket(self.plan.bucket)

    def restore(self, snapshot: Snapshot, chunks: Iterable[PersistedChunk]) -> SemijoinBucket:
        return SemijoinBucket.restore(self.plan.bucket, snapshot, chunks)


class SemijoinWork:
    """One micro-batch of one bucket."""

    def __init__(self, plan: SemijoinStagePlan, bucket: SemijoinBucket, number: int, started: float) -> None:
        self.bucket = bucket
        self.plan = plan
        self.label = plan.labels[number]
        bucket.begin(plan.lanes_of(number))
        self._started = started
        self._own: list[SiteMessage] = []
        self._late: Mapping[str, int] = {}
        self._after: Mapping[str, int] = {}
        self._answers = 0

    def read(self, messages: Iterator[SiteMessage]) -> Iterator[list[SiteMessage]]:
        """The whole batch: lanes go on when all of it is there."""
        self._own = list(messages)
        yield self._own

    def answer(self, found: BucketOutput) -> Iterator[pd.DataFrame]:
        self._late, self._after = found.late, found.after
        sent: list[SiteMessage] = []
        for lane in found.lanes:
            for site, mail in lane.mail.items():
                sent.append(LevelRows(self.label, BEYOND, mail_to(site), PackedChunk(mail)))
            most = self.plan.tuning.answer_rows
            starts = range(0, len(lane.answers), most)
            sent += [self._answered(lane.answers[start : start + most]) for start in starts]
        body = json.dumps({"before": found.before, "after": found.after}).encode()
        told = self.plan.labels if self.plan.is_held else (self.label,)  # each bucket has lanes of its own
        yield SITE_MESSAGES.to_pandas([*sent, *(Bounds(label, BEYOND, body) for label in told)])

    def finish(self) -> Iterator[pd.DataFrame]:
        plan = self.plan
        names = {alias: alias for alias in plan.bucket.program.aliases}
        metrics = SharedMetrics(names, plan.dataflow, plan.bucket.program.sources)
        nothing = SharedBucket(plan.dataflow, 1, plan.tuning.kernel)
        own: list[Any] = list(self._own)
        metrics.count(1, own, nothing, {}, dict.fromkeys(names, 1))
        values: Any = metrics.values
        for alias, late in self._late.items():
            values[f"late_{alias}"] += late
        for site, number in self.bucket.batches.items():
            values[f"{READ}{site}"] = number
        held = self.bucket.held
        values.update(
            answers=self._answers,
            state_rows=held,
            state_rows_level_1=held,
            state_bytes=self.bucket.nbytes // 2,
            memory_bytes=self.bucket.nbytes,
            watermark_us=min(self._after.values(), default=BEGINNING),
            stage_us=int(1e6 * (time.perf_counter() - self._started)),
        )
        yield SITE_MESSAGES.to_pandas([LevelMetrics(self.label, values.text)])

    def _answered(self, items: Sequence[Item]) -> Answers:
        """Answers as rows: the columns of each input, the time of the latest tuple, the end if it matters."""
        self._answers += len(items)
        aliases = self.plan.bucket.graph.aliases
        columns: dict[str, pa.Array] = {}
        for alias, names in self.plan.payload:
            at = aliases.index(alias)
            rows = gathered([item.members[at].payload for item in items])
            columns |= {f"{alias}.{name}": rows.column(f"{alias}.{name}") for name in names}
        columns[ANSWER_TS] = pa.array([item.t for item in items], pa.int64())
        if self.plan.is_held:
            ends = [min(member.end for member in item.members) for item in items]
            columns[ANSWER_END] = pa.array(ends, pa.int64())
        chunk = pa.RecordBatch.from_pydict(columns)
        return Answers(self.label, TEMPLATE, len(items), PackedChunk(chunk))


def mail_to(site: str) -> str:
    """The name of what goes to a site."""
    return f"~>{site}"

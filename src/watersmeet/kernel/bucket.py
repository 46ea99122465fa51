"""Buckets: the kernel's parts put together as a stage runs them.

`JoinBucket` joins the tuples of its share of the keys; `NumberingBucket` stands before it where a query has
ROWS windows, sees all tuples, and lets them through in the order of the watermark. Both are fed micro-batches
with their punctuation, say what a state store must keep, and can be restored from it. `Bucket` is a whole
query in one process.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.kernel.join.multiway import MultiwayJoin, Snapshot
from watersmeet.kernel.join.step_counts import StepCounts
from watersmeet.kernel.late_payload import Fetch
from watersmeet.kernel.layout import KEEP, JoinLayout, lay_out
from watersmeet.kernel.output.held_answers import AnswerDelay, AnswerSampler, HeldAnswers
from watersmeet.kernel.progress.row_numbers import RowNumberer, RowPositions
from watersmeet.kernel.progress.watermark import LatenessPolicy, Punctuation, Watermark, lateness_policies
from watersmeet.kernel.shedding.limit import StateLimit
from watersmeet.kernel.shedding.limited import LimitedJoin
from watersmeet.kernel.state.chunks import PersistedChunk
from watersmeet.query import Query

HELD = "#answers"  # the section of answers that wait; no alias starts with this sign


@dataclass(frozen=True)
class BucketPlan:
    """All a bucket must know: the layout, the streams' patience, and whether answers wait."""

    layout: JoinLayout
    lateness: Mapping[str, LatenessPolicy]
    order_by: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # of ROWS inputs, for ties
    delays_answers: bool = False
    emit_every_us: int | None = None
    initial_order: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    limit: StateLimit | None = None  # of one bucket

    @property
    def is_ranked(self) -> bool:
        return any(item.window.counts_rows for item in self.layout.inputs)

    @property
    def can_catch_up(self) -> bool:
        """Whether a bucket can become a later one by what that one has more."""
        return self.limit is None and not self.is_ranked

    def held_answers(self) -> HeldAnswers | None:
        """An empty room for answers that wait, if they do."""
        if self.emit_every_us is not None:
            return AnswerSampler(HELD, self.emit_every_us)
        return AnswerDelay(HELD) if self.delays_answers else None


def plan_bucket(query: Query, limit: StateLimit | None = None) -> BucketPlan:
    """What the buckets of a query must know; `limit` is of one bucket."""
    order_by = {
        item.alias: tuple(c.name for c in item.stream.columns if c.name != item.stream.event_time)
        for item in query.inputs
        if item.window.counts_rows
    }
    every = query.aggregate.emit_every_us if query.aggregate else None
    delays = query.distinct and every is None
    return BucketPlan(lay_out(query), lateness_policies(query), order_by, delays, every, limit=limit)


class JoinBucket:
    """One bucket's join, its watermark, and the answers that wait behind it."""

    def __init__(self, plan: BucketPlan) -> None:
        self._plan = plan
        self.join = MultiwayJoin(plan.layout, plan.initial_order)
        self.limited = LimitedJoin(self.join, plan.limit) if plan.limit else None
        self.counts = StepCounts()  # of the latest micro-batch
        self.waiting_bytes = 0  # this bucket's part of what waits for the watermark in the rank stage
        self._is_between_batches = True
        self.watermark = Watermark(plan.lateness)
        self.held = plan.held_answers()
        self.hot: dict[str, Any] = {}  # in the first bucket: what it knows of hot values, fit for JSON

    def step(
        self,
        new: Mapping[str, pa.RecordBatch],
        marks: Punctuation,
        places: Mapping[str, RowPositions] | None = None,
        watermark: int | None = None,
        fetch: Fetch | None = None,
    ) -> Iterator[pa.Table]:
        """Answers of a micro-batch; behind a `NumberingBucket` the watermark and the places are given."""
        now = self.watermark.advance(marks)
        if watermark is not None:
            now = self.watermark.now = max(self.watermark.now, watermark)
        yield from self._join(new, now, places or {}, fetch)
        if self.held is not None:
            for batch in self.held.release(now):
                yield pa.Table.from_batches([batch])
        self._is_between_batches = True

    def feed(self, new: Mapping[str, pa.RecordBatch]) -> Iterator[pa.Table]:
        """Answers of the first part of a micro-batch, of which `step` takes the last."""
        yield from self._join(new, self.join.watermark, {})

    def _join(
        self,
        new: Mapping[str, pa.RecordBatch],
        now: int,
        places: Mapping[str, RowPositions],
        fetch: Fetch | None = None,
    ) -> Iterator[pa.Table]:
        if self._is_between_batches:
            self.counts, self._is_between_batches = StepCounts(), False
        if self.limited is None:
            steps = self.join.step(new, now, places, fetch)
        else:  # without payload that comes late: it is the better part of what is to be limited
            held = self.held.room if self.held else None
            steps = self.limited.step(new, now, places, held, self.waiting_bytes)
        for answers in steps:
            if self.held is None:
                yield answers
            else:
                for batch in answers.combine_chunks().to_batches():
                    self.held.room.add(batch)
        self.counts.add(self.join.counts if self.limited is None else self.limited.counts)
        self.join.arrived = {}

    def persisted(self) -> list[PersistedChunk]:
        """The chunks a state store must hold."""
        return self.join.persisted() + (self.held.room.persisted() if self.held else [])

    def snapshot(self) -> dict[str, Any]:
        """The few numbers to persist beside them, fit for JSON."""
        join = self.join.snapshot()
        return {
            "watermark": self.watermark.snapshot(),
            "next_chunk": dict(join.next_chunk),
            "newest_place": dict(join.newest_place),
            "next_row": dict(join.next_row),
            "starts": dict(join.starts),
            "next_held": self.held.room.next_number if self.held else 0,
            **({"survival": self.limited.survival.snapshot()} if self.limited else {}),
            "hot": self.hot,
        }

    @classmethod
    def restore(
        cls, plan: BucketPlan, snapshot: Mapping[str, Any], chunks: Iterable[PersistedChunk]
    ) -> JoinBucket:
        """The bucket as it stood when this was persisted."""
        bucket = cls(plan)
        bucket.catch_up(snapshot, chunks)
        if plan.limit is not None:
            bucket.limited = LimitedJoin(bucket.join, plan.limit, snapshot.get("survival"))
        return bucket

    def catch_up(self, snapshot: Mapping[str, Any], chunks: Iterable[PersistedChunk]) -> None:
        """Becomes the bucket that was persisted so, of which this one is an earlier state.

        Unless it is new, its plan must say that it can.
        """
        everything = list(chunks)
        self.watermark = Watermark.restore(self._plan.lateness, snapshot["watermark"])
        self.hot = dict(snapshot["hot"])
        numbers = (snapshot[name] for name in ("next_chunk", "newest_place", "next_row", "starts"))
        own = [chunk for chunk in everything if chunk.section != HELD]
        self.join.catch_up(Snapshot(self.watermark.now, *numbers), own)
        self.held = self._plan.held_answers()
        if self.held is not None:
            self.held.watermark = self.watermark.now
            waiting = [chunk for chunk in everything if chunk.section == HELD]
            for chunk in sorted(waiting, key=lambda chunk: chunk.number):
                self.held.room.add(chunk.batch, chunk.number)
            self.held.room.next_number = snapshot["next_held"]

    @property
    def state_rows(self) -> int:
        return self.join.live_rows + (self.held.room.rows if self.held else 0)

    @property
    def state_bytes(self) -> int:
        return self.join.payload_bytes + (self.held.room.nbytes if self.held else 0)

    @property
    def nbytes(self) -> int:
        """Memory taken, indexes included."""
        return self.state_bytes + self.join.index_bytes

    @property
    def used_bytes(self) -> int:
        """Memory taken without the room that indexes have to grow into: what a limit is for."""
        return self.join.used_bytes + (self.held.room.nbytes if self.held else 0)


@dataclass(frozen=True)
class Numbered:
    """What a `NumberingBucket` lets through: tuples by alias, the places just known, and the watermark."""

    released: dict[str, pa.RecordBatch]
    places: dict[str, RowPositions]
    watermark: int
    late: dict[str, int]


class NumberingBucket:
    """Holds all tuples of a query with ROWS windows until the watermark is past them."""

    def __init__(self, plan: BucketPlan) -> None:
        self.watermark = Watermark(plan.lateness)
        self._rankers = {
            item.alias: RowNumberer(
                f"#waiting {item.alias}",
                plan.order_by.get(item.alias, ()),
                ranks=item.window.counts_rows,
            )
            for item in plan.layout.inputs
        }

    def step(self, new: Mapping[str, pa.RecordBatch], marks: Punctuation) -> Numbered:
        """Takes a micro-batch; local filters of ROWS inputs apply after places are given."""
        late = {alias: self._rankers[alias].push(batch) for alias, batch in new.items()}
        now = self.watermark.advance(marks)
        released, places = {}, {}
        for alias, ranker in self._rankers.items():
            batch, known = ranker.release(now)
            if len(known.ts):
                places[alias] = known
            if batch is not None:
                released[alias] = _kept(batch)
        return Numbered(released, places, now, late)

    def persisted(self) -> list[PersistedChunk]:
        return [chunk for ranker in self._rankers.values() for chunk in ranker.room.persisted()]

    def snapshot(self) -> dict[str, Any]:
        return {
            "watermark": self.watermark.snapshot(),
            "next_place": {alias: ranker.next_place for alias, ranker in self._rankers.items()},
            "next_number": {alias: ranker.room.next_number for alias, ranker in self._rankers.items()},
        }

    @classmethod
    def restore(
        cls, plan: BucketPlan, snapshot: Mapping[str, Any], chunks: Iterable[PersistedChunk]
    ) -> NumberingBucket:
        bucket = cls(plan)
        bucket.watermark = Watermark.restore(plan.lateness, snapshot["watermark"])
        ordered = sorted(chunks, key=lambda chunk: chunk.number)
        for alias, ranker in bucket._rankers.items():
            ranker.watermark = bucket.watermark.now
            ranker.next_place = snapshot["next_place"][alias]
            for chunk in ordered:
                if chunk.section == ranker.room.section:
                    ranker.room.add(chunk.batch, chunk.number)
            ranker.room.next_number = snapshot["next_number"][alias]
        return bucket

    @property
    def state_rows(self) -> int:
        return sum(ranker.room.rows for ranker in self._rankers.values())

    @property
    def state_bytes(self) -> int:
        return sum(ranker.room.nbytes for ranker in self._rankers.values())

    nbytes = state_bytes


class Bucket:
    """A query over all of its streams' tuples, in one process."""

    def __init__(self, query: Query, limit: StateLimit | None = None) -> None:
        plan = plan_bucket(query, limit)
        self.query = query
        self.ranks = NumberingBucket(plan) if plan.is_ranked else None
        self.joins = JoinBucket(plan)

    def step(self, new: Mapping[str, pa.RecordBatch], marks: Punctuation) -> Iterator[pa.Table]:
        """Joins a micro-batch, keyed by alias; a ROWS input brings all of its columns, to order ties by."""
        if self.ranks is None:
            yield from self.joins.step(new, marks)
        else:
            ranked = self.ranks.step(new, marks)
            self.joins.waiting_bytes = self.ranks.nbytes
            yield from self.joins.step(ranked.released, Punctuation(), ranked.places, ranked.watermark)


def _kept(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.filter(pc.fill_null(batch.column(KEEP), False)) if KEEP in batch.schema.names else batch

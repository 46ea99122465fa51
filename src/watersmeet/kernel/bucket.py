"""Buckets: the kernel's parts put together as a stage runs them.

`JoinBucket` joins the tuples of its share of the keys; `NumberingBucket` stands before it where a query has
ROWS windows, sees all tuples, and lets them through in the order of the watermark. Both are fed micro-batches
(`BatchInput`), say what a state store must keep, and can be restored from it. `Bucket` is a whole query in
one process.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.kernel.batch_input import BatchInput
from watersmeet.kernel.join.multiway import MultiwayJoin
from watersmeet.kernel.join.snapshot import Snapshot
from watersmeet.kernel.join.step_counts import StepCounts
from watersmeet.kernel.layout import KEEP, JoinLayout, lay_out
from watersmeet.kernel.outer.tree_join import TreeJoin
from watersmeet.kernel.outer.tree_layout import OuterLayout
from watersmeet.kernel.output.held_answers import AnswerDelay, AnswerSampler, AnswerStay, HeldAnswers
from watersmeet.kernel.progress.row_numbers import RowNumberer, RowPositions
from watersmeet.kernel.progress.watermark import LatenessPolicy, Punctuation, Watermark, lateness_policies
from watersmeet.kernel.shedding.limit import StateLimit
from watersmeet.kernel.shedding.limited import LimitedJoin
from watersmeet.kernel.state.chunks import PersistedChunk
from watersmeet.kernel.tuning import DEFAULT_TUNING, Tuning
from watersmeet.query import BEGINNING, Query

HELD = "#answers"  # the section of answers that wait; no alias starts with this sign


@dataclass(frozen=True)
class BucketPlan:
    """All a bucket must know: the layout, how late streams may be, and whether answers wait."""

    layout: JoinLayout
    lateness: Mapping[str, LatenessPolicy]
    order_by: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # of ROWS inputs, for ties
    delays_answers: bool = False
    emit_every_us: int | None = None
    before_tick_us: int = 0  # how long before a tick the answers count that it samples
    initial_order: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    limit: StateLimit | None = None  # of one bucket
    tree: OuterLayout | None = None  # of outer, semi and anti joins, where the query has any
    tuning: Tuning = DEFAULT_TUNING

    def new_join(self) -> MultiwayJoin | TreeJoin:
        """The join of a bucket that has seen nothing."""
        if self.tree is not None:
            return TreeJoin(self.layout, self.tree, self.tuning)
        return MultiwayJoin(self.layout, self.initial_order, self.tuning)

    @property
    def is_ranked(self) -> bool:
        return any(item.window.numbers_rows for item in self.layout.inputs)

    @property
    def can_catch_up(self) -> bool:
        """Whether a bucket can become a later one by what that one has more."""
        counts = any(item.window.counts_rows for item in self.layout.inputs)
        return self.limit is None and not counts and self.tree is None

    def held_answers(self) -> HeldAnswers | None:
        """What holds answers that wait, if they do; empty."""
        if self.emit_every_us is not None:
            return AnswerSampler(HELD, self.emit_every_us, self.tuning.block_bytes, self.before_tick_us)
        if not self.delays_answers:
            return None
        return AnswerStay(HELD) if any(item.follows for item in self.layout.inputs) else AnswerDelay(HELD)


def plan_bucket(
    query: Query,
    limit: StateLimit | None = None,
    tuning: Tuning = DEFAULT_TUNING,
    tree: tuple[JoinLayout, OuterLayout] | None = None,
) -> BucketPlan:
    """What the buckets of a query must know: `limit` is of one bucket, `tree` how a tree of joins runs."""
    layout, outer = tree or (lay_out(query), None)
    order_by = {
        item.alias: tuple(c.name for c in item.stream.columns if c.name != item.stream.event_time)
        for item in query.inputs
        if item.window.numbers_rows
    }
    every = query.aggregate.emit_every_us if query.aggregate else None
    delays = query.distinct and every is None
    return BucketPlan(
        layout,
        lateness_policies(query),
        order_by,
        delays,
        every,
        query.aggregate.before_us if query.aggregate else 0,
        limit=limit,
        tree=outer,
        tuning=tuning,
    )


class JoinBucket:
    """One bucket's join, its watermark, and the answers that wait behind it."""

    def __init__(self, plan: BucketPlan) -> None:
        self._plan = plan
        self.join = plan.new_join()
        self.limited = self._limited()
        self.counts = StepCounts()  # of the latest micro-batch
        self.waiting_bytes = 0  # this bucket's part of what waits in the numbering stage
        self._is_between_batches = True
        self.watermark = Watermark(plan.lateness)
        self.held = plan.held_answers()
        self.hot: dict[str, Any] = {}  # in the first bucket: what it knows of hot values, fit for JSON

    def step(self, batch: BatchInput) -> Iterator[pa.Table]:
        """Answers of a micro-batch, or of a part of one; the watermark moves with the last part."""
        if not batch.is_last:
            yield from self._join(batch, self.join.watermark)
            return
        now = self.watermark.advance(batch.punctuation)
        if batch.watermark is not None:
            now = self.watermark.now = max(self.watermark.now, batch.watermark)
        self.waiting_bytes = batch.waiting_bytes
        yield from self._join(batch, now)
        if self.held is not None:
            newest = max(self.watermark.max_ts.values(), default=BEGINNING)
            for answers in self.held.release(self._settled_us, newest):
                yield pa.Table.from_batches([answers])
        self._is_between_batches = True

    def _join(self, batch: BatchInput, now: int) -> Iterator[pa.Table]:
        if self._is_between_batches:
            self.counts, self._is_between_batches = StepCounts(), False
        if isinstance(self.join, TreeJoin):
            steps = self.join.step(batch.tuples, now, batch.positions, batch.received)
        elif self.limited is None:
            steps = self.join.step(batch.tuples, now, batch.positions, batch.late_payload)
        else:  # without payload that comes late: it is the better part of what is to be limited
            held = self.held.buffer if self.held else None
            steps = self.limited.step(batch.tuples, now, batch.positions, held, self.waiting_bytes)
        for answers in steps:
            if self.held is None:
                yield answers
            else:
                for part in answers.combine_chunks().to_batches():
                    self.held.buffer.add(part)
        if self.held is not None and isinstance(self.join, MultiwayJoin):
            self.held.settle(self.join.settled)
        self.counts.add(self.join.counts if self.limited is None else self.limited.counts)
        self.join.arrived = {}

    def persisted(self) -> list[PersistedChunk]:
        """The chunks a state store must hold."""
        return self.join.persisted() + (self.held.buffer.persisted() if self.held else [])

    def snapshot(self) -> dict[str, Any]:
        """The few numbers to persist beside them, fit for JSON."""
        return {
            "watermark": self.watermark.snapshot(),
            **(
                {"tree": self.join.numbers()}
                if isinstance(self.join, TreeJoin)
                else self.join.snapshot().to_json()
            ),
            "next_held": self.held.buffer.next_number if self.held else 0,
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
        bucket.limited = bucket._limited(snapshot.get("survival"))
        return bucket

    def catch_up(self, snapshot: Mapping[str, Any], chunks: Iterable[PersistedChunk]) -> None:
        """Becomes the bucket that was persisted so, of which this one is an earlier state.

        Unless it is new, its plan must say that it can.
        """
        everything = list(chunks)
        self.watermark = Watermark.restore(self._plan.lateness, snapshot["watermark"])
        self.hot = dict(snapshot["hot"])
        own = [chunk for chunk in everything if chunk.section != HELD]
        if isinstance(self.join, TreeJoin):
            self.join.restore(self.watermark.now, snapshot["tree"], own)
        else:
            self.join.catch_up(Snapshot.of(self.watermark.now, snapshot), own)
        self.held = self._plan.held_answers()
        if self.held is not None:
            self.held.watermark = self._settled_us
            waiting = [chunk for chunk in everything if chunk.section == HELD]
            for chunk in sorted(waiting, key=lambda chunk: chunk.number):
                self.held.buffer.add(chunk.wide, chunk.number)
            self.held.buffer.next_number = snapshot["next_held"]

    @property
    def _settled_us(self) -> int:
        """No answer yet to come has an earlier t."""
        return self.join.settled_us if isinstance(self.join, TreeJoin) else self.join.watermark

    def _limited(self, survival: Mapping[str, Any] | None = None) -> LimitedJoin | None:
        if self._plan.limit is None:
            return None
        assert isinstance(self.join, MultiwayJoin), "a tree of joins has no limit"
        return LimitedJoin(self.join, self._plan.limit, survival)

    @property
    def state_rows(self) -> int:
        return self.join.live_rows + (self.held.buffer.rows if self.held else 0)

    @property
    def state_bytes(self) -> int:
        return self.join.payload_bytes + (self.held.buffer.nbytes if self.held else 0)

    @property
    def nbytes(self) -> int:
        """Memory taken, indexes included."""
        return self.state_bytes + self.join.index_bytes

    @property
    def used_bytes(self) -> int:
        """Memory in use, without what indexes have reserved to grow into: what a limit is for."""
        return self.join.used_bytes + (self.held.buffer.nbytes if self.held else 0)


@dataclass(frozen=True)
class Numbered:
    """What a `NumberingBucket` lets through: tuples by alias, the positions just given, and the watermark."""

    released: dict[str, pa.RecordBatch]
    positions: dict[str, RowPositions]
    watermark: int
    late: dict[str, int]


class NumberingBucket:
    """Holds all tuples of a query with ROWS windows until the watermark is past them."""

    def __init__(self, plan: BucketPlan) -> None:
        self.watermark = Watermark(plan.lateness)
        self._filtered = {item.alias for item in plan.layout.inputs if not item.keeps}
        self._numberers = {
            item.alias: RowNumberer(
                f"#waiting {item.alias}",
                plan.order_by.get(item.alias, ()),
                numbers=item.window.numbers_rows,
            )
            for item in plan.layout.inputs
        }

    def step(self, batch: BatchInput) -> Numbered:
        """Takes a micro-batch; local filters of ROWS inputs apply after positions are given.

        Those of a PARTITION BY input apply in its join."""
        late = {alias: self._numberers[alias].push(tuples) for alias, tuples in batch.tuples.items()}
        now = self.watermark.advance(batch.punctuation)
        released, positions = {}, {}
        for alias, numberer in self._numberers.items():
            tuples, known = numberer.release(now)
            if len(known.ts):
                positions[alias] = known
            if tuples is not None:
                released[alias] = _kept(tuples) if alias in self._filtered else tuples
        return Numbered(released, positions, now, late)

    def persisted(self) -> list[PersistedChunk]:
        return [chunk for numberer in self._numberers.values() for chunk in numberer.buffer.persisted()]

    def snapshot(self) -> dict[str, Any]:
        return {
            "watermark": self.watermark.snapshot(),
            "next_position": {alias: numberer.next_position for alias, numberer in self._numberers.items()},
            "next_number": {
                alias: numberer.buffer.next_number for alias, numberer in self._numberers.items()
            },
        }

    @classmethod
    def restore(
        cls, plan: BucketPlan, snapshot: Mapping[str, Any], chunks: Iterable[PersistedChunk]
    ) -> NumberingBucket:
        bucket = cls(plan)
        bucket.watermark = Watermark.restore(plan.lateness, snapshot["watermark"])
        ordered = sorted(chunks, key=lambda chunk: chunk.number)
        for alias, numberer in bucket._numberers.items():
            numberer.watermark = bucket.watermark.now
            numberer.next_position = snapshot["next_position"][alias]
            for chunk in ordered:
                if chunk.section == numberer.buffer.section:
                    numberer.buffer.add(chunk.wide, chunk.number)
            numberer.buffer.next_number = snapshot["next_number"][alias]
        return bucket

    @property
    def state_rows(self) -> int:
        return sum(numberer.buffer.rows for numberer in self._numberers.values())

    @property
    def state_bytes(self) -> int:
        return sum(numberer.buffer.nbytes for numberer in self._numberers.values())

    nbytes = state_bytes


class Bucket:
    """A query over all of its streams' tuples, in one process."""

    def __init__(
        self, query: Query, limit: StateLimit | None = None, tuning: Tuning = DEFAULT_TUNING
    ) -> None:
        plan = plan_bucket(query, limit, tuning)
        self.query = query
        self.ranks = NumberingBucket(plan) if plan.is_ranked else None
        self.joins = JoinBucket(plan)

    def step(self, new: Mapping[str, pa.RecordBatch], punctuation: Punctuation) -> Iterator[pa.Table]:
        """Joins a micro-batch, keyed by alias; a ROWS input brings all of its columns, to order ties by."""
        batch = BatchInput(new, punctuation)
        if self.ranks is not None:
            numbered = self.ranks.step(batch)
            batch = BatchInput(
                numbered.released,
                Punctuation(self.ranks.watermark.max_ts if self.joins.held is not None else {}),
                positions=numbered.positions,
                watermark=numbered.watermark,
                waiting_bytes=self.ranks.nbytes,
            )
        yield from self.joins.step(batch)


def _kept(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.filter(pc.fill_null(batch.column(KEEP), False)) if KEEP in batch.schema.names else batch

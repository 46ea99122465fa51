"""A bucket of a semijoin plan at a site: its lanes, the open intervals of its streams, and what it has read.

State is kept as input, not as what came of it: a micro-batch adds what it was given, and now and then all of
it is put together anew (lane_state.py). A bucket that is restored takes the newest whole, and does again what
was given since; what it does depends on nothing else.

    whole 3          the state after batch 40
    given 41, 42     the messages of the two batches since
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet.kernel import TS, LatenessPolicy, PersistedChunk, StreamBounds
from watersmeet.plan.sites.semijoin.multiway.at_site import Mail, SiteLane, interval_mark
from watersmeet.plan.sites.semijoin.multiway.semijoin_program import SemijoinProgram
from watersmeet.plan.sites.semijoin.oneway.items import Item, Member
from watersmeet.query import BEGINNING, NEVER, JoinGraph, Window
from watersmeet.query.shared_dataflow import END
from watersmeet.spark.exchange.messages import EndOfInput
from watersmeet.spark.multiquery.messages import InputProgress, LevelRows
from watersmeet.spark.sites.messages import (
    SITE_MESSAGES,
    MarksOfLink,
    PieceRows,
    PiecesOfLink,
    SiteMessage,
)
from watersmeet.spark.sites.semijoin.lane_state import freeze, thaw
from watersmeet.spark.sites.semijoin.mail import BODY, LANE, NUMBER, Sides, members_of, open_mail, pack_mail
from watersmeet.spark.sites.semijoin.rows import KeyTypes
from watersmeet.spark.stages.punctuation import punctuate
from watersmeet.spark.tuning import Tuning

WHOLE, GIVEN = "whole", "given"
MAIL = "~"  # no alias starts with this sign


@dataclass(frozen=True, kw_only=True)
class BucketPlan:
    """All that a bucket must know."""

    program: SemijoinProgram
    graph: JoinGraph
    windows: Mapping[str, Window]
    lateness: Mapping[str, LatenessPolicy]  # of the inputs that arrive here
    sides: Sides
    tuning: Tuning

    def lane(self) -> SiteLane:
        return SiteLane(self.program, self.graph, self.windows)


@dataclass(frozen=True)
class LaneOutput:
    """What a lane has brought forth."""

    lane: int
    mail: Mapping[str, pa.RecordBatch]  # by site
    answers: Sequence[Item]


@dataclass(frozen=True)
class BucketOutput:
    """What a micro-batch has brought forth; progress is that of streams here, and of other sites."""

    lanes: Sequence[LaneOutput]
    before: Mapping[str, int]
    after: Mapping[str, int]
    late: Mapping[str, int]


def own_rows(alias: str, lane: int) -> str:
    """The name under which tuples of an input come to a lane."""
    return f"{alias}|{lane}"


def mail_from(site: str) -> str:
    """The name under which mail of another site comes."""
    return f"{MAIL}{site}"


def batches_read(messages: Sequence[SiteMessage]) -> Iterator[tuple[str, int]]:
    """The batches of other sites that have come to their end, and of which site each is."""
    for message in messages:
        if isinstance(message, MarksOfLink):
            yield message.link, message.number
        elif isinstance(message, PiecesOfLink):
            notes = json.loads(message.body)
            yield from ((note["source"], note["number"]) for note in notes if "end" in note)


@dataclass
class _Arriving:
    """What has come and is not with the lanes yet."""

    open: dict[tuple[str, int], dict[int, list[Member]]] = field(default_factory=dict)  # by input and lane
    positions: dict[tuple[str, int], int] = field(default_factory=dict)
    early: dict[tuple[str, int], dict[int, bytes]] = field(default_factory=dict)  # mail, by site and lane
    read: dict[tuple[str, int], int] = field(default_factory=dict)  # the number of the next mail
    sent: dict[tuple[str, int], int] = field(default_factory=dict)
    batches: dict[str, int] = field(default_factory=dict)  # the newest that was read of each link


class SemijoinBucket:
    """Some of the lanes of a plan at a site."""

    def __init__(self, plan: BucketPlan) -> None:
        self.plan = plan
        self.lanes: dict[int, SiteLane] = {}
        self.bounds = StreamBounds(plan.lateness)
        self._types: KeyTypes = {}
        self._arriving = _Arriving()
        self._whole: PersistedChunk | None = None
        self._given: list[PersistedChunk] = []
        self._next = 0  # the number of the next chunk

    def begin(self, lanes: Iterable[int]) -> None:
        """Makes these the bucket's lanes, if it has just been made."""
        if not self.lanes:
            self.lanes = {lane: self.plan.lane() for lane in lanes}

    def step(self, messages: Sequence[SiteMessage]) -> BucketOutput:
        """A micro-batch."""
        found = self._run(messages)
        self._given.append(PersistedChunk(GIVEN, self._next, SITE_MESSAGES.to_arrow(messages)))
        self._next += 1
        size = sum(int(chunk.batch.nbytes) for chunk in self._given)
        tuning, whole = self.plan.tuning, 0 if self._whole is None else int(self._whole.batch.nbytes)
        if len(self._given) >= tuning.replayed_batches or size > max(tuning.replayed_bytes, whole):
            self._put_together()
        return found

    def _run(self, messages: Sequence[SiteMessage]) -> BucketOutput:
        before = dict(self.bounds.now)
        heard = self._heard()
        late = self._take(messages, before)
        said = [(one.name, one.max_ts, one.now_us) for one in messages if isinstance(one, InputProgress)]
        self.bounds.advance(punctuate(said, (), is_end=False))
        if any(isinstance(one, EndOfInput) for one in messages):
            self.bounds.now |= dict.fromkeys(self.plan.lateness, NEVER)
        lanes = [self._step_lane(number, lane) for number, lane in sorted(self.lanes.items())]
        return BucketOutput(
            lanes,
            before | heard,
            self.bounds.now | self._heard(),
            late,
        )

    def persisted(self) -> list[PersistedChunk]:
        return [*([] if self._whole is None else [self._whole]), *self._given]

    def snapshot(self) -> dict[str, Any]:
        return {"next": self._next, "lanes": list(self.lanes)}

    @property
    def batches(self) -> Mapping[str, int]:
        """The newest batch that was read of each link."""
        return self._arriving.batches

    @property
    def held(self) -> int:
        """Tuples kept, in lanes and in intervals that are open."""
        still_open = [batch for batches in self._arriving.open.values() for batch in batches.values()]
        return sum(map(len, still_open)) + sum(lane.held for lane in self.lanes.values())

    @property
    def nbytes(self) -> int:
        """About: what it is, and what it is kept as."""
        return 2 * sum(int(chunk.batch.nbytes) for chunk in self.persisted())

    @classmethod
    def restore(
        cls, plan: BucketPlan, snapshot: Mapping[str, Any], chunks: Iterable[PersistedChunk]
    ) -> SemijoinBucket:
        """As it was persisted."""
        bucket = cls(plan)
        bucket.begin(snapshot["lanes"])
        given = []
        for chunk in sorted(chunks, key=lambda chunk: chunk.number):
            if chunk.section == WHOLE:
                bucket._whole = chunk
            else:
                given.append(chunk)
        if bucket._whole is not None:
            bucket._take_apart(bucket._whole.batch)
        for chunk in given:
            bucket._run(list(SITE_MESSAGES.from_arrow(chunk.batch)))
        bucket._given, bucket._next = given, snapshot["next"]
        return bucket

    def _put_together(self) -> None:
        types = pa.schema([(str(cls), type_) for cls, type_ in self._types.items()])
        lanes = {number: lane.state for number, lane in self.lanes.items()}
        kept = (self.bounds.snapshot(), types.serialize().to_pybytes(), self._arriving, lanes)
        frozen = freeze(kept, list(self.lanes.values()))
        self._whole, self._given = PersistedChunk(WHOLE, self._next, frozen), []
        self._next += 1

    def _take_apart(self, frozen: pa.RecordBatch) -> None:
        bounds, types, self._arriving, lanes = thaw(frozen, list(self.lanes.values()))
        self.bounds = StreamBounds.restore(self.plan.lateness, {}, bounds)
        self._types = {int(one.name): one.type for one in pa.ipc.read_schema(pa.py_buffer(types))}
        for number, lane in self.lanes.items():
            lane.state = lanes[number]

    def _take(self, messages: Sequence[SiteMessage], before: Mapping[str, int]) -> dict[str, int]:
        """Takes in tuples that are in time, and mail; how many tuples were late, by input."""
        late: dict[str, int] = {}
        for site, number in batches_read(messages):
            self._arriving.batches[site] = max(number, self._arriving.batches.get(site, number))
        for message in messages:
            if isinstance(message, PieceRows):
                self._take_mail(json.loads(message.piece)[0], message.chunk.batch)
            if not isinstance(message, LevelRows):
                continue
            if message.source.startswith(MAIL):
                self._take_mail(message.source[1:], message.chunk.batch)
                continue
            alias, lane = message.source.rsplit("|", 1)
            rows = message.chunk.batch
            in_time = np.asarray(rows.column(TS)) >= before[alias]
            late[alias] = late.get(alias, 0) + int(rows.num_rows - np.count_nonzero(in_time))
            self._open(alias, int(lane), rows.filter(pa.array(in_time)))
        return late

    def _open(self, alias: str, lane: int, rows: pa.RecordBatch) -> None:
        if not rows.num_rows:
            return
        own = rows.select([name for name in rows.schema.names if name not in (TS, END)])
        times = [rows.column(name).to_pylist() for name in (TS, END)]
        columns = self.plan.sides.columns[alias]
        classes = self.plan.sides.classes
        batches = self._arriving.open.setdefault((alias, lane), {})
        for member in members_of(own, columns, classes, self._types, [[0] * rows.num_rows, *times]):
            batches.setdefault(member.ts // self.plan.program.interval_us, []).append(member)

    def _take_mail(self, site: str, chunk: pa.RecordBatch) -> None:
        """Mail that has been read before is the same again, and is left out."""
        columns = (chunk.column(name).to_pylist() for name in (LANE, NUMBER, BODY))
        for lane, number, body in zip(*columns, strict=True):
            if number >= self._arriving.read.get((site, lane), 0):
                self._arriving.early.setdefault((site, lane), {})[number] = body

    def _step_lane(self, number: int, lane: SiteLane) -> LaneOutput:
        arriving = self._arriving
        for site in self.plan.program.sources:
            early = arriving.early.get((site, number), {})
            while (following := arriving.read.get((site, number), 0)) in early:
                lane.receive(open_mail(early.pop(following), self.plan.sides, self._types))
                arriving.read[site, number] = following + 1
        for alias in self.plan.program.aliases:
            self._close(alias, number, lane)
        mails, answers = lane.run()
        packed = {}
        for site, mail in mails.items():
            packed[site] = self._pack(site, number, mail)
        return LaneOutput(number, packed, answers)

    def _pack(self, site: str, lane: int, mail: Mail) -> pa.RecordBatch:
        number = self._arriving.sent.get((site, lane), 0)
        self._arriving.sent[site, lane] = number + 1
        return pack_mail(mail, self.plan.sides, self._types, lane, number)

    def _close(self, alias: str, lane_number: int, lane: SiteLane) -> None:
        """Hands a lane the intervals that are over; tuples are in an order that any other try would find."""
        mark = interval_mark(self.bounds.now[alias], self.plan.program.interval_us)
        if mark == BEGINNING:
            return
        way = (alias, lane_number)
        waiting, due = self._arriving.open.get(way, {}), {}
        for interval in [interval for interval in waiting if interval <= mark]:
            due[interval] = sorted(waiting.pop(interval), key=lambda one: (one.ts, repr(one.keys)))
        for interval in sorted(due):
            start = self._arriving.positions.get(way, 0)
            due[interval] = [one._replace(position=start + n) for n, one in enumerate(due[interval])]
            self._arriving.positions[way] = start + len(due[interval])
        lane.close(alias, mark, due)

    def _heard(self) -> dict[str, int]:
        """How far what comes from each site has come, in time, and how far all is done."""
        lanes, interval_us = self.lanes.values(), self.plan.program.interval_us
        marks = {
            mail_from(site): min((lane.heard_from(site) for lane in lanes), default=NEVER)
            for site in self.plan.program.sources
        }
        marks[MAIL] = min((lane.complete for lane in lanes), default=NEVER)
        return {
            name: mark if mark in (BEGINNING, NEVER) else (mark + 1) * interval_us
            for name, mark in marks.items()
        }

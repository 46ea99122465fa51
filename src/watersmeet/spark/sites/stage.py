"""A level of the joins at a site, as a stateful stage of Spark.

It differs from a level of a shared dataflow in three ways. Rows bring their lifetimes, and so do those that
come over links. Whether a tuple is late is decided once, in the first level of the site where it arrives, by
how far its own stream had come: no other site could know better. And results go on to ports, here or beyond a
link, by the value of an attribute where the plan says so; those that leave are marked by a level beyond the
last.

Progress is followed by origin: streams that arrive here by the tuples seen, all others by the marks of links.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet.kernel import (
    FIRST,
    TS,
    LinkBatch,
    LinkMarks,
    LinkPieces,
    PersistedChunk,
    SharedBucket,
    SharedRows,
    StreamBounds,
    route_rows,
)
from watersmeet.plan.sites.site_dataflow import SiteDataflow, row_keys
from watersmeet.plan.sites.site_program import Guard, Send
from watersmeet.query import BEGINNING, NEVER, Query
from watersmeet.query.shared_dataflow import BEHIND, SINCE, Relation, SharedDataflow
from watersmeet.spark.exchange.messages import EndOfInput
from watersmeet.spark.exchange.packed_chunk import PackedChunk
from watersmeet.spark.metrics.site_progress import READ
from watersmeet.spark.multiquery.messages import InputProgress, LevelRows
from watersmeet.spark.multiquery.metrics import SharedMetrics
from watersmeet.spark.multiquery.stage import LevelPlan, LevelState, LevelWork, SharedStage
from watersmeet.spark.sites.guard_rows import passes
from watersmeet.spark.sites.messages import (
    SITE_MESSAGES,
    MarksOfLink,
    PieceRows,
    PiecesOfLink,
    SiteMessage,
)
from watersmeet.spark.sites.topic_messages import piece_name, send_of
from watersmeet.spark.stages.punctuation import punctuate
from watersmeet.spark.worker.bucket_state import Snapshot


@dataclass(frozen=True)
class StageSend:
    """A send as a stage carries it out."""

    name: str
    origin: str
    port: Relation | None  # where it goes, at this site; None: over a link
    guard: Guard | None = None
    guarded: str = ""  # the column whose value the guard asks for


@dataclass(frozen=True, kw_only=True)
class SitePlan(LevelPlan):
    """All a level at a site must know; `names` are the inputs that arrive here."""

    sends: Mapping[str, StageSend] = field(default_factory=dict)
    received: Mapping[str, Relation] = field(default_factory=dict)  # the port of each send over a link
    is_held: bool = False  # whether answers wait in a stage after the last level


def stage_sends(query: Query, site: SiteDataflow) -> dict[str, StageSend]:
    """The sends of a site by their names."""

    def one(send: Send) -> StageSend:
        guarded = "" if send.guard is None else row_keys(query, send.aliases)[send.guard.attribute]
        port = None if send.crosses else site.ports[send.port.name]
        return StageSend(send.name, send.origin, port, send.guard, guarded)

    return {name: one(send) for name, send in site.sends.items()}


class SiteState(LevelState):
    """A bucket of a level at a site; that of the first also knows what links have reported."""

    def __init__(self, dataflow: SharedDataflow, bucket: SharedBucket, bounds: StreamBounds | None) -> None:
        super().__init__(dataflow, bucket, bounds)
        self.links = LinkMarks()
        self.topics = LinkPieces()

    def snapshot(self) -> dict[str, Any]:
        topics = {"topics": self.topics.snapshot()} if self.topics.links else {}
        return {**super().snapshot(), "links": self.links.snapshot(), **topics}

    def last_read(self, link: str) -> int:
        """The newest batch of a link whose marks count."""
        topic = self.topics.links.get(link)
        return self.links.last.get(link, FIRST) if topic is None else topic.last

    def watermark(self, progress: Mapping[str, int]) -> int:
        """How far everything that this site waits for has come."""
        return min(progress.values(), default=BEGINNING)


class SiteStage(SharedStage):
    """Runs one level at a site."""

    codec = SITE_MESSAGES  # type: ignore[assignment]
    bucket_type = SiteState

    def __init__(self, plan: SitePlan) -> None:
        super().__init__(plan)
        self.plan: SitePlan = plan

    def begin(self, bucket: LevelState, number: int, started: float) -> LevelWork:
        assert isinstance(bucket, SiteState)
        return SiteWork(self.plan, bucket, number, started)

    def fresh(self) -> SiteState:
        dataflow, level = self.plan.ship.dataflow, self.plan.level
        bounds = StreamBounds(self.plan.lateness) if level == 1 else None
        return SiteState(dataflow, SharedBucket(dataflow, level, self.plan.tuning.kernel), bounds)

    def restore(self, snapshot: Snapshot, chunks: Iterable[PersistedChunk]) -> SiteState:
        known = super().restore(snapshot, chunks)
        state = SiteState(self.plan.ship.dataflow, known.bucket, known.bounds)
        state.links = LinkMarks.restore(snapshot["links"])
        state.topics = LinkPieces.restore(snapshot.get("topics", {}))
        return state


class SiteWork(LevelWork):
    """One micro-batch of one bucket of a level at a site."""

    codec = SITE_MESSAGES

    def __init__(self, plan: SitePlan, bucket: SiteState, number: int, started: float) -> None:
        super().__init__(plan, bucket, number, started)
        self._site = plan
        self._state = bucket
        self._is_first_bucket = number == 0
        self._late: dict[str, int] = {}
        self._fresh: set[str] = set()  # pieces that have come for the first time

    def level_of(self, message: SiteMessage) -> int | None:
        is_of_link = isinstance(message, MarksOfLink | PieceRows | PiecesOfLink)
        return 1 if is_of_link else super().level_of(message)

    @property
    def is_followed_by_level(self) -> bool:
        """After the last level, the links are told of progress; one bucket speaks for all.

        Where answers wait, every bucket of them is told, and one of those speaks for all.
        """
        return super().is_followed_by_level or self._is_first_bucket or self._site.is_held

    def follow(self) -> tuple[dict[str, int], dict[str, int]]:
        bounds = self._state.bounds
        if bounds is None:
            return super().follow()
        said = []
        for message in self.own:
            if isinstance(message, InputProgress):
                said.append((message.name, message.max_ts, message.now_us))
            elif isinstance(message, MarksOfLink):
                marks = json.loads(message.body)
                self._state.links.take(message.link, message.number, message.previous, marks)
            elif isinstance(message, PiecesOfLink):
                self._note(json.loads(message.body))
        before, reported = dict(bounds.now), punctuate(said, (), is_end=False)
        due = self._state.links.due() | self._state.topics.due()
        marks = {origin: mark for origin, mark in due.items() if origin in bounds.now}
        bounds.advance(replace(reported, max_ts={**reported.max_ts, **marks}))
        if any(isinstance(message, EndOfInput) for message in self.own):
            bounds.now |= dict.fromkeys(self.plan.names, NEVER)  # of what arrives here; links say their own
        return before, dict(bounds.now)

    def chunks(self, before: Mapping[str, int]) -> dict[str, list[pa.RecordBatch]]:
        """The rows for ports of this level; tuples that have just arrived are judged by their time first."""
        new: dict[str, list[pa.RecordBatch]] = {}
        for message in self.own:
            if isinstance(message, PieceRows):
                self._take_piece(message, new)
            if not isinstance(message, LevelRows):
                continue
            send = self._site.sends.get(message.source)
            if send is None:
                new.setdefault(message.source, []).append(_with_since(message.chunk.batch))
                continue
            rows = self._in_time(send.origin, message.chunk.batch, before)
            if not rows.num_rows:
                continue
            if send.port is not None and send.port.level == self.plan.level:
                new.setdefault(send.port.name, []).append(_with_since(rows))
            else:
                self.handed_on.append(self._on_its_way(send, rows, message.bucket))
        return new

    def _note(self, notes: Sequence[Mapping[str, Any]]) -> None:
        """What was read of topics: which pieces are new, and which batches are whole."""
        topics = self._state.topics
        for note in notes:
            batch = LinkBatch(note["source"], note["writer"], note["number"], note["batch_plan"])
            if (end := note.get("end")) is not None:
                groups = [(send, bucket) for send, bucket in end["groups"]]
                topics.end(batch, end["previous"], end["marks"], groups)
            elif topics.take(batch, (note["send"], note["bucket"]), note["piece"], note["of"]):
                self._fresh.add(piece_name(note))

    def _take_piece(self, rows: PieceRows, new: dict[str, list[pa.RecordBatch]]) -> None:
        """Rows that have come for the first time go to their port, once."""
        if rows.piece not in self._fresh:
            return
        self._fresh.remove(rows.piece)
        port = self._site.received[send_of(rows.piece)]
        if port.level == self.plan.level:
            new.setdefault(port.name, []).append(_with_since(rows.chunk.batch))
        else:
            self.handed_on.append(LevelRows(rows.bucket, port.level, port.name, rows.chunk))

    def count(self, metrics: SharedMetrics) -> None:
        pieces = (message for message in self.own if isinstance(message, PieceRows))
        metrics.values["arrived_bytes"] += sum(message.chunk.nbytes for message in pieces)
        for link in self.plan.links:
            metrics.values[f"{READ}{link}"] = self._state.last_read(link)
        for alias, late in self._late.items():
            metrics.values[f"late_{alias}"] += late

    def messages(self, found: SharedRows) -> Iterator[SiteMessage]:
        send = self._site.sends.get(found.target) if isinstance(found.target, str) else None
        if send is None:
            yield from super().messages(found)
            return
        own = [name for name in found.table.column_names if name != SINCE and not name.endswith(BEHIND)]
        table = found.table.select(own).combine_chunks()
        for batch in table.to_batches(max_chunksize=self.plan.tuning.answer_rows):
            rows = (
                batch if send.guard is None else batch.filter(passes(send.guard, batch.column(send.guarded)))
            )
            if not rows.num_rows:
                continue
            if send.port is None:
                yield self._on_its_way(send, rows, self.label)
                continue
            labels = self.plan.labels
            for bucket, part in route_rows(rows, send.port.route, len(labels)):
                yield self._on_its_way(send, part, labels[bucket])

    def _in_time(self, alias: str, rows: pa.RecordBatch, before: Mapping[str, int]) -> pa.RecordBatch:
        in_time = np.asarray(rows.column(TS)) >= before[alias]
        late = int(rows.num_rows - np.count_nonzero(in_time))
        self._late[alias] = self._late.get(alias, 0) + late
        return rows.filter(pa.array(in_time)) if late else rows

    def _on_its_way(self, send: StageSend, rows: pa.RecordBatch, bucket: int) -> LevelRows:
        """Rows for a port of a later level, or for a link."""
        if send.port is not None:
            return LevelRows(bucket, send.port.level, send.port.name, PackedChunk(rows))
        return LevelRows(bucket, self.plan.ship.dataflow.levels + 1, send.name, PackedChunk(rows))


def _with_since(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Rows as joins keep them: all count from the start, as there is one query from start to end."""
    if SINCE in rows.schema.names:
        return rows
    return rows.append_column(SINCE, pa.array(np.zeros(rows.num_rows, np.int64)))

"""The messages of a micro-batch, and the files some of them name, as what a bucket is fed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import assert_never

import numpy as np
import pyarrow as pa

from watersmeet.kernel import TS, BatchInput, JoinLayout, Punctuation, RowPositions
from watersmeet.query import BEGINNING
from watersmeet.spark.exchange.file_input import open_named
from watersmeet.spark.exchange.messages import (
    Dropped,
    EndOfInput,
    FileName,
    Message,
    NumberedUpTo,
    Positions,
    Progress,
    ReadRows,
    Results,
    StageMetrics,
    Tuples,
)
from watersmeet.spark.sources.parquet.late_columns import LateColumns
from watersmeet.spark.stages.punctuation import punctuate
from watersmeet.spark.stages.stage_plan import StagePlan


@dataclass
class Arrived:
    """What has come to a bucket in a micro-batch, in numbers, by the number of the input."""

    rows: Counter[int] = field(default_factory=Counter)
    copies: Counter[int] = field(default_factory=Counter)  # of these, what is counted in another bucket
    late_copies: Counter[int] = field(default_factory=Counter)  # of these, what is late here
    nbytes: int = 0
    progress: list[Progress] = field(default_factory=list)
    dropped: list[Dropped] = field(default_factory=list)
    results: int = 0  # of other stages
    metrics: list[str] = field(default_factory=list)  # of other stages

    @property
    def tables(self) -> set[int]:
        """The digests of the routing tables by which tuples were sent."""
        return {message.table for message in self.progress}

    def of(self, number: int) -> list[Progress]:
        """What was reported of an input."""
        return [message for message in self.progress if message.input == number]

    def left_out(self, number: int) -> Dropped:
        """What tasks have left out of an input, in all."""
        own = [message for message in self.dropped if message.input == number]
        return Dropped(
            bucket=0,
            input=number,
            late=sum(message.late for message in own),
            null_times=sum(message.null_times for message in own),
            ahead=sum(message.ahead for message in own),
            read=sum((ReadRows.from_bytes(message.read) for message in own), ReadRows()).to_bytes(),
        )


class BatchReader:
    """Reads one micro-batch for one bucket; `arrived` counts what has come so far."""

    def __init__(self, plan: StagePlan, number: int, watermark: int = BEGINNING) -> None:
        """`watermark` is the bucket's before this batch: what is older is late."""
        self.arrived = Arrived()
        self._plan = plan
        self._number = number
        self._watermark = watermark
        self._late = LateColumns(plan.late, plan.tuning)
        self._parts: dict[str, list[pa.RecordBatch]] = {}
        self._held_bytes = 0
        self._positions: dict[str, RowPositions] = {}
        self._reached: list[NumberedUpTo] = []
        self._results: dict[int, list[pa.RecordBatch]] = {}
        self._is_end = False

    def read(self, messages: Iterable[Message], most_bytes: int | None = None) -> Iterator[BatchInput]:
        """The batch, or parts of it of about so many bytes, the last of which ends it."""
        for message in open_named(self._plan.files, self._number, messages):
            self._take(message)
            if most_bytes is not None and self._held_bytes > most_bytes:
                received = self._received()
                yield BatchInput(self._tuples(), late_payload=self._late, is_last=False, received=received)
        yield BatchInput(
            self._tuples(),
            self._punctuation(),
            self._positions,
            max((message.watermark_us for message in self._reached), default=None),
            sum(message.waiting_bytes for message in self._reached),
            self._late,
            received=self._received(),
        )

    @property
    def _layout(self) -> JoinLayout:
        return self._plan.bucket.layout

    def _take(self, message: Message) -> None:
        match message:
            case Tuples():
                self._take_tuples(message)
            case Progress():
                self.arrived.progress.append(message)
            case Dropped():
                self.arrived.dropped.append(message)
            case Positions():
                self._positions[self._layout.inputs[message.input].alias] = message.positions
            case NumberedUpTo():
                self._reached.append(message)
            case EndOfInput():
                self._is_end = True
            case Results():
                self._take_results(message)
            case StageMetrics():
                self.arrived.metrics.append(message.text)
            case FileName():
                raise AssertionError(f"{message.path} was not opened")
            case _:
                assert_never(message)

    def _take_tuples(self, message: Tuples) -> None:
        tuples, arrived = message.chunk.batch, self.arrived
        arrived.rows[message.input] += int(tuples.num_rows)
        arrived.nbytes += message.chunk.nbytes
        self._held_bytes += message.chunk.nbytes
        if message.copies:
            ts = np.asarray(tuples.column(TS))[-message.copies :]
            arrived.copies[message.input] += message.copies
            arrived.late_copies[message.input] += int(np.count_nonzero(ts < self._watermark))
        self._parts.setdefault(self._layout.inputs[message.input].alias, []).append(tuples)

    def _take_results(self, message: Results) -> None:
        self.arrived.results += message.chunk.rows
        self.arrived.nbytes += message.chunk.nbytes
        self._held_bytes += message.chunk.nbytes
        self._results.setdefault(message.stage, []).append(message.chunk.batch)

    def _received(self) -> dict[int, list[pa.RecordBatch]]:
        """The results of other stages at hand, which are no longer held here."""
        found, self._results = self._results, {}
        return found

    def _tuples(self) -> dict[str, pa.RecordBatch]:
        """The tuples at hand by alias, which are no longer held here."""
        parts, self._parts, self._held_bytes = self._parts, {}, 0
        admitted = {alias: self._late.admit(self._layout.of(alias), own) for alias, own in parts.items()}
        return {
            alias: batches[0] if len(batches) == 1 else pa.concat_batches(batches)
            for alias, batches in admitted.items()
        }

    def _punctuation(self) -> Punctuation:
        streams = self._plan.streams
        said = [(streams[each.input], each.max_ts, each.now_us) for each in self.arrived.progress]
        marks = [(streams[each.input], each.mark) for each in self.arrived.progress]
        return punctuate(said, self._plan.starts, is_end=self._is_end, marks=marks)

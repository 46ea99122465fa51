"""The rows that one bucket keeps, read from its state log, and which of them are live.

A row is live while something that is still to come may meet it: its lifetime ends after the watermark.
Others are kept only because they share a chunk with such rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.kernel import PersistedChunk
from watersmeet.kernel.columns.hash_index import Longs
from watersmeet.kernel.layout import ANSWER_END, KEEP, POSITION, TS
from watersmeet.kernel.outer.marks import ROW
from watersmeet.kernel.outer.side import SETTLED
from watersmeet.kernel.state.latest_rows import LatestRows
from watersmeet.query import BEGINNING, NEVER
from watersmeet.query.shared_dataflow import END
from watersmeet.spark.inspect.sections import Holding, Section
from watersmeet.spark.stages.state_log import HEAD, Head, StateLog
from watersmeet.spark.tuning import Tuning

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class BucketState:
    """What a bucket has in the state store."""

    head: Head
    chunks: list[PersistedChunk]

    @property
    def snapshot(self) -> Mapping[str, Any]:
        return self.head.snapshot or {}

    @property
    def sections(self) -> dict[str, list[PersistedChunk]]:
        found: dict[str, list[PersistedChunk]] = {}
        for chunk in self.chunks:
            found.setdefault(chunk.section, []).append(chunk)
        return found

    def columns(self, section: str) -> list[str]:
        """The columns of a section that has chunks."""
        return list(self.sections[section][0].wide.schema.names)


class _StoredValues:
    """The values of a bucket, as a stage reads them."""

    def __init__(self, values: Mapping[str, bytes]) -> None:
        self._values = values

    def getValue(self, key: tuple[str]) -> tuple[bytes] | None:  # noqa: N802 - Spark's name
        return (self._values[key[0]],) if key[0] in self._values else None


def read_bucket(values: Mapping[str, bytes]) -> BucketState:
    """A bucket's head and chunks, from all of its values."""
    log = StateLog(_StoredValues(values), Tuning())  # type: ignore[arg-type]
    head = log.read_head(json.loads(values[HEAD])["fingerprint"])
    return BucketState(head, list(log.read_chunks(head.chunks or {})))


def watermark_of(snapshot: Mapping[str, Any]) -> int | None:
    """How far a bucket's own watermark is; None where another stage knows it."""
    watermark = snapshot.get("watermark")
    if watermark is not None:
        return int(watermark["now"])
    bounds = snapshot.get("bounds")
    if bounds is not None:
        return min((int(bound) for bound in bounds["now"].values()), default=BEGINNING)
    return int(snapshot["now"]) if "now" in snapshot else None


def rows_with_lives(
    name: str, section: Section, state: BucketState, watermark: int
) -> Iterator[tuple[pa.RecordBatch, Mask]]:
    """The rows of each chunk of a section, and which of them are live."""
    chunks = sorted(state.sections[name], key=lambda chunk: chunk.number)
    batches = [chunk.wide for chunk in chunks]
    if section.window is not None and section.window.partition and section.holds is Holding.TUPLES:
        yield from zip(batches, _last_of_each_value(section, batches, watermark), strict=True)
        return
    settled = _Settled(name, state)
    for chunk, batch in zip(chunks, batches, strict=True):
        yield batch, settled.apply(chunk.number, _ends(section, batch, state.snapshot, watermark)) > watermark


def event_times(batch: pa.RecordBatch) -> Longs | None:
    """The event times of tuples, or None: answers have none."""
    return np.asarray(batch.column(TS)) if TS in batch.schema.names else None


def _ends(section: Section, batch: pa.RecordBatch, snapshot: Mapping[str, Any], watermark: int) -> Longs:
    names = batch.schema.names
    forever = np.full(batch.num_rows, NEVER)
    for name in (ANSWER_END, END):
        if name in names:
            return np.asarray(batch.column(name))
    window = section.window
    if section.holds is Holding.WAITING:  # a chunk is kept until the last of its rows has gone on
        return np.where(np.asarray(batch.column(TS)) >= watermark, forever, BEGINNING)
    if window is None:
        return forever
    if window.numbers_rows:
        newest = int(snapshot.get("newest_position", {}).get(section.of, -1))
        expired = window.expires_at(np.asarray(batch.column(POSITION))) <= newest
        return np.where(expired, BEGINNING, forever)
    return np.asarray(window.known_end_us(np.asarray(batch.column(TS))))


class _Settled:
    """Ends of the rows of a side of a join that have been decided since they were kept."""

    def __init__(self, name: str, state: BucketState) -> None:
        known = [chunk.wide for chunk in state.sections.get(name + SETTLED, [])]
        self._rows = np.concatenate([np.asarray(one.column(ROW)) for one in known] or [np.empty(0, np.int64)])
        self._ends = np.concatenate([np.asarray(one.column(END)) for one in known] or [np.empty(0, np.int64)])
        self._starts: Mapping[str, int] = {}
        if len(self._rows):
            node, side = name.removeprefix("#").split(".")
            self._starts = state.snapshot["tree"]["nodes"][int(node)][side]["starts"]

    def apply(self, chunk: int, ends: Longs) -> Longs:
        if len(self._rows):
            within = self._rows - self._starts[str(chunk)]
            inside = (within >= 0) & (within < len(ends))
            ends = ends.copy()
            np.minimum.at(ends, within[inside], self._ends[inside])
        return ends


def _last_of_each_value(section: Section, batches: list[pa.RecordBatch], watermark: int) -> Iterator[Mask]:
    """Rows that are among the last of their value, or that the watermark has not passed."""
    assert section.window is not None
    everything = pa.Table.from_batches(batches).combine_chunks()
    ts = np.asarray(everything.column(TS))
    entered = np.flatnonzero(ts < watermark)
    order_by = [name for name in section.order_by if name in everything.column_names]
    latest = LatestRows(int(getattr(section.window, "size", 1)), section.window.partition, order_by)
    joins = np.ones(len(ts), np.bool_)
    if KEEP in everything.column_names:
        joins = np.asarray(everything.column(KEEP).combine_chunks().fill_null(False))
    for key in {column for _, column in section.keys} & {*everything.column_names}:
        joins = joins & np.asarray(everything.column(key).combine_chunks().is_valid())
    joins = joins[entered]
    live = np.ones(len(ts), np.bool_)
    if len(entered):

        def columns(names: Any, rows: Longs) -> list[pa.Array]:
            return [everything.column(name).combine_chunks().take(pa.array(rows)) for name in names]

        decided = latest.enter(entered, ts[entered], columns, joins)
        live[entered] = (decided.ends == NEVER) & joins
    start = 0
    for batch in batches:
        yield live[start : start + batch.num_rows]
        start += batch.num_rows

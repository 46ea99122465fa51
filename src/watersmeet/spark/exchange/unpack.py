"""The far side of a stage: blobs of answers become rows again, one struct column per input."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from watersmeet.kernel import ANSWER_END, ANSWER_TS, ENDED, TICK
from watersmeet.spark.exchange.packed_chunk import decode

CHUNK = "chunk"  # the column of blobs

Payload = tuple[tuple[str, tuple[str, ...]], ...]  # alias -> columns, for inputs with any

_TIMESTAMP = pa.timestamp("us", tz="UTC")


@dataclass(frozen=True)
class UnpackAnswers:
    """Yields answers as rows: a struct per input that answers need, t, and on request further facts."""

    payload: Payload
    with_end: bool = False
    with_tick: bool = False
    with_ended: bool = False

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for blob in batch.column(CHUNK).drop_null():
                yield self._rows(decode(blob.as_buffer()))

    def _rows(self, answers: pa.RecordBatch) -> pa.RecordBatch:
        columns: dict[str, pa.Array] = {}
        for alias, names in self.payload:
            fields = [answers.column(f"{alias}.{name}") for name in names]
            columns[alias] = pa.StructArray.from_arrays(fields, list(names))
        columns[ANSWER_TS] = answers.column(ANSWER_TS).view(_TIMESTAMP)
        if self.with_end:
            columns[ANSWER_END] = answers.column(ANSWER_END)
        if self.with_ended:
            columns[ENDED] = answers.column(ENDED)
        if self.with_tick:
            columns[TICK] = answers.column(TICK).view(_TIMESTAMP)
        return pa.RecordBatch.from_pydict(columns)


@dataclass(frozen=True)
class UnpackValues:
    """Yields the rows of blobs; `columns` are those to yield, all unless they are given."""

    columns: tuple[str, ...] | None = None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for blob in batch.column(CHUNK).drop_null():
                rows = decode(blob.as_buffer())
                yield rows if self.columns is None else rows.select(self.columns)

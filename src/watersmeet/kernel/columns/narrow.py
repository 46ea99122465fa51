"""Chunks in few bytes: whole numbers and instants in as many as their range takes.

Keys, sizes and the instants of one batch rarely need all of their eight bytes. Rows are read from a chunk as
it is, and it passes through a dozen copies until it is in a state store, so its bytes count twice.

    1735689600000000, 1735689600001000, 1735689600250000    from 1735689600000000: 0, 1000, 250000 in 4 bytes
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

import numba
import numpy as np
import pyarrow as pa

from watersmeet.kernel.tuning import DEFAULT_TUNING

_WIDE, _LOWS = b"wide", b"lows"  # metadata: the schema as it was, and what to add to the columns changed
_WIDTHS = (np.uint8, np.uint16, np.uint32)


@dataclass(frozen=True)
class Narrowing:
    """How to read a batch: its schema as it was, and what to add to the columns that were changed."""

    schema: pa.Schema
    lows: Mapping[str, int]

    def column(self, batch: pa.RecordBatch, name: str) -> pa.Array:
        """A column as it was."""
        column = batch.column(name)
        if name not in self.lows:
            return column
        words = np.asarray(column).astype(np.int64) + self.lows[name]
        return pa.array(words).view(self.schema.field(name).type)


def narrowed(batch: pa.RecordBatch, least_rows: int = DEFAULT_TUNING.narrow_rows) -> pa.RecordBatch:
    """The batch in fewer bytes, unless it is small or narrowed already; `widened` gives it back."""
    if batch.num_rows < least_rows or narrowing_of(batch).lows:
        return batch
    columns, lows = list(batch.columns), {}
    for number, column in enumerate(batch.columns):
        if not is_of_words(column.type) or column.null_count:
            continue
        words = np.asarray(column.view(pa.int64()))
        low, high = (int(bound) for bound in _extremes(words))
        width = next((width for width in _WIDTHS if high - low <= np.iinfo(width).max), None)
        if width is not None:
            short = np.empty(len(words), width)
            _shorten(words, low, short)
            columns[number] = pa.array(short)
            lows[batch.schema.names[number]] = low
    if not lows:
        return batch
    metadata = {_WIDE: batch.schema.serialize().to_pybytes(), _LOWS: json.dumps(lows).encode()}
    fields = [(name, column.type) for name, column in zip(batch.schema.names, columns, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields, metadata))


@numba.njit(cache=True)
def _extremes(words):  # type: ignore[no-untyped-def]
    low = high = words[0]
    for word in words:
        low, high = min(low, word), max(high, word)
    return low, high


@numba.njit(cache=True)
def _shorten(words, low, short):  # type: ignore[no-untyped-def]
    for row in range(len(words)):
        short[row] = words[row] - low


def narrowing_of(batch: pa.RecordBatch) -> Narrowing:
    """How to read a batch that may have been narrowed."""
    metadata = batch.schema.metadata or {}
    if _LOWS not in metadata:
        return Narrowing(batch.schema, {})
    return Narrowing(pa.ipc.read_schema(pa.py_buffer(metadata[_WIDE])), json.loads(metadata[_LOWS]))


def widened(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A batch as it was before `narrowed`."""
    narrowing = narrowing_of(batch)
    if not narrowing.lows:
        return batch
    columns = [narrowing.column(batch, name) for name in batch.schema.names]
    return pa.RecordBatch.from_arrays(columns, schema=narrowing.schema)


def is_of_words(type_: pa.DataType) -> bool:
    """Whether values are whole numbers of eight bytes."""
    return bool(pa.types.is_int64(type_) or pa.types.is_timestamp(type_))

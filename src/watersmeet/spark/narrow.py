"""Chunks on their way to the state store: whole numbers and instants in as few bytes as their range takes.

A chunk passes through a dozen copies until it is in the store, so its bytes are most of what it costs.
Keys, sizes and the instants of one batch rarely need all of their eight bytes.

    1735689600000000, 1735689600001000, 1735689600250000    from 1735689600000000: 0, 1000, 250000 in 4 bytes
"""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa

WORTH_ROWS = 4096  # of a smaller chunk little is to be spared
_WIDE, _LOWS = b"wide", b"lows"  # metadata: the schema as it was, and what to add to the columns changed
_WIDTHS = (np.uint8, np.uint16, np.uint32)


def narrowed(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch in fewer bytes, if it is worth it; `widened` gives it back."""
    if batch.num_rows < WORTH_ROWS:
        return batch
    columns, lows = list(batch.columns), {}
    for place, column in enumerate(batch.columns):
        if not _is_of_words(column.type) or column.null_count:
            continue
        words = np.asarray(column.view(pa.int64()))
        low, high = int(words.min()), int(words.max())
        width = next((width for width in _WIDTHS if high - low <= np.iinfo(width).max), None)
        if width is not None:
            columns[place] = pa.array((words - low).astype(width))
            lows[place] = low
    if not lows:
        return batch
    metadata = {_WIDE: batch.schema.serialize().to_pybytes(), _LOWS: json.dumps(lows).encode()}
    fields = [(name, column.type) for name, column in zip(batch.schema.names, columns, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields, metadata))


def widened(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A batch as it was before `narrowed`."""
    metadata = batch.schema.metadata or {}
    if _LOWS not in metadata:
        return batch
    wide = pa.ipc.read_schema(pa.py_buffer(metadata[_WIDE]))
    columns = list(batch.columns)
    for place, low in json.loads(metadata[_LOWS]).items():
        words = np.asarray(columns[int(place)]).astype(np.int64) + low
        columns[int(place)] = pa.array(words).view(wide.field(int(place)).type)
    return pa.RecordBatch.from_arrays(columns, schema=wide)


def _is_of_words(type_: pa.DataType) -> bool:
    return bool(pa.types.is_int64(type_) or pa.types.is_timestamp(type_))

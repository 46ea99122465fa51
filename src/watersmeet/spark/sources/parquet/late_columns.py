"""Wide columns of files, fetched for the tuples that need them after the join of a micro-batch.

A kilobyte of text goes through a dozen copies from a file to the join: Arrow, the worker's socket, a row of
the JVM, the shuffle's file and back. Few tuples of a large batch are in an answer or outlive it. So a packing
task sends wide text as a reference, the number of a file and of a row in it, and the join reads the file
itself, in the same micro-batch. What it keeps beyond the batch it keeps whole, so a file is needed no longer
than Spark's own reader would need it.

Every bucket opens every file again, so this pays while there are few of either.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.kernel import REF, InputLayout, with_payload
from watersmeet.query.arrow_types import arrow_type
from watersmeet.spark.sources.parquet.rows import FileColumn, bytes_and_rows, read_chosen
from watersmeet.spark.tuning import DEFAULT, Tuning

_WIDE_TYPES = {"string", "binary"}
_ROW_BITS = 40  # of a reference; the file's number is above
_FILES = b"watersmeet.files"


def late_columns(
    uris: Sequence[str], columns: Sequence[FileColumn], buckets: int, tuning: Tuning = DEFAULT
) -> tuple[FileColumn, ...]:
    """The columns of these files that are sent as references; none where that does not pay."""
    wide = wide_columns(columns)
    if not wide or buckets > tuning.late_buckets or len(uris) > tuning.late_files:
        return ()
    sizes = [bytes_and_rows(uri, wide) for uri in uris]
    rows = sum(count for _, count in sizes)
    is_wide = sum(size for size, _ in sizes) >= tuning.late_bytes * rows
    return wide if rows >= tuning.late_rows and is_wide else ()


def wide_columns(columns: Sequence[FileColumn]) -> tuple[FileColumn, ...]:
    """The columns that may be wide and are not needed to join."""
    return tuple(column for column in columns if column.type in _WIDE_TYPES and not column.is_key)


def refer(parts: Iterator[pa.RecordBatch], file: int, uris: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The rows of a task's file with their references, which name the file by its number in `uris`."""
    rows = file << _ROW_BITS
    metadata = {_FILES: json.dumps(list(uris)).encode()}
    for part in parts:
        refs = np.arange(rows, rows + part.num_rows, dtype=np.int64)
        rows += part.num_rows
        yield part.append_column(REF, pa.array(refs)).replace_schema_metadata(metadata)


class LateColumns:
    """Fetches what the chunks of one micro-batch refer to, by alias and column: a `LatePayload`."""

    def __init__(self, columns: Mapping[str, Sequence[FileColumn]], tuning: Tuning = DEFAULT) -> None:
        self._tuning = tuning
        self._columns = {alias: {column.name: column for column in known} for alias, known in columns.items()}
        self._files: list[str] = []

    def admit(self, layout: InputLayout, chunks: Sequence[pa.RecordBatch]) -> list[pa.RecordBatch]:
        """Chunks of an input, their references numbered over the files of all chunks admitted.

        Where some tasks sent their columns and others references, these are followed now.
        """
        admitted = [self._renumbered(chunk) for chunk in chunks]
        referring = [REF in chunk.schema.names for chunk in admitted]
        if all(referring) or not any(referring):
            return admitted
        return [
            with_payload(layout, chunk, np.ones(chunk.num_rows, np.bool_), self)
            if is_referring
            else chunk.select(list(layout.columns))
            for chunk, is_referring in zip(admitted, referring, strict=True)
        ]

    def _renumbered(self, chunk: pa.RecordBatch) -> pa.RecordBatch:
        files = json.loads((chunk.schema.metadata or {}).get(_FILES, b"[]"))
        if not files:
            return chunk
        before = len(self._files) << _ROW_BITS
        self._files += files
        refs = pa.array(np.asarray(chunk.column(REF)) + before)
        chunk = chunk.set_column(chunk.schema.get_field_index(REF), REF, refs)
        return chunk.replace_schema_metadata(None)

    def fetch(self, alias: str, names: Sequence[str], refs: npt.NDArray[np.int64]) -> list[pa.Array]:
        columns = [self._columns[alias][name] for name in names]
        order = np.argsort(refs, kind="stable")
        ordered = refs[order]
        parts: list[list[pa.Array]] = [[pa.nulls(0, arrow_type(column.type))] for column in columns]
        for file in np.unique(ordered >> _ROW_BITS):
            rows = ordered[ordered >> _ROW_BITS == file] - (file << _ROW_BITS)
            chosen = read_chosen(self._files[file], columns, rows, self._tuning)
            for part, values in zip(parts, chosen, strict=True):
                part.append(values)
        back = pa.array(np.argsort(order, kind="stable"))
        return [pa.concat_arrays(part).take(back) for part in parts]

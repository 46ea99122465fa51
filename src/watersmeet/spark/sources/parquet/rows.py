"""The rows of a parquet file as Spark would read them, by Arrow.

Columns are found whatever their case, a column that a file lacks is NULL, and what does not fit its declared
type is refused: the rules of `schema.fits` decide what a file may hold. Folders may give columns too. Files
are not mapped into memory, since one that is cut short meanwhile would kill the worker; a file that changes
while it is read is refused.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from watersmeet.errors import DataError
from watersmeet.query.arrow_types import arrow_type
from watersmeet.spark.exchange.collect import NOW
from watersmeet.spark.session.failures import RESUME
from watersmeet.spark.sources.parquet.folder_columns import DIRECT, folder_value, folder_values
from watersmeet.spark.sources.parquet.schema import fits
from watersmeet.spark.storage.paths import local_path
from watersmeet.spark.tuning import DEFAULT, Tuning

_LEGACY = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")

# Where the values of a column are: under a name in the file, or one value for all rows.
Held: TypeAlias = str | pa.Scalar


@dataclass(frozen=True)
class FileColumn:
    """A column of a chunk: where it comes from, and as what."""

    name: str
    column: str
    type: str  # Spark's name; an event time becomes whole microseconds
    is_time: bool = False
    is_key: bool = False
    root: str | None = None  # the folder below which folders give columns, if they do


def read_rows(
    uri: str, columns: tuple[FileColumn, ...], now_us: int | None, tuning: Tuning = DEFAULT
) -> Iterator[pa.RecordBatch]:
    """The rows of a file as a pack takes them."""
    with _opened(uri) as (path, file):
        held = {column.column: _held(path, file.schema_arrow, column) for column in columns}
        wanted = [name for name in held.values() if isinstance(name, str)]
        for batch in file.iter_batches(_rows_at_once(file, tuning), columns=wanted, use_threads=False):
            arrays = [_values(batch, held[column.column], column) for column in columns]
            names = [column.name for column in columns]
            if now_us is not None:
                arrays.append(pa.repeat(pa.scalar(now_us, pa.int64()), batch.num_rows))
                names.append(NOW)
            yield pa.RecordBatch.from_arrays(arrays, names)


def _rows_at_once(file: pq.ParquetFile, tuning: Tuning) -> int:
    groups = [file.metadata.row_group(number) for number in range(file.metadata.num_row_groups)]
    row_bytes = sum(group.total_byte_size for group in groups) / max(1, file.metadata.num_rows)
    return int(min(tuning.read_rows, max(1024, tuning.read_bytes / max(1, row_bytes))))


def read_chosen(
    uri: str, columns: Sequence[FileColumn], rows: npt.NDArray[np.int64], tuning: Tuning = DEFAULT
) -> list[pa.Array]:
    """Columns of a file at these rows, which are in ascending order; parts without any are not decoded."""
    found: list[list[pa.Array]] = [[] for _ in columns]
    with _opened(uri) as (path, file):
        held = {column.column: _held(path, file.schema_arrow, column) for column in columns}
        wanted = [name for name in held.values() if isinstance(name, str)]
        first = 0
        for group in range(file.num_row_groups):
            stop = first + file.metadata.row_group(group).num_rows
            chosen = rows[np.searchsorted(rows, first) : np.searchsorted(rows, stop)]
            groups = [group] if len(chosen) else []
            for batch in file.iter_batches(tuning.chosen_rows, groups, columns=wanted, use_threads=False):
                here = chosen[: np.searchsorted(chosen, first + batch.num_rows)]
                chosen = chosen[len(here) :]
                if len(here):
                    picked = batch.take(pa.array(here - first))
                    for part, column in zip(found, columns, strict=True):
                        part.append(_values(picked, held[column.column], column))
                first += batch.num_rows
                if not len(chosen):
                    break
            first = stop
    return [
        pa.concat_arrays(part) if part else pa.nulls(0, arrow_type(column.type))
        for part, column in zip(found, columns, strict=True)
    ]


def bytes_and_rows(uri: str, columns: Sequence[FileColumn]) -> tuple[int, int]:
    """The size of these columns in a file before compression, and its rows, as its footer has them."""
    size = 0
    with _opened(uri) as (path, file):
        held = [_held(path, file.schema_arrow, column) for column in columns]
        for group in map(file.metadata.row_group, range(file.num_row_groups)):
            parts = map(group.column, range(group.num_columns))
            size += sum(part.total_uncompressed_size for part in parts if part.path_in_schema in held)
        return size, file.metadata.num_rows


@contextmanager
def _opened(uri: str) -> Iterator[tuple[str, pq.ParquetFile]]:
    """A file open for reading; what is wrong with it is said in words."""
    path = str(local_path(uri))
    try:
        before = _version(path)
        with pq.ParquetFile(path, memory_map=False, coerce_int96_timestamp_unit="us") as file:
            if any(key in _LEGACY for key in (file.schema_arrow.metadata or {})):
                raise DataError(
                    f"{path} was written with the calendar of old Spark versions: --conf {DIRECT}=false"
                )
            yield path, file
        if _version(path) != before:
            raise _changed(path)
    except FileNotFoundError:
        raise DataError(
            f"{path} has disappeared since it was listed. Put it back, {RESUME}; "
            "files of a source must stay until they are read"
        ) from None
    except (pa.ArrowException, OSError) as error:
        if os.path.exists(path) and _version(path) != before:
            raise _changed(path) from None
        reason = str(error).split("\n")[0]
        raise DataError(
            f"{path} is damaged or not of the declared format ({reason}). Take it away or put a whole one in "
            f"its place, {RESUME}"
        ) from None


def _version(path: str) -> tuple[int, int, int]:
    """What differs once a file has been written to or replaced."""
    found = os.stat(path)
    return found.st_ino, found.st_size, found.st_mtime_ns


def _changed(path: str) -> DataError:
    return DataError(
        f"{path} was changed while it was read. A file of a source must stay as it is: write it elsewhere "
        f"and move it there whole, and put what comes later into files of their own, {RESUME}"
    )


def _held(path: str, schema: pa.Schema, column: FileColumn) -> Held:
    """Where a file has a column, known to hold what is declared: what a folder gives comes first."""
    given = folder_values(path, column.root).get(column.column.lower())
    if given is not None:
        return folder_value(path, column.column, given, column.type)
    names = [name for name in schema.names if name.lower() == column.column.lower()]
    if column.column in names:
        names = [column.column]
    if len(names) > 1:
        raise DataError(f"{path} has the columns {', '.join(names)}: which of them is {column.column}?")
    if not names:
        return pa.scalar(None, arrow_type(column.type))
    held = schema.field(names[0]).type
    if not fits(held, arrow_type(column.type)):
        raise DataError(
            f"{path} does not match its declared schema: column {column.column} is declared {column.type} "
            f"and the file holds {held}. Put one that does in its place, or take it away, {RESUME}"
        )
    return str(names[0])


def _values(batch: pa.RecordBatch, held: Held, column: FileColumn) -> pa.Array:
    """A column's values as the declared type."""
    declared = arrow_type(column.type)
    values = batch.column(held) if isinstance(held, str) else pa.repeat(held, batch.num_rows)
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if pa.types.is_timestamp(declared):
        if pa.types.is_timestamp(values.type):
            # Which zone a file names changes nothing: what it holds are instants since the epoch.
            values = values.cast(pa.timestamp("us", values.type.tz)).view(pa.int64())
        else:
            values = values.cast(pa.timestamp("us")).view(pa.int64())
        return values if column.is_time else values.view(declared)
    return values if values.type == declared else pc.cast(values, declared)

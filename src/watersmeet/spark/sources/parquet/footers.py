"""What the footers of parquet files say of a backlog: its rows, its bytes in memory, its event times."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median

import pyarrow as pa
import pyarrow.parquet as pq

from watersmeet.query import Stream
from watersmeet.query.arrow_types import fixed_width
from watersmeet.spark.sources.parquet.data_files import DataFile, data_files, sample_files

MAX_FOOTERS = 1000  # looked into; the first, the last and some between them
_TEXT_BYTES = 16  # of a text at least, its offset included: a dictionary in the file makes it look smaller
# A file with a tuple in error: its event times span so many times those of the middle file, its rows do not.
_ODD_SPAN, _ODD_ROWS, _LEAST_SPAN_US = 1000, 10, 1_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Footer:
    """A file of a stream: when it was modified, its size, what it takes in memory, and its event times."""

    modified_ms: int
    file_bytes: int
    memory_bytes: int
    rows: int
    span_us: tuple[int, int] | None  # None if the file does not say, or is not to be believed


def read_footers(path: Path, stream: Stream, most: int = MAX_FOOTERS) -> tuple[list[Footer], int]:
    """The footers of the files under `path`, or of some of them, in order of modification; and their number.

    The number is that of all files, whether or not they were looked into. What one tuple of the year 1970 or
    3000 makes of a file's event times is left out: it would hide how the others lie.
    """
    found, count = sample_files(data_files(path), most, lambda file: (_modified_ms(file), file.path))
    footers = (_read_footer(file, stream) for file in found)
    return _without_odd_spans([footer for footer in footers if footer is not None]), count


def _without_odd_spans(footers: Sequence[Footer]) -> list[Footer]:
    lengths = [footer.span_us[1] - footer.span_us[0] for footer in footers if footer.span_us is not None]
    if not lengths:
        return [*footers]
    longest = _ODD_SPAN * max(_LEAST_SPAN_US, median(lengths))
    most_rows = _ODD_ROWS * median(footer.rows for footer in footers)

    def is_odd(footer: Footer) -> bool:
        if footer.span_us is None or footer.rows > most_rows:
            return False
        return footer.span_us[1] - footer.span_us[0] > longest

    return [replace(footer, span_us=None) if is_odd(footer) else footer for footer in footers]


def _modified_ms(file: DataFile) -> int:
    return file.modified_ns // 1_000_000


def _read_footer(file: DataFile, stream: Stream) -> Footer | None:
    """A file's footer; None of one that cannot be read, which the query will say when it comes to it."""
    try:
        metadata = pq.read_metadata(file.path)
    except (pa.ArrowException, OSError):
        return None
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    columns = {
        metadata.schema.column(number).path.lower(): number for number in range(len(metadata.schema.names))
    }
    memory = 0
    for column in stream.columns:
        number = columns.get(column.name.lower())
        width = fixed_width(column.type)
        held = 0 if number is None else sum(group.column(number).total_uncompressed_size for group in groups)
        fixed = (width or _TEXT_BYTES) * metadata.num_rows
        memory += fixed if width is not None else max(fixed, held)
    number = columns.get((stream.event_time or "").lower())
    span_us = None if number is None else _span_us(groups, number)
    if span_us is not None and stream.max_ahead_us is not None:
        is_ahead = span_us[1] > time.time() * 1e6 + stream.max_ahead_us
        span_us = None if is_ahead else span_us
    return Footer(_modified_ms(file), file.size, memory, metadata.num_rows, span_us)


def _span_us(groups: list[pq.RowGroupMetaData], number: int) -> tuple[int, int] | None:
    """The first and the last event time of a file, from the statistics of its parts."""
    bounds: list[int] = []
    for group in groups:
        if not group.num_rows:
            continue
        statistics = group.column(number).statistics
        if statistics is None or not statistics.has_min_max:
            return None
        try:
            found = (_microseconds(statistics.min), _microseconds(statistics.max))
        except (OverflowError, ValueError):  # of a year that Python does not have
            return None
        if found[0] is None or found[1] is None:
            return None
        bounds += [found[0], found[1]]
    return (min(bounds), max(bounds)) if bounds else None


def _microseconds(value: object) -> int | None:
    if not isinstance(value, datetime):
        return None
    instant = value.replace(tzinfo=UTC) if value.tzinfo is None else value
    return (instant - _EPOCH) // timedelta(microseconds=1)

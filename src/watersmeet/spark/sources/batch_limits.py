"""How much a source may put into a micro-batch, so that a backlog is worked off in batches that fit.

A source without a limit would put all it holds into one batch, so every source gets one: a part of
`spark.watersmeet.batchBytes`, or of the limit of the state where there is one. Limits are in what the source
counts, bytes of files or rows, and are set by how much memory one of these takes (`source_size.py`). What a
stream declares itself is left as it is. While the query runs the limits may be moved (`pace/`). Where batches
still turn out too large, the query is resumed with smaller ones.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from pyspark.sql import SparkSession

from watersmeet.kernel import StateLimit
from watersmeet.query import Connector, Stream
from watersmeet.query.arrow_types import fixed_width
from watersmeet.query.byte_size import parse_bytes_of
from watersmeet.spark import generator
from watersmeet.spark.session.connectors import FILE_FORMATS
from watersmeet.spark.sources.formats import format_of

SETTING = "spark.watersmeet.batchBytes"
DEFAULT_BYTES = "64MB"  # some two million narrow tuples
BATCH_SHARE = 8  # under a limit of memory, a batch of all streams together is at most this part of it
LEAST_SHARE = 0.02  # of a batch, for a stream that seems to have next to nothing
# Of a message or a made-up tuple, of which only the number can be limited: the row, a text or the like in it.
ROW_BYTES, TEXT_BYTES = 16, 64

FILES, BYTES = "maxFilesPerTrigger", "maxBytesPerTrigger"
_BY_BYTES = (*FILE_FORMATS, "delta")
# Beside the option of the format.
_OWN_LIMITS = (FILES, BYTES, "minOffsetsPerTrigger", "streaming-max-files-per-micro-batch")
# Sources that are known to take nothing when they may take nothing, so that they can be made to wait.
_CAN_WAIT = (*FILE_FORMATS, "kafka", generator.FORMAT)


@dataclass(frozen=True)
class BatchLimit:
    """What a source may put into a batch, in bytes of files or in rows, and the memory one of them takes."""

    amount: int
    in_rows: bool
    unit_bytes: float


def batch_bytes(spark: SparkSession, limit: StateLimit | None) -> int:
    """What a batch of all streams together should take in memory."""
    if limit is not None:
        return max(1, limit.nbytes // BATCH_SHARE)
    return parse_bytes_of(SETTING, spark.conf.get(SETTING, None) or DEFAULT_BYTES)


def default_limit(stream: Stream, nbytes: int, unit_bytes: float) -> BatchLimit | None:
    """The limit of a stream that may take `nbytes` of memory; None if it sets its own or can have none."""
    source = stream.source
    if source is None or limit_option(source) is None or declares_limit(source):
        return None
    if (source.option("latestFirst") or "").lower() == "true":
        return None  # with the newest files in a batch of their own, the tuples of all others would be late
    in_rows = source.format.lower() not in _BY_BYTES
    unit = row_bytes(stream) if in_rows else unit_bytes
    return BatchLimit(max(1, int(nbytes / unit)), in_rows, unit)


def can_be_paced(stream: Stream) -> bool:
    """Whether a source's limit may be moved while its query runs, by the event times of its tuples.

    One that counts as idle after some silence must not be made silent: the watermark would pass it.
    """
    source = stream.source
    if source is None or stream.event_time is None or stream.idle_after_us is not None:
        return False
    return source.format.lower() in _CAN_WAIT


def apply_limit(stream: Stream, limit: BatchLimit) -> Stream:
    """The stream with this limit in its declaration."""
    assert stream.source is not None
    name = limit_option(stream.source)
    assert name is not None
    return _with(stream, stream.source, name, limit.amount)


def divide_limit(stream: Stream, divisor: int) -> Stream:
    """The stream with batches so many times smaller than it declares.

    A number of files that cannot be divided further is left at one: no batch takes less than a file.
    """
    source = stream.source
    if source is None or divisor == 1:
        return stream
    for name in (FILES, BYTES, limit_option(source) or BYTES):
        given_as = next((key for key, _ in source.options if _same(key, name)), name)
        given = source.option(given_as)
        if given is not None and given.isdecimal():
            return _with(stream, source, given_as, max(1, int(given) // divisor))
    return stream


def without_limit(stream: Stream) -> Stream:
    """The stream with all that its source has in one batch, whatever it declares."""
    if (source := stream.source) is None:
        return stream
    names = (*_OWN_LIMITS, limit_option(source) or BYTES)
    kept = tuple((key, value) for key, value in source.options if not any(_same(key, name) for name in names))
    return replace(stream, source=replace(source, options=kept))


def limit_option(source: Connector) -> str | None:
    """The option by which batches of a source are limited, if it has one."""
    return BYTES if source.format.lower() in _BY_BYTES else format_of(source).rows_option


def declares_limit(source: Connector) -> bool:
    """Whether the declaration of a source limits its batches."""
    names = (*_OWN_LIMITS, limit_option(source) or BYTES)
    return any(_same(key, name) for key, _ in source.options for name in names)


def row_bytes(stream: Stream) -> float:
    """The bytes that a message or a generated tuple is assumed to take, by its columns and its payload."""
    assert stream.source is not None
    payload = stream.source.option("payload") or "0"
    widths = (fixed_width(column.type) or TEXT_BYTES for column in stream.columns)
    return float(ROW_BYTES + sum(widths) + (int(payload) if payload.isdecimal() else 0))


def _same(key: str, name: str) -> bool:
    return key.lower().replace("_", "") == name.lower().replace("_", "")


def _with(stream: Stream, source: Connector, name: str, value: int) -> Stream:
    kept = ((key, given) for key, given in source.options if not _same(key, name))
    return replace(stream, source=replace(source, options=(*kept, (name, str(value)))))

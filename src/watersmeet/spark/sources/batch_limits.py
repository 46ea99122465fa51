"""How much a source may put into a micro-batch, so that the batch fits a limit of memory.

Spark fixes these limits when a query starts. A source without one would put all it holds into one batch, so
under a limit of memory it gets one. Where batches still turn out too large, the query is resumed with smaller
limits.
"""

from __future__ import annotations

from dataclasses import replace

from watersmeet.query import Connector, Stream
from watersmeet.spark.session.connectors import FILE_FORMATS
from watersmeet.spark.sources.formats import format_of

BATCH_SHARE = 8  # a batch of all streams together is at most this part of the limit of memory
ROW_BYTES = 100  # of a message or a made-up tuple, of which only the number can be limited

FILES, BYTES = "maxFilesPerTrigger", "maxBytesPerTrigger"


def limit_batches(stream: Stream, nbytes: int, divisor: int = 1) -> Stream:
    """The stream with batches of about `nbytes`, or of the size it declares, divided by `divisor`.

    Sources whose batches cannot be limited stay as they are.
    """
    source = stream.source
    if source is None:
        return stream
    if source.format.lower() in FILE_FORMATS:
        files = source.option(FILES)
        if files is not None and files.isdecimal() and int(files) >= divisor:
            return _with(stream, source, FILES, int(files) // divisor)
        given = source.option(BYTES)
        most = int(given) if given is not None and given.isdecimal() else nbytes
        return _with(stream, _without(source, FILES), BYTES, max(1, most // divisor))
    if (name := format_of(source).rows_option) is not None:
        given_as = next((o for o in (name, name.replace("_", "")) if source.option(o) is not None), name)
        given = source.option(given_as)
        most = int(given) if given is not None and given.isdecimal() else max(1, nbytes // _row_bytes(source))
        return _with(stream, source, given_as, max(1, most // divisor))
    return stream


def _row_bytes(source: Connector) -> int:
    """The bytes a message or a generated tuple is assumed to take, with its declared payload."""
    payload = source.option("payload") or "0"
    return ROW_BYTES + (int(payload) if payload.isdecimal() else 0)


def _with(stream: Stream, source: Connector, name: str, value: int) -> Stream:
    options = (*_without(source, name).options, (name, str(value)))
    return replace(stream, source=replace(source, options=options))


def _without(source: Connector, name: str) -> Connector:
    kept = tuple((key, value) for key, value in source.options if key.lower() != name.lower())
    return replace(source, options=kept)

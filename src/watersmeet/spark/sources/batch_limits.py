"""How much a micro-batch takes: the limits of sources, made to fit a limit of memory.

Spark fixes them when a query starts. A source without a limit of its own would bring all it holds in one
batch, so under a limit of memory it is given one; and where batches turn out too large, the query is resumed
with limits so many times smaller.
"""

from __future__ import annotations

from dataclasses import replace

from watersmeet.query import Connector, Stream
from watersmeet.spark.session.connectors import FILE_FORMATS, GENERATOR

BATCH_SHARE = 8  # a batch of all streams together is at most this part of the limit of memory
ROW_BYTES = 100  # of a message or a made-up tuple, of which only the number can be limited

FILES, BYTES = "maxFilesPerTrigger", "maxBytesPerTrigger"
_COUNTED = {"kafka": "maxOffsetsPerTrigger", GENERATOR: "rows_per_batch"}


def limit_batches(stream: Stream, nbytes: int, divisor: int = 1) -> Stream:
    """The stream with a source that brings a batch of about so many bytes, or what it was told to.

    Either is divided by `divisor`. Sources whose batches cannot be limited are left as they are.
    """
    source = stream.source
    if source is None:
        return stream
    kind = source.format.lower()
    if kind in FILE_FORMATS:
        files = source.option(FILES)
        if files is not None and files.isdecimal() and int(files) >= divisor:
            return _with(stream, source, FILES, int(files) // divisor)
        given = source.option(BYTES)
        most = int(given) if given is not None and given.isdecimal() else nbytes
        return _with(stream, _without(source, FILES), BYTES, max(1, most // divisor))
    if (name := _COUNTED.get(kind)) is not None:
        told = next((o for o in (name, name.replace("_", "")) if source.option(o) is not None), name)
        given = source.option(told)
        most = int(given) if given is not None and given.isdecimal() else max(1, nbytes // _row_bytes(source))
        return _with(stream, source, told, max(1, most // divisor))
    return stream


def _row_bytes(source: Connector) -> int:
    """What a message or a made-up tuple is taken to have, with the payload that it is told to have."""
    payload = source.option("payload") or "0"
    return ROW_BYTES + (int(payload) if payload.isdecimal() else 0)


def _with(stream: Stream, source: Connector, name: str, value: int) -> Stream:
    options = (*_without(source, name).options, (name, str(value)))
    return replace(stream, source=replace(source, options=options))


def _without(source: Connector, name: str) -> Connector:
    kept = tuple((key, value) for key, value in source.options if key.lower() != name.lower())
    return replace(source, options=kept)

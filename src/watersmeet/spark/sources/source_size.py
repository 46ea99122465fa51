"""What a byte of a source's files takes in memory, and whether the files come in order of event time.

Parquet files on this machine's disk say so in their footers: rows, bytes before compression, and the first
and last event time. For all else there are factors, stated here; what really arrives corrects them while the
query runs.

Files are taken in order of modification. Where that is not the order of event time, up to the stream's
lateness, a backlog cut into batches loses tuples as late that it would not lose in one batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from watersmeet.query import Stream, format_duration
from watersmeet.spark.session.connectors import local_files
from watersmeet.spark.sources.parquet.footers import Footer, read_footers

# Columnar formats compress well; text holds numbers and names in more bytes than a tuple in memory does.
FACTORS = {"parquet": 4.0, "orc": 4.0, "delta": 4.0, "avro": 2.0}
_LEAST_FACTOR, _MOST_FACTOR = 0.25, 64.0  # whatever footers say


@dataclass(frozen=True)
class SourceSize:
    """What is known of a source before it is read; `disorder` says in words what its files lack in order."""

    unit_bytes: float = 1.0
    file_bytes: int = 0  # of all files, as estimated
    density: float | None = None  # bytes in memory for a microsecond of event time
    disorder: str = ""


def measure_source(stream: Stream, base: Path) -> SourceSize:
    """The size of a stream's source, as far as it can be had without reading it."""
    source = stream.source
    if source is None:
        return SourceSize()
    kind = source.format.lower()
    path = local_files(source, base) if kind == "parquet" else None
    footers, count = ([], 0) if path is None else read_footers(path, stream)
    if not footers:
        return SourceSize(FACTORS.get(kind, 1.0))
    size, memory = (
        sum(getattr(footer, name) for footer in footers) * count / len(footers)
        for name in ("file_bytes", "memory_bytes")
    )
    unit_bytes = min(_MOST_FACTOR, max(_LEAST_FACTOR, memory / max(1, size)))
    spans = [footer.span_us for footer in footers if footer.span_us is not None]
    length = max(last for _, last in spans) - min(first for first, _ in spans) if spans else 0
    density = memory / length if length > 0 else None
    return SourceSize(unit_bytes, int(size), density, describe_disorder(stream, footers))


def describe_disorder(stream: Stream, footers: Sequence[Footer]) -> str:
    """How far the files of a stream step back in event time, if by more than its lateness; else nothing."""
    back_us = max(_steps_back(footers), default=0)
    if back_us <= stream.lateness_us:
        return ""
    return (
        f"stream {stream.name}: its files are not in order of event time. In order of modification, as they "
        f"are taken, they step back by {format_duration(back_us)}, and its lateness is "
        f"{format_duration(stream.lateness_us)}. Cut into batches, tuples would be late, so all files there "
        "are taken in one batch. To bound batches, declare such a lateness, put the files in order (touch), "
        "or set 'option.maxBytesPerTrigger'"
    )


def _steps_back(footers: Sequence[Footer]) -> Iterator[int]:
    """How much earlier a file begins than a file ends that is taken before it, or may be."""
    newest: int | None = None
    start = 0
    while start < len(footers):
        stop = start  # files of one instant of modification come in any order
        while stop < len(footers) and footers[stop].modified_ms == footers[start].modified_ms:
            stop += 1
        spans = sorted(span for footer in footers[start:stop] if (span := footer.span_us) is not None)
        for first, last in spans:
            if newest is not None:
                yield newest - first
            newest = last if newest is None else max(newest, last)
        if len(spans) > 1:  # the one that begins first may come last
            yield max(last for _, last in spans[1:]) - spans[0][0]
        start = stop

"""All sources of a pipeline, opened, with batches that fit the memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from watersmeet.kernel import StateLimit
from watersmeet.query import Stream
from watersmeet.spark.sources.batch_limits import (
    LEAST_SHARE,
    BatchLimit,
    apply_limit,
    batch_bytes,
    can_be_paced,
    declares_limit,
    default_limit,
    divide_limit,
    without_limit,
)
from watersmeet.spark.sources.derived.tables import Version, read_table, table_versions
from watersmeet.spark.sources.open_stream import read_stream
from watersmeet.spark.sources.parquet.files import FileNames, file_names
from watersmeet.spark.sources.source_size import measure_source


@dataclass(frozen=True)
class Sources:
    """The tuples of each stream by its name, and file names where workers read the files themselves.

    `limits` are those of streams that declare none, and may be moved while the query runs. A batch of all
    streams should take `batch_bytes`. `notices` are what a person should know of the files.
    """

    tuples: dict[str, DataFrame]
    files: dict[str, FileNames]
    limits: Mapping[str, BatchLimit] = field(default_factory=dict)
    batch_bytes: int = 0
    notices: tuple[str, ...] = ()
    versions: Mapping[str, Version] = field(default_factory=dict)  # of the files of tables


def read_sources(
    spark: SparkSession,
    streams: Sequence[Stream],
    base: Path,
    limit: StateLimit | None = None,
    smaller: int = 1,
    tables: Sequence[Stream] = (),
) -> Sources:
    """The sources of the streams; their batches fit the memory, and are `smaller` times smaller still.

    `base` is the folder that relative paths start from. Tables are among the tuples, by name.
    """
    most = max(1, batch_bytes(spark, limit) // smaller)
    sizes = {stream.name: measure_source(stream, base) for stream in streams if not _declares(stream)}
    shares = batch_shares({name: size.density for name, size in sizes.items()}, len(streams))
    limits: dict[str, BatchLimit] = {}
    opened: list[Stream] = []
    notices: list[str] = []
    for stream in streams:
        size = sizes.get(stream.name)
        if size is None:
            opened.append(divide_limit(stream, smaller))
            continue
        found = default_limit(stream, int(most * shares[stream.name]), size.unit_bytes)
        if found is None:
            opened.append(stream)
        elif limit is None and size.disorder and size.file_bytes > found.amount:
            notices.append(size.disorder)
            opened.append(stream)
        else:
            limits |= {stream.name: found} if can_be_paced(stream) else {}
            opened.append(apply_limit(stream, found))
    sources = _open(spark, opened, base, tables)
    return replace(sources, limits=limits, batch_bytes=most, notices=tuple(notices))


def read_rest(
    spark: SparkSession, streams: Sequence[Stream], base: Path, tables: Sequence[Stream] = ()
) -> Sources:
    """The sources of the streams with all that they have left in one batch, which is to be the last."""
    return _open(spark, [without_limit(stream) for stream in streams], base, tables)


def _open(spark: SparkSession, streams: Sequence[Stream], base: Path, tables: Sequence[Stream]) -> Sources:
    tuples = {stream.name: read_stream(spark, stream, base) for stream in streams}  # refuses missing ones
    named = {stream.name: file_names(spark, stream, base) for stream in streams}
    versions = table_versions(tables, base)  # before they are read: what changes then is seen as a change
    tuples |= {table.name: read_table(spark, table, base) for table in tables}
    files = {name: files for name, files in named.items() if files is not None}
    return Sources(tuples, files, versions=versions)


def batch_shares(densities: Mapping[str, float | None], streams: int) -> dict[str, float]:
    """The part of a batch that each of these streams gets, of so many in all.

    Those whose density is known share theirs so that a batch covers the same event time of each.
    """
    even = 1 / max(1, streams)
    known = {name: density for name, density in densities.items() if density is not None}
    total = sum(known.values())
    given = {name: even * len(known) * max(LEAST_SHARE, density / total) for name, density in known.items()}
    return {name: given.get(name, even) for name in densities}


def _declares(stream: Stream) -> bool:
    return stream.source is None or declares_limit(stream.source)

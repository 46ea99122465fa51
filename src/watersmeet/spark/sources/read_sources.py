"""All sources of a pipeline, opened; under a limit of memory, with batches that fit it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from watersmeet.kernel import StateLimit
from watersmeet.query import Stream
from watersmeet.spark.sources.batch_limits import BATCH_SHARE, limit_batches
from watersmeet.spark.sources.open_stream import read_stream
from watersmeet.spark.sources.parquet.files import FileNames, file_names


@dataclass(frozen=True)
class Sources:
    """The tuples of each stream by its name, and file names where workers read the files themselves."""

    tuples: dict[str, DataFrame]
    files: dict[str, FileNames]


def read_sources(
    spark: SparkSession,
    streams: Sequence[Stream],
    base: Path,
    limit: StateLimit | None = None,
    smaller: int = 1,
) -> Sources:
    """The sources of the streams; under a limit their batches fit it, and are `smaller` times smaller still.

    `base` is the folder that relative paths start from.
    """
    if limit is not None:
        nbytes = limit.nbytes // (BATCH_SHARE * len(streams))
        streams = [limit_batches(stream, nbytes, smaller) for stream in streams]
    tuples = {stream.name: read_stream(spark, stream, base) for stream in streams}  # refuses missing ones
    named = {stream.name: file_names(spark, stream, base) for stream in streams}
    return Sources(tuples, {name: files for name, files in named.items() if files is not None})

"""A declared stream as a Spark DataFrame with exactly its declared columns.

What does not match the declaration is refused, at the start where it shows there: parquet files on a local
disk are looked into, since Spark reads a column they lack as NULL. A parquet file that arrives later and
lacks a column still reads as NULL there, as Spark defines it; one with a column of another type stops the
query. Text formats (JSON, CSV) stop at a record that does not fit, unless 'option.mode' says otherwise. Kafka
messages that do not fit are counted.
"""

from __future__ import annotations

import glob
from dataclasses import replace
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from watersmeet.errors import ConfigurationError, DataError
from watersmeet.query import Column, Stream
from watersmeet.spark.session.connectors import FILE_FORMATS, hide_options, local_files
from watersmeet.spark.sources.event_time import add_event_time
from watersmeet.spark.sources.formats import format_of
from watersmeet.spark.sources.parquet.data_files import data_files
from watersmeet.spark.sources.parquet.folder_columns import is_pattern
from watersmeet.spark.sources.source_format import Opening


def read_stream(spark: SparkSession, stream: Stream, base: Path) -> DataFrame:
    """The stream's tuples as they arrive; `base` is the folder relative paths start from."""
    return _read(spark, stream, base, streaming=True)


def read_batch(spark: SparkSession, stream: Stream, base: Path) -> DataFrame:
    """All the tuples a stream's source holds now, as a static DataFrame."""
    return _read(spark, stream, base, streaming=False)


def source_columns(spark: SparkSession, stream: Stream, base: Path) -> tuple[Column, ...]:
    """The columns that a source itself has, for a stream declared without any."""
    opening = _opening(spark, stream, base)
    return format_of(opening.source).infer_columns(opening)


def _read(spark: SparkSession, stream: Stream, base: Path, *, streaming: bool) -> DataFrame:
    opening = _opening(spark, stream.as_stored, base)
    how = format_of(opening.source)
    if not stream.columns:
        opening = replace(opening, stream=replace(stream, columns=how.infer_columns(opening)))
    frame = how.read(opening, streaming=streaming)
    return add_event_time(frame, stream)


def _opening(spark: SparkSession, stream: Stream, base: Path) -> Opening:
    if stream.source is None:
        raise ConfigurationError(
            f"stream {stream.name} has no source: declare one with WITH (format = 'parquet', path = '...')"
        )
    hide_options(spark, stream.source)
    opening = Opening(spark, stream, stream.source, base)
    _check_path(opening)
    return opening


def _check_path(opening: Opening) -> None:
    """Refuses a missing path here, where the stream can still be named."""
    source = opening.source
    path, written = local_files(source, opening.base, opening.what), source.option("path")
    if written is None:
        if source.format.lower() in FILE_FORMATS:
            raise ConfigurationError(f"{opening.what} (format {source.format}): add path = 'folder'")
        return
    named = None if path is None else next(filter(_is_named_as_pattern, (path, *path.parents)), None)
    if named is not None:
        raise DataError(
            f"{opening.what}: Spark takes the path {path} for a pattern and would read other files, or none, "
            f"since the name of {named} has one of the characters {{ }} [ ] * ? \\ in it. Rename that"
        )
    if path is not None and not path.exists() and not glob.glob(str(path)):
        base = opening.base.absolute()
        relative = "" if str(path) == written else f" (path = '{written}', relative to {base})"
        raise DataError(f"{opening.what}: there is no {path}{relative}. Make it, even empty, or correct it")
    if path is not None and (source.option("recursiveFileLookup") or "").lower() == "true":
        _refuse_loops(opening.what, path)


def _refuse_loops(what: str, path: Path) -> None:
    """Refuses a link that leads back into a folder that it lies in: Spark reads the files there 41 times."""
    loops: list[str] = []
    for _ in data_files(path, loops):
        pass
    if loops:
        raise DataError(
            f"{what}: {loops[0]} is a link that leads back into a folder that it lies in, and with "
            "recursiveFileLookup Spark would read the files there again and again. Remove the link, or leave "
            "recursiveFileLookup out"
        )


def _is_named_as_pattern(path: Path) -> bool:
    """Whether there is a file or folder whose own name is a pattern."""
    return is_pattern(path.name) and path.exists()

"""Tables: static DataFrames that streams are joined with, and whether their files have changed.

The files of a table are read once, and Spark keeps their rows. So a file that is replaced while a batch runs
does no harm, and every batch until the next look sees one version. Other formats are read in each batch.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from watersmeet.query import Stream
from watersmeet.query.expression import quote_name
from watersmeet.spark.session.connectors import FILE_FORMATS, local_files
from watersmeet.spark.sources.open_stream import read_batch
from watersmeet.spark.sources.parquet.data_files import data_files

Version = tuple[tuple[str, int, int], ...]  # each file's path, size and time of change


def read_table(spark: SparkSession, table: Stream, base: Path) -> DataFrame:
    """The rows of a table as they are now."""
    frame = read_batch(spark, table, base)
    frame = frame.select(*(quote_name(column.name) for column in table.columns))
    if table.source is None or table.source.format.lower() not in FILE_FORMATS:
        return frame
    # Not persist(): Spark would take files of the same path, read again, for what it keeps of the old ones.
    return frame.localCheckpoint()


def table_versions(tables: Iterable[Stream], base: Path) -> dict[str, Version]:
    """What the files of tables look like, of those whose files are on this disk."""
    found: dict[str, Version] = {}
    for table in tables:
        path = _files(table, base)
        if path is not None:
            found[table.name] = tuple(sorted(data_files(path)))
    return found


def _files(table: Stream, base: Path) -> Path | None:
    return None if table.source is None else local_files(table.source, base)

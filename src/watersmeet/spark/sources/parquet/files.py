"""Parquet files straight into chunks: Spark says which files are new, Arrow reads them.

Spark's own reader turns a file's columns into rows, the rows into Arrow, and sends that to Python: most of a
large batch's time. Here Spark's file source, with its log of files seen, its limits and its options, is asked
for names only (a `binaryFile` stream without its content), and a task opens the files itself. The values are
those that Spark would read: the rules of `schema.fits` decide what a file may hold.

Only for what needs no expression: keys that are bare columns, no local filters, plain types, files on a disk
that every worker sees under the same path, as Spark needs it too.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from watersmeet.query import Stream
from watersmeet.spark.exchange.file_input import PATH
from watersmeet.spark.session.connectors import local_files, refusals_named, resolve
from watersmeet.spark.sources.parquet.folder_columns import DIRECT, column_root

_PLAIN_TYPES = {
    *("boolean", "tinyint", "smallint", "int", "bigint", "float", "double"),
    *("string", "binary", "date", "timestamp", "timestamp_ntz"),
}
# What Spark's file source understands whatever the format; with any other option Spark reads the files.
_SOURCE_OPTIONS = {
    *("path", "maxfilespertrigger", "maxbytespertrigger", "latestfirst", "maxfileage", "filenameonly"),
    *("cleansource", "sourcearchivedir", "maxcachedfiles", "discardcachedinputratio"),
    *("pathglobfilter", "recursivefilelookup", "modifiedbefore", "modifiedafter"),
}
# With these settings Spark passes over files that we would stop at.
_IGNORE = ("spark.sql.files.ignoreCorruptFiles", "spark.sql.files.ignoreMissingFiles")

_BINARY_FILES = f"{PATH} string, modificationTime timestamp, length bigint, content binary"


@dataclass(frozen=True)
class FileNames:
    """The names of a stream's files, and the folder below which folders give columns, if they do."""

    names: DataFrame
    root: str | None = None


def file_names(spark: SparkSession, stream: Stream, base: Path) -> FileNames | None:
    """A stream of the names of a parquet stream's files, or None where Spark has to read them."""
    source = stream.source
    if source is None or source.format.lower() != "parquet" or (path := local_files(source, base)) is None:
        return None
    options = resolve(source, base)
    if spark.conf.get(DIRECT, "true") != "true" or any(
        spark.conf.get(key, "false") == "true" for key in _IGNORE
    ):
        return None
    if any(key.lower() not in _SOURCE_OPTIONS for key in options):
        return None
    if stream.event_time is None or stream.computed_time is not None:
        return None
    if any(not is_plain(column.type) for column in stream.columns):
        return None
    with refusals_named(f"stream {stream.name}", source):
        reader = spark.readStream.format("binaryFile").schema(_BINARY_FILES).options(**options)
        return FileNames(reader.load().select(PATH), column_root(path, source))


def is_plain(spark_type: str) -> bool:
    """Whether Arrow reads a type as Spark does, whoever wrote it."""
    return spark_type.lower() in _PLAIN_TYPES or spark_type.lower().startswith("decimal")

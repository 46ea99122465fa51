"""Parquet files straight into chunks: Spark says which files are new, Arrow reads them.

Spark's own reader turns a file's columns into rows, the rows into Arrow, and sends that to Python: most of a
large batch's time. Here Spark's file source, with its log of files seen, its limits and its options, is asked
for names only (a `binaryFile` stream without its content), and the packing task opens the files itself. The
values are those that Spark would read: the rules of `parquet_schema.fits` decide what a file may hold.

Only for what needs no expression: keys that are bare columns, no local filters, plain types, files on a disk
that every worker sees under the same path, as Spark needs it too.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from watersmeet.kernel import REF
from watersmeet.query import Stream
from watersmeet.spark.exchange.gather import NOW, NOW_SQL
from watersmeet.spark.exchange.pack import Pack
from watersmeet.spark.exchange.wire import NAMED, UNKNOWN, WireRow
from watersmeet.spark.session.connectors import local_files, refusals_named, resolve
from watersmeet.spark.sources.parquet.late_columns import late_columns, refer
from watersmeet.spark.sources.parquet.rows import DIRECT, FileColumn, read_rows

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

PATH, INPUT = "path", "input"
_BINARY_FILES = f"{PATH} string, modificationTime timestamp, length bigint, content binary"


def file_names(spark: SparkSession, stream: Stream, base: Path) -> DataFrame | None:
    """A stream of the names of a parquet stream's files, or None where Spark has to read them."""
    source = stream.source
    if source is None or source.format.lower() != "parquet" or local_files(source, base) is None:
        return None
    options = resolve(source, base)
    if spark.conf.get(DIRECT, "true") != "true" or any(
        spark.conf.get(key, "false") == "true" for key in _IGNORE
    ):
        return None
    if any(key.lower() not in _SOURCE_OPTIONS for key in options):
        return None
    if stream.event_time is None or any(not is_plain(column.type) for column in stream.columns):
        return None
    with refusals_named(f"stream {stream.name}", source):
        reader = spark.readStream.format("binaryFile").schema(_BINARY_FILES).options(**options)
        return reader.load().select(PATH)


def is_plain(spark_type: str) -> bool:
    """Whether Arrow reads a type as Spark does, whoever wrote it."""
    return spark_type.lower() in _PLAIN_TYPES or spark_type.lower().startswith("decimal")


class Packs(Protocol):
    """What makes rows of the shuffle from the rows of an input."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]: ...


AnyPack = TypeVar("AnyPack", bound=Packs)
Named = tuple[str, int | None]  # a file, and the time of the batch it came with


@dataclass(frozen=True)
class FileInput(Generic[AnyPack]):
    """How the files of an input are read, and what becomes of their rows."""

    pack: AnyPack
    columns: tuple[FileColumn, ...]
    may_be_late: bool = False  # whether wide columns may come after the join

    def opened(self, files: Sequence[Named]) -> tuple[AnyPack, Iterator[pa.RecordBatch]]:
        """The rows of these files, and the pack for them: it differs where wide columns stay behind."""
        pack, columns, paths = self.pack, self.columns, [path for path, _ in files]
        late: tuple[FileColumn, ...] = ()
        if isinstance(pack, Pack) and self.may_be_late:
            late = late_columns(paths, columns, len(pack.labels))
            columns = tuple(column for column in columns if column not in late)
        if isinstance(pack, Pack) and late:
            pack = pack.of_columns((*(column.name for column in columns), REF))
        read = [read_rows(path, columns, now) for path, now in files]
        if late:
            read = [refer(parts, place, paths) for place, parts in enumerate(read)]
        return pack, itertools.chain.from_iterable(read)


def number_files(named: Iterable[tuple[int, DataFrame]], partitions: int, *, tells_time: bool) -> DataFrame:
    """Rows of (input, path) for `PackFiles`, with the batch's time where that is told, in few tasks."""
    frames = [names.withColumn(INPUT, F.lit(number)) for number, names in named]
    if tells_time:
        frames = [names.withColumn(NOW, F.expr(NOW_SQL)) for names in frames]
    return reduce(DataFrame.unionAll, frames).coalesce(partitions)


@dataclass(frozen=True)
class PackFiles:
    """Packs the files named by rows of (input, path); called by `mapInArrow`."""

    inputs: Mapping[int, FileInput[Any]]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        named: dict[int, list[Named]] = {}
        for batch in batches:
            for row in batch.to_pylist():
                named.setdefault(row[INPUT], []).append((row[PATH], row.get(NOW)))
        for number, files in named.items():
            pack, rows = self.inputs[number].opened(files)
            yield from pack(rows)


def read_named(
    inputs: Mapping[int, FileInput[Pack]], bucket: int, rows: Iterator[WireRow]
) -> Iterator[WireRow]:
    """Rows as they came, and in place of those that name files what these hold for a bucket."""
    named: dict[int, list[Named]] = {}
    for row in rows:
        if row.rows == NAMED:
            now = None if row.now_us == UNKNOWN else row.now_us
            named.setdefault(row.input, []).append((row.chunk.decode(), now))
        else:
            yield row
    for number, files in sorted(named.items()):
        pack, tuples = inputs[number].opened(sorted(files))
        yield from pack.rows_of(bucket, tuples)

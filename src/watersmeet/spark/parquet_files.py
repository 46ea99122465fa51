"""Parquet files straight into chunks: Spark says which files are new, Arrow reads them.

Spark's own reader turns a file's columns into rows, the rows into Arrow, and sends that to Python: most of a
large batch's time. Here Spark's file source, with its log of files seen, its limits and its options, is asked
for names only (a `binaryFile` stream without its content), and the packing task opens the files itself. The
values are those that Spark would read: the rules of `parquet_schema.fits` decide what a file may hold.

Only for what needs no expression: keys that are bare columns, no local filters, plain types, files on a disk
that every worker sees under the same path, as Spark needs it too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from watersmeet.errors import DataError
from watersmeet.query import Stream
from watersmeet.query.arrow_types import arrow_type
from watersmeet.spark.connectors import local_path, refusals_named, resolve
from watersmeet.spark.failures import RESUME
from watersmeet.spark.pack import NOW, Pack
from watersmeet.spark.parquet_schema import fits

DIRECT = "spark.watersmeet.directFiles"  # a session's setting: `false` lets Spark read the files
READ_ROWS = 1 << 18  # at once, or fewer where they are wide
READ_BYTES = 32 << 20

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
_LEGACY = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")
_NO_PARTITION = "__HIVE_DEFAULT_PARTITION__"

PATH, INPUT = "path", "input"
_BINARY_FILES = f"{PATH} string, modificationTime timestamp, length bigint, content binary"


def file_names(spark: SparkSession, stream: Stream, base: Path) -> DataFrame | None:
    """A stream of the names of a parquet stream's files, or None where Spark has to read them."""
    source = stream.source
    if source is None or source.format.lower() != "parquet" or local_path(source, base) is None:
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


@dataclass(frozen=True)
class FileColumn:
    """A column of a chunk: where it comes from, and as what."""

    name: str
    column: str
    type: str  # Spark's name; an event time becomes whole microseconds
    is_time: bool = False


@dataclass(frozen=True)
class PackFiles:
    """Packs the files named by rows of (input, path); called by `mapInArrow`."""

    inputs: Mapping[int, tuple[Pack, tuple[FileColumn, ...]]]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        named: dict[int, list[tuple[str, int | None]]] = {}
        for batch in batches:
            for row in batch.to_pylist():
                named.setdefault(row[INPUT], []).append((row[PATH], row.get(NOW)))
        for number, files in named.items():
            pack, columns = self.inputs[number]
            yield from pack(part for path, now in files for part in read_rows(path, columns, now))


def read_rows(uri: str, columns: tuple[FileColumn, ...], now_us: int | None) -> Iterator[pa.RecordBatch]:
    """The rows of a file as a pack takes them."""
    path = "/" + uri.removeprefix("file:").lstrip("/")
    try:
        with pq.ParquetFile(path, memory_map=True, coerce_int96_timestamp_unit="us") as file:
            if any(key in _LEGACY for key in (file.schema_arrow.metadata or {})):
                raise DataError(
                    f"{path} was written with the calendar of old Spark versions: --conf {DIRECT}=false"
                )
            held = {column.column: _held(path, file.schema_arrow, column) for column in columns}
            wanted = [name for name in held.values() if name is not None]
            for batch in file.iter_batches(_rows_at_once(file), columns=wanted, use_threads=False):
                arrays = [_values(path, batch, held[column.column], column) for column in columns]
                names = [column.name for column in columns]
                if now_us is not None:
                    arrays.append(pa.repeat(pa.scalar(now_us, pa.int64()), batch.num_rows))
                    names.append(NOW)
                yield pa.RecordBatch.from_arrays(arrays, names)
    except FileNotFoundError:
        raise DataError(
            f"{path} has disappeared since it was listed. Put it back, {RESUME}; "
            "files of a source must stay until they are read"
        ) from None
    except (pa.ArrowException, OSError) as error:
        reason = str(error).split("\n")[0]
        raise DataError(
            f"{path} is damaged or not of the declared format ({reason}). Take it away or put a whole one in "
            f"its place, {RESUME}"
        ) from None


def _rows_at_once(file: pq.ParquetFile) -> int:
    groups = [file.metadata.row_group(number) for number in range(file.metadata.num_row_groups)]
    row_bytes = sum(group.total_byte_size for group in groups) / max(1, file.metadata.num_rows)
    return int(min(READ_ROWS, max(1024, READ_BYTES / max(1, row_bytes))))


def _held(path: str, schema: pa.Schema, column: FileColumn) -> str | None:
    """A column's name in a file, known to hold what is declared; None if the file does not have it."""
    names = [name for name in schema.names if name.lower() == column.column.lower()]
    if column.column in names:
        names = [column.column]
    if len(names) > 1:
        raise DataError(f"{path} has the columns {', '.join(names)}: which of them is {column.column}?")
    if not names:
        return None
    held = schema.field(names[0]).type
    if not fits(held, arrow_type(column.type)):
        raise DataError(
            f"{path} does not match its declared schema: column {column.column} is declared {column.type} "
            f"and the file holds {held}. Put one that does in its place, or take it away, {RESUME}"
        )
    return str(names[0])


def _values(path: str, batch: pa.RecordBatch, held: str | None, column: FileColumn) -> pa.Array:
    """A column's values as the declared type; a column a file lacks is in its path, or NULL."""
    declared = arrow_type(column.type)
    values = _from_path(path, column.column, declared, batch.num_rows) if held is None else batch.column(held)
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if pa.types.is_timestamp(declared):
        if pa.types.is_timestamp(values.type):
            # Which zone a file names changes nothing: what it holds are instants since the epoch.
            values = values.cast(pa.timestamp("us", values.type.tz)).view(pa.int64())
        else:
            values = values.cast(pa.timestamp("us")).view(pa.int64())
        return values if column.is_time else values.view(declared)
    return values if values.type == declared else pc.cast(values, declared)


def _from_path(path: str, name: str, declared: pa.DataType, rows: int) -> pa.Array:
    """The value that a folder such as `day=2024-05-01` gives to all rows of its files."""
    for part in Path(path).parts:
        key, sign, value = part.partition("=")
        if sign and key.lower() == name.lower() and value != _NO_PARTITION:
            return pa.repeat(pa.scalar(unquote(value)).cast(declared), rows)
    return pa.nulls(rows, declared)

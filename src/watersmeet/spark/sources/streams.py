"""A declared stream as a Spark DataFrame with exactly its declared columns.

What does not match the declaration is refused, at the start where it can be seen there: parquet files on a
local disk are looked into, since Spark reads a column they lack as NULL. A parquet file that arrives later
without a column still reads as NULL there, as Spark defines it; one of another type stops the query.
Text formats (JSON, CSV) stop at a record that does not fit, unless 'option.mode' says otherwise. Kafka's
messages are decoded in `kafka_source.py`, and those that do not fit are counted.
"""

from __future__ import annotations

import glob
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.readwriter import DataStreamReader

from watersmeet.errors import ConfigurationError, DataError
from watersmeet.query import Column, Connector, Stream
from watersmeet.query.expression import quote_name
from watersmeet.spark.session.connectors import FILE_FORMATS, GENERATOR, local_path, refusals_named, resolve
from watersmeet.spark.sources import generator
from watersmeet.spark.sources.generator_source import register
from watersmeet.spark.sources.kafka import read_all_messages, read_messages, well_formed
from watersmeet.spark.sources.parquet.schema import check_parquet

ARRIVAL_TIME = "watersmeet_arrival"  # the event time of a stream that declares none
RECORD_FORMATS = ("json", "csv", "xml")
# Spark guesses no types in CSV and no times in JSON unless it is told to.
_INFERENCE = {"csv": {"inferSchema": "true"}, "json": {"inferTimestamp": "true"}}

Reader = DataFrameReader | DataStreamReader


def read_stream(spark: SparkSession, stream: Stream, base: Path) -> DataFrame:
    """The stream's tuples as they come; `base` is the folder relative paths start from."""
    frame = _read(spark, stream, base, streaming=True)
    return frame if stream.event_time else stamp_arrivals(frame)


def read_batch(spark: SparkSession, stream: Stream, base: Path) -> DataFrame:
    """All the tuples a stream's source holds now, as a static DataFrame."""
    frame = _read(spark, stream, base, streaming=False)
    return frame if stream.event_time else stamp_arrivals(frame)


def stamp_arrivals(frame: DataFrame) -> DataFrame:
    """Tuples with the time of their micro-batch as event time."""
    return frame.withColumn(ARRIVAL_TIME, F.current_timestamp())


def source_columns(spark: SparkSession, stream: Stream, base: Path) -> tuple[Column, ...]:
    """The columns a source has of itself, for a stream declared without any."""
    source = _source_of(stream)
    _check_path(stream, source, base)
    if source.format.lower() == GENERATOR:
        return generator.DEFAULT_COLUMNS
    if source.format.lower() == "kafka":
        raise ConfigurationError(f"stream {stream.name}: declare the columns of its Kafka messages")
    options = {**_INFERENCE.get(source.format.lower(), {}), **resolve(source, base)}
    with refusals_named(f"stream {stream.name}", source):
        try:
            fields = spark.read.format(source.format).options(**options).load().schema.fields
        except AnalysisException as refusal:
            if "UNABLE_TO_INFER_SCHEMA" not in str(refusal):
                raise
            fields = []
    if not fields:
        raise DataError(
            f"stream {stream.name}: there is nothing in {options.get('path')} yet to infer its columns from. "
            "Declare them, or put a file there first"
        )
    # Whole numbers of a CSV file are read as narrow as the first ones are; later ones may be larger.
    widened = {"int": "bigint"} if source.format.lower() == "csv" else {}
    types = ((field.name, field.dataType.simpleString()) for field in fields)
    return tuple(Column(name, widened.get(kind, kind)) for name, kind in types)


def _source_of(stream: Stream) -> Connector:
    if stream.source is None:
        raise ConfigurationError(
            f"stream {stream.name} has no source: declare one with WITH (format = 'parquet', path = '...')"
        )
    return stream.source


def _read(spark: SparkSession, stream: Stream, base: Path, *, streaming: bool) -> DataFrame:
    source = _source_of(stream)
    _check_path(stream, source, base)
    if not stream.columns:
        stream = replace(stream, columns=source_columns(spark, stream, base))
    options = resolve(source, base)
    kind = source.format.lower()
    if kind == GENERATOR:
        generator.parse_options(options, stream.columns)  # here, where a refusal needs no unwrapping
        register(spark)
    if kind == "parquet" and (path := local_path(source, base)):
        check_parquet(stream, path)
    if kind in RECORD_FORMATS and source.option("mode") is None:
        options["mode"] = "FAILFAST"
    with refusals_named(f"stream {stream.name}", source):
        if kind == "kafka":
            read = read_messages if streaming else read_all_messages
            return well_formed(read(spark, stream, base), stream)

        def new_reader() -> Reader:
            reader: Reader = spark.readStream if streaming else spark.read
            return reader.format(source.format).options(**options)

        return _checked(_load(stream, new_reader), stream)


def _check_path(stream: Stream, source: Connector, base: Path) -> None:
    """Refuses a path that is missing while the stream that asks for it can still be named."""
    path, written = local_path(source, base), source.option("path")
    if written is None:
        if source.format.lower() in FILE_FORMATS:
            raise ConfigurationError(f"stream {stream.name} (format {source.format}): add path = 'folder'")
        return
    if path is not None and not path.exists() and not glob.glob(str(path)):
        relative = "" if str(path) == written else f" (path = '{written}', relative to {base.absolute()})"
        raise DataError(
            f"stream {stream.name}: there is no {path}{relative}. Make it, even empty, or correct it"
        )


def event_microseconds(stream: Stream, alias: str) -> str:
    """The event time as SQL text, whole microseconds since the epoch; without a zone it is read as UTC."""
    name = stream.event_time or ARRIVAL_TIME
    text = f"{quote_name(alias)}.{quote_name(name)}"
    column = stream.column(name)
    if column is not None and column.type == "timestamp_ntz":
        return f"timestampdiff(MICROSECOND, TIMESTAMP_NTZ'1970-01-01 00:00:00', {text})"
    return f"unix_micros({text})"


def _load(stream: Stream, new_reader: Callable[[], Reader]) -> DataFrame:
    """The source under the declared schema, or under its own where that cannot be changed."""
    declared = ", ".join(f"{quote_name(column.name)} {column.type}" for column in stream.columns)
    try:
        return new_reader().schema(declared).load()
    except PySparkException as refusal:
        if "user-specified schema" not in str(refusal):
            raise
    return new_reader().load()


def _checked(frame: DataFrame, stream: Stream) -> DataFrame:
    """The declared columns of a frame, refused where it has them not or of another type."""
    found = {field.name.lower(): field.dataType.simpleString() for field in frame.schema.fields}
    for column in stream.columns:
        actual = found.get(column.name.lower())
        if actual is None:
            raise DataError(
                f"stream {stream.name}: its source has no column {column.name}; it has {', '.join(found)}"
            )
        if actual != column.type.lower() and actual != _spelt(frame, column):
            raise DataError(
                f"stream {stream.name}: column {column.name} is declared {column.type}, "
                f"but its source makes it {actual}"
            )
    return frame.select(*(F.col(quote_name(column.name)).alias(column.name) for column in stream.columns))


def _spelt(frame: DataFrame, column: Column) -> str:
    """A declared type in Spark's own spelling."""
    return frame.sparkSession.createDataFrame([], f"c {column.type}").schema[0].dataType.simpleString()

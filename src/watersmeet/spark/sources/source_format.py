"""What a source format must be able to do, and the formats that Spark reads itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.readwriter import DataStreamReader

from watersmeet.errors import DataError
from watersmeet.query import Column, Connector, Stream
from watersmeet.query.expression import quote_name
from watersmeet.spark.session.connectors import local_files, refusals_named, resolve

Reader = DataFrameReader | DataStreamReader


@dataclass(frozen=True)
class Opening:
    """A stream about to be opened: its source, and the folder that relative paths start from."""

    spark: SparkSession
    stream: Stream
    source: Connector
    base: Path

    @property
    def what(self) -> str:
        """The name that refusals give it."""
        return f"{'stream' if self.stream.table is None else 'table'} {self.stream.name}"

    @property
    def options(self) -> dict[str, str]:
        return resolve(self.source, self.base, self.what)


class SourceFormat(Protocol):
    """One source format: `formats.py` lists them all."""

    @property
    def rows_option(self) -> str | None:
        """The option that limits the rows of a batch, if the format has one."""

    def infer_columns(self, opening: Opening) -> tuple[Column, ...]:
        """The columns that the source itself has, for a stream that declares none."""

    def read(self, opening: Opening, *, streaming: bool) -> DataFrame:
        """The declared columns of the stream: as they arrive, or all that the source holds now."""


@dataclass(frozen=True)
class SparkFormat:
    """A format of Spark's own; what does not match the declared columns is refused."""

    defaults: Mapping[str, str] = field(default_factory=dict)  # options, unless the stream declares others
    inference: Mapping[str, str] = field(default_factory=dict)  # options for inferring columns
    widened: Mapping[str, str] = field(default_factory=dict)  # inferred types that later rows may not fit
    check_files: Callable[[Stream, Path], None] | None = None  # refuses files on this disk that do not fit
    rows_option: str | None = None

    def infer_columns(self, opening: Opening) -> tuple[Column, ...]:
        options = {**self.inference, **opening.options}
        with refusals_named(opening.what, opening.source):
            try:
                frame = opening.spark.read.format(opening.source.format).options(**options).load()
                fields = frame.schema.fields
            except AnalysisException as refusal:
                if "UNABLE_TO_INFER_SCHEMA" not in str(refusal):
                    raise
                fields = []
        if not fields:
            where = local_files(opening.source, opening.base) or options.get("path")
            raise DataError(
                f"{opening.what}: there is nothing in {where} yet to infer its columns from. "
                "Declare them, or put a file there first"
            )
        types = ((each.name, each.dataType.simpleString()) for each in fields)
        return tuple(Column(name, self.widened.get(kind, kind)) for name, kind in types)

    def read(self, opening: Opening, *, streaming: bool) -> DataFrame:
        stream, source = opening.stream, opening.source
        if self.check_files is not None and (path := local_files(source, opening.base)):
            resolved = Connector(source.format, tuple(opening.options.items()))
            self.check_files(replace(stream, source=resolved), path)
        added = {key: value for key, value in self.defaults.items() if source.option(key) is None}

        def new_reader() -> Reader:
            reader: Reader = opening.spark.readStream if streaming else opening.spark.read
            return reader.format(source.format).options(**opening.options, **added)

        with refusals_named(opening.what, source):
            return _checked(_load(stream, new_reader), stream)


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
    """The declared columns of a frame; refuses one that lacks some or has them with other types."""
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

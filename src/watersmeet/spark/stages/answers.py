"""How answers leave the join stage: as rows where all their types are plain, else as blobs to be unpacked.

Rows of plain columns go from Arrow to Spark without a copy in Python. Columns of other types (lists, maps,
structs) PySpark would convert value by value; those answers travel as blobs, a few rows a batch, and another
Python task makes rows of them. Either way the last row holds the metrics of the stage and no answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from watersmeet.kernel import StateLimit
from watersmeet.kernel.columns.row_bytes import stretches, value_bytes
from watersmeet.query.arrow_types import arrow_type
from watersmeet.query.expression import quote_name
from watersmeet.spark.exchange.packed_chunk import encode
from watersmeet.spark.exchange.unpack import CHUNK
from watersmeet.spark.metrics.metrics import METRICS
from watersmeet.spark.tuning import Tuning

_PLAIN = (
    *(T.BooleanType, T.ByteType, T.ShortType, T.IntegerType, T.LongType, T.FloatType, T.DoubleType),
    *(T.StringType, T.BinaryType, T.DateType, T.DecimalType, T.TimestampType, T.TimestampNTZType),
)


class AnswerOutput(Protocol):
    """The form of a join stage's output."""

    @property
    def schema(self) -> T.StructType: ...

    def frame(self, answers: Sequence[pa.RecordBatch], metrics: str | None = None) -> pd.DataFrame:
        """Answers as rows of the output; the metrics go last."""


@dataclass(frozen=True)
class AnswerBlobs:
    """Answers as blobs, each a batch of them."""

    @property
    def schema(self) -> T.StructType:
        return T.StructType([T.StructField(CHUNK, T.BinaryType()), T.StructField(METRICS, T.StringType())])

    def frame(self, answers: Sequence[pa.RecordBatch], metrics: str | None = None) -> pd.DataFrame:
        blobs: list[bytes | None] = [encode(batch) for batch in answers]
        texts: list[str | None] = [None] * len(blobs)
        if metrics is not None:
            blobs, texts = [*blobs, None], [*texts, metrics]
        return pd.DataFrame({CHUNK: blobs, METRICS: texts})


@dataclass(frozen=True)
class AnswerRows:
    """Answers as rows; an instant is a number of microseconds on its way."""

    wanted: T.StructType  # what the rest of the query takes: a struct for each input, and beside them numbers

    @classmethod
    def of(cls, wanted: T.StructType) -> AnswerRows | None:
        """The rows that give these columns; None if some type is not plain."""
        rows = cls(wanted)
        return rows if all(type(type_) in _PLAIN for _, type_ in rows._columns) else None

    @property
    def _columns(self) -> list[tuple[str, T.DataType]]:
        """The kernel's names of what is wanted, and the types, in order."""
        found: list[tuple[str, T.DataType]] = []
        for field in self.wanted:
            if isinstance(field.dataType, T.StructType):
                found += [(f"{field.name}.{own.name}", own.dataType) for own in field.dataType]
            else:
                found.append((field.name, field.dataType))
        return found

    @property
    def schema(self) -> T.StructType:
        types = [type_ for _, type_ in self._columns]
        types = [T.LongType() if isinstance(type_, T.TimestampType) else type_ for type_ in types]
        fields = [T.StructField(f"c{number}", type_) for number, type_ in enumerate(types)]
        return T.StructType([*fields, T.StructField(METRICS, T.StringType())])

    def frame(self, answers: Sequence[pa.RecordBatch], metrics: str | None = None) -> pd.DataFrame:
        last = 1 if metrics is not None else 0
        columns: dict[str, pa.Array] = {}
        for (name, _), field in zip(self._columns, self.schema, strict=False):
            arrays = [_plain(batch.column(name)) for batch in answers]
            type_ = arrays[0].type if arrays else arrow_type(field.dataType.simpleString())
            arrays += [pa.nulls(last, type_)] if last or not arrays else []
            values = arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)
            columns[field.name] = pd.arrays.ArrowExtensionArray(pa.chunked_array([values]))
        rows = sum(batch.num_rows for batch in answers)
        texts = pa.concat_arrays([pa.nulls(rows, pa.string()), pa.array([metrics] * last, pa.string())])
        columns[METRICS] = pd.arrays.ArrowExtensionArray(pa.chunked_array([texts]))
        return pd.DataFrame(columns, copy=False)

    def select(self, output: DataFrame) -> DataFrame:
        """The columns wanted, of the rows that are answers."""
        numbers = {name: number for number, (name, _) in enumerate(self._columns)}

        def column(name: str, type_: T.DataType) -> Column:
            given = F.col(f"c{numbers[name]}")
            return F.timestamp_micros(given) if isinstance(type_, T.TimestampType) else given

        chosen = []
        for field in self.wanted:
            if isinstance(field.dataType, T.StructType):
                own = [column(f"{field.name}.{o.name}", o.dataType).alias(o.name) for o in field.dataType]
                chosen.append(F.struct(*own).alias(field.name))
            else:
                chosen.append(column(field.name, field.dataType).alias(field.name))
        return output.where(f"{quote_name(METRICS)} IS NULL").select(*chosen)


def _plain(values: pa.Array) -> pa.Array:
    """A column as it travels."""
    if pa.types.is_timestamp(values.type) and values.type.tz is not None:
        return values.view(pa.int64())
    return values


def _row_bytes(batch: pa.RecordBatch) -> npt.NDArray[np.int64]:
    """How many bytes each row of a batch takes."""
    taken = np.zeros(batch.num_rows, np.int64)
    for column in batch.columns:
        taken += value_bytes(column)
    return taken


class AnswerFrames:
    """Answers on their way out, in frames that are neither many nor large."""

    def __init__(self, output: AnswerOutput, tuning: Tuning, limit: StateLimit | None = None) -> None:
        self.answers = 0
        self._output = output
        self._tuning = tuning
        most = min(tuning.frame_bytes, tuning.kernel.block_bytes)
        self._frame_bytes = min(most, limit.nbytes // 8) if limit else most
        self._held: list[pa.RecordBatch] = []
        self._nbytes = 0

    def put(self, answers: pa.Table) -> Iterator[pd.DataFrame]:
        """Takes answers; yields the frames that are full."""
        self.answers += answers.num_rows
        for batch in self._cut(answers.combine_chunks()):
            if self._held and self._nbytes + batch.nbytes > self._frame_bytes:
                yield self._frame()
            self._held.append(batch)
            self._nbytes += batch.nbytes
            if len(self._held) >= self._tuning.batches_per_frame or self._nbytes >= self._frame_bytes:
                yield self._frame()
        if self._held and answers.nbytes > self._frame_bytes:
            yield self._frame()  # a part of these answers would keep all of them

    def _cut(self, answers: pa.Table) -> Iterator[pa.RecordBatch]:
        """Answers in batches of which none is larger than a frame, or which are one answer."""
        for batch in answers.to_batches(max_chunksize=self._tuning.answer_rows):
            if batch.nbytes <= self._frame_bytes:
                yield batch
                continue
            row_bytes = partial(_row_bytes, batch)
            for rows in stretches(batch.num_rows, self._frame_bytes, batch.nbytes, row_bytes):
                yield batch.slice(rows.start, rows.stop - rows.start)

    def _frame(self) -> pd.DataFrame:
        held, self._held, self._nbytes = self._held, [], 0
        return self._output.frame(held)

    def last(self, metrics: str) -> pd.DataFrame:
        """The frame that ends the output, with the metrics."""
        return self._output.frame(self._held, metrics)

    def beside(self, metrics: str) -> pd.DataFrame:
        """A frame of the metrics of another stage, and no answers."""
        return self._output.frame([], metrics)

"""Messages as rows of Spark's shuffle, and back.

A message is a frozen dataclass; its first field is the label of the bucket it is for. A row names the kind of
its message and the bucket. The other fields go, in order, into columns of their type, which all kinds share:
every column costs time in every batch, so rows are no wider than the largest message.

    Tuples(bucket=2, input=0, copies=0, chunk=...)    kind 'Tuples', bucket 2, number1 0, number2 0, blob1 ...
    EndOfInput(bucket=2)                              kind 'EndOfInput', bucket 2, zeros

No column has NULLs: pandas would make floating-point numbers of whole ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any, Generic, Protocol, TypeVar, get_type_hints

import pandas as pd
import pyarrow as pa
from pyspark.sql.types import BinaryType, DataType, IntegerType, LongType, StringType, StructField, StructType

from watersmeet.spark.exchange.packed_chunk import PackedChunk

KIND, BUCKET = "kind", "bucket"


class ForBucket(Protocol):
    """A message."""

    @property
    def bucket(self) -> int: ...


M = TypeVar("M", bound=ForBucket)


@dataclass(frozen=True)
class _Column:
    """A type of columns: what values it holds, and what stands where a message has none."""

    name: str
    arrow: pa.DataType
    spark: DataType
    zero: int | str | bytes


_NUMBER = _Column("number", pa.int64(), LongType(), 0)
_TEXT = _Column("text", pa.string(), StringType(), "")
_BLOB = _Column("blob", pa.binary(), BinaryType(), b"")
_TYPES: dict[type, _Column] = {int: _NUMBER, str: _TEXT, bytes: _BLOB, PackedChunk: _BLOB}


class Codec(Generic[M]):
    """The rows of some kinds of messages."""

    def __init__(self, *kinds: type[M]) -> None:
        self._kinds: dict[str, type[M]] = {kind.__name__: kind for kind in kinds}
        self._columns = {kind: _columns_of(kind) for kind in kinds}  # field -> column
        self._packed = {
            kind: {name for name, type_ in get_type_hints(kind).items() if type_ is PackedChunk}
            for kind in kinds
        }
        used = {column for columns in self._columns.values() for column in columns.values()}
        self._zeros = {
            f"{type_.name}{number}": type_
            for type_ in (_NUMBER, _TEXT, _BLOB)
            for number in range(1, len(used) + 1)
            if f"{type_.name}{number}" in used
        }
        names: list[tuple[str, pa.DataType, DataType]] = [
            (KIND, pa.string(), StringType()),
            (BUCKET, pa.int32(), IntegerType()),
        ]
        names += [(name, type_.arrow, type_.spark) for name, type_ in self._zeros.items()]
        self.arrow_schema = pa.schema([(name, arrow) for name, arrow, _ in names])
        self.spark_schema = StructType([StructField(name, spark, False) for name, _, spark in names])

    def to_arrow(self, messages: Sequence[M]) -> pa.RecordBatch:
        """Messages as the output of a map stage."""
        return pa.RecordBatch.from_pydict(self._rows(messages), self.arrow_schema)

    def to_pandas(self, messages: Sequence[M]) -> pd.DataFrame:
        """Messages as the output of a stateful stage."""
        return pd.DataFrame(self._rows(messages))

    def from_pandas(self, frames: Iterable[pd.DataFrame]) -> Iterator[M]:
        """The messages that reach a stateful stage; there are few, and they come in frames of up to 64 MB."""
        for frame in frames:
            yield from self._messages({name: frame[name].tolist() for name in self.arrow_schema.names})

    def from_arrow(self, batch: pa.RecordBatch) -> Iterator[M]:
        """The messages in the output of a map stage."""
        return self._messages(batch.to_pydict())

    def _messages(self, rows: Mapping[str, list[Any]]) -> Iterator[M]:
        for at, (name, bucket) in enumerate(zip(rows[KIND], rows[BUCKET], strict=True)):
            kind = self._kinds[name]
            make: Callable[..., M] = kind
            packed = self._packed[kind]
            given = {
                field: PackedChunk(blob=rows[column][at]) if field in packed else rows[column][at]
                for field, column in self._columns[kind].items()
            }
            yield make(bucket=bucket, **given)

    def to_sql(self, kind: type[M], **values: str) -> list[str]:
        """A message that Spark makes without Python: its row in SQL, given the SQL of its fields."""
        known = {name: _literal(type_.zero) for name, type_ in self._zeros.items()}
        known |= {KIND: f"'{kind.__name__}'", BUCKET: values[BUCKET]}
        for name, column in self._columns[kind].items():
            known[column] = values[name] if name in values else _default_sql(kind, name)
        return [f"{known[name]} AS {name}" for name in self.arrow_schema.names]

    def column(self, kind: type[M], name: str) -> str:
        """The column that holds a field of a kind."""
        return self._columns[kind][name]

    def _rows(self, messages: Sequence[M]) -> dict[str, list[Any]]:
        rows: dict[str, list[Any]] = {name: [] for name in self.arrow_schema.names}
        for message in messages:
            given = {column: getattr(message, name) for name, column in self._columns[type(message)].items()}
            rows[KIND].append(type(message).__name__)
            rows[BUCKET].append(message.bucket)
            for name, type_ in self._zeros.items():
                value = given.get(name, type_.zero)
                rows[name].append(value.blob if isinstance(value, PackedChunk) else value)
        return rows


def _columns_of(kind: type[Any]) -> Mapping[str, str]:
    """The column of each field but the bucket: the next one of its type."""
    taken: dict[str, int] = {}
    columns = {}
    types = get_type_hints(kind)
    for name in (field.name for field in fields(kind) if field.name != BUCKET):
        type_ = _TYPES[types[name]].name
        taken[type_] = taken.get(type_, 0) + 1
        columns[name] = f"{type_}{taken[type_]}"
    return columns


def _default_sql(kind: type[Any], name: str) -> str:
    default = next(field.default for field in fields(kind) if field.name == name)
    if default is MISSING:
        raise TypeError(f"{kind.__name__} needs a value for {name}")
    return _literal(default)


def _literal(value: int | str | bytes) -> str:
    if isinstance(value, int):
        return f"{value}L"
    return f"'{value}'" if isinstance(value, str) else f"X'{value.hex()}'"

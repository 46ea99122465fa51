"""The answers of a ring's batch, from blobs to rows, for one sink.

Queries of bare columns have their rows ready in the blobs. Where a query's SELECT list or one of its
conditions is more than that, Spark evaluates it over the tuples, as it does for a query of its own.

A sink takes rows of one kind: `query` and the columns of its queries, which must then be alike, or, declared
with answers = 'json', `query`, `answer_time` and the answer as JSON text.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import cached_property, reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import DataType, StringType, StructField, StructType, TimestampType

from watersmeet.kernel import ANSWER_TS, QUERY
from watersmeet.query import ANSWER_TIME, Query, Stream
from watersmeet.query.expression import quote_name
from watersmeet.query.shared_dataflow import QueryTail, SharedDataflow
from watersmeet.spark.exchange.packed_chunk import decode
from watersmeet.spark.multiquery.ship import SharedShip
from watersmeet.spark.multiquery.sinks import NAME
from watersmeet.spark.multiquery.stage import shape_names
from watersmeet.spark.sinks.kafka import MICROSECONDS

ANSWER = "answer"
_NUMBER = "__query"
_TIMESTAMP = pa.timestamp("us", "UTC")
_JSON_TYPES = ("boolean", "tinyint", "smallint", "int", "bigint", "string", "date", "timestamp")

JSON_SCHEMA = StructType(
    [
        StructField(NAME, StringType(), False),
        StructField(ANSWER_TIME, TimestampType(), False),
        StructField(ANSWER, StringType(), False),
    ]
)

Types = Mapping[str, Mapping[str, DataType]]  # of the columns of each stream


@dataclass(frozen=True)
class SharedAnswers:
    """Makes rows of a ring's answers; `types` are those of the streams' columns."""

    ship: SharedShip
    queries: Mapping[int, Query]
    types: Types

    @property
    def dataflow(self) -> SharedDataflow:
        return self.ship.dataflow

    def rows(
        self, blobs: DataFrame, found: set[str], numbers: frozenset[int], *, as_json: bool
    ) -> DataFrame | None:
        """The answers of these queries, given the shapes found in a batch; None if there are none."""
        parts: list[DataFrame] = []
        shapes = {name: own for name in sorted(found) if (own := self.endings(name, numbers))}
        ready = [name for name, endings in shapes.items() if self.is_ready(endings[0], as_json=as_json)]
        if ready:
            columns = JSON_SCHEMA if as_json else self._schema(shapes[ready[0]][0])
            unpack = UnpackReady(self.ship, numbers, None if as_json else tuple(columns.names[1:]))
            chosen = blobs.where(F.col("source").isin(ready))
            parts.append(chosen.select("chunk").mapInArrow(unpack, columns))
        for name, endings in shapes.items():
            if name not in ready:
                parts += self._evaluated(blobs.where(F.col("source") == name), endings, as_json)
        return reduce(DataFrame.unionByName, parts) if parts else None

    @cached_property
    def _by_shape(self) -> dict[str, list[QueryTail]]:
        names = {shape: name for name, shape in shape_names(self.dataflow).items()}
        found: dict[str, list[QueryTail]] = {}
        for ending in self.dataflow.endings:
            found.setdefault(names[ending.shape], []).append(ending)
        return found

    def endings(self, shape: str, numbers: frozenset[int]) -> list[QueryTail]:
        return [ending for ending in self._by_shape.get(shape, ()) if ending.number in numbers]

    def is_ready(self, ending: QueryTail, *, as_json: bool) -> bool:
        """Whether an answer leaves Python as the sink takes it."""
        if ending.conditions or ending.outputs is None:
            return False
        types = [field.dataType.simpleString() for field in self._schema(ending).fields]
        return not as_json or all(type_ in _JSON_TYPES for type_ in types)

    def _schema(self, ending: QueryTail) -> StructType:
        """The rows of a query of bare columns."""
        assert ending.outputs is not None
        streams = {item.alias: item.stream.name for item in self.queries[ending.number].inputs}
        by_slot = {slot: self.types[streams[alias]] for alias, slot in ending.slots}
        fields = [StructField(NAME, StringType(), False)]
        for name, source in ending.outputs:
            if source == ANSWER_TIME:
                fields.append(StructField(name, TimestampType()))
            else:
                slot, _, column = source.rpartition(".")
                fields.append(StructField(name, by_slot[slot][column]))
        return StructType(fields)

    def by_select_list(self, endings: Sequence[QueryTail]) -> list[list[QueryTail]]:
        """Endings of one shape, those with the same SELECT list together."""
        found: dict[tuple[tuple[str, str], ...], list[QueryTail]] = {}
        for ending in endings:
            found.setdefault(self._select_list(ending), []).append(ending)
        return list(found.values())

    def _select_list(self, ending: QueryTail) -> tuple[tuple[str, str], ...]:
        return tuple((output.expr.sql, output.name) for output in self.queries[ending.number].select)

    def _evaluated(self, blobs: DataFrame, endings: Sequence[QueryTail], as_json: bool) -> list[DataFrame]:
        """The answers of queries that leave something to Spark."""
        frames = []
        for alike in self.by_select_list(endings):
            unpack, schema = self.unpack_tuples(alike)
            rows = blobs.select("chunk").mapInArrow(unpack, schema)
            condition = " AND ".join(f"({text})" for text in alike[0].conditions)
            rows = rows.where(condition) if condition else rows
            outputs = [f"{text} AS {quote_name(name)}" for text, name in self._select_list(alike[0])]
            if as_json:
                outputs = [ANSWER_TIME, f"{json_text(', '.join(outputs))} AS {ANSWER}"]
            frames.append(rows.selectExpr(NAME, *outputs))
        return frames

    def unpack_tuples(self, endings: Sequence[QueryTail]) -> tuple[UnpackTuples, StructType]:
        """Makes complete combinations: the query's name, a struct for each input, t."""
        first = endings[0]
        query = self.queries[first.number]
        slots = dict(first.slots)
        fields, payload = [StructField(NAME, StringType(), False)], []
        for item in query.inputs:
            prefix = f"{slots[item.alias]}."
            names = tuple(c.removeprefix(prefix) for c in first.payload if c.startswith(prefix))
            types = self.types[item.stream.name]
            if names:
                payload.append((item.alias, slots[item.alias], names))
                struct = StructType([StructField(name, types[name]) for name in names])
                fields.append(StructField(item.alias, struct))
        fields.append(StructField(ANSWER_TIME, TimestampType()))
        numbers = frozenset(ending.number for ending in endings)
        return UnpackTuples(self.ship, numbers, tuple(payload)), StructType(fields)


def column_types(streams: Sequence[Stream], sources: Mapping[str, DataFrame]) -> Types:
    """The types of the streams' columns as Spark knows them."""
    return {s.name: {f.name: f.dataType for f in sources[s.name].schema.fields} for s in streams}


def json_text(outputs: str) -> str:
    """SQL text that makes JSON of a SELECT list."""
    options = f"map('timestampFormat', \"{MICROSECONDS}\", 'ignoreNullFields', 'false')"
    return f"to_json(struct({outputs}), {options})"


@dataclass(frozen=True)
class UnpackReady:
    """Yields the answers of queries of bare columns: these columns, whatever their order, or JSON."""

    ship: SharedShip
    numbers: frozenset[int]
    columns: tuple[str, ...] | None = None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        names = _names(self.ship.dataflow, self.numbers)
        for answers in _answers_of(batches, self.numbers):
            if answers.num_rows:
                yield self._rows(answers, names)

    def _rows(self, answers: pa.RecordBatch, names: Mapping[int, str]) -> pa.RecordBatch:
        query = _named(answers, names)
        instants = answers.column(ANSWER_TS).view(_TIMESTAMP)
        own = {name: answers.column(name) for name in answers.schema.names if name not in (QUERY, ANSWER_TS)}
        if self.columns is not None:
            found = {name.lower(): column for name, column in own.items()}
            ordered = {name: found[name.lower()] for name in self.columns}
            return pa.RecordBatch.from_pydict({NAME: query, **ordered})
        texts = as_json(pa.RecordBatch.from_pydict(own))
        return pa.RecordBatch.from_pydict({NAME: query, ANSWER_TIME: instants, ANSWER: pa.array(texts)})


@dataclass(frozen=True)
class UnpackTuples:
    """Yields the combinations of queries that Spark has more to do for."""

    ship: SharedShip
    numbers: frozenset[int]
    payload: tuple[tuple[str, str, tuple[str, ...]], ...]  # alias, slot, columns

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        names = _names(self.ship.dataflow, self.numbers)
        for answers in _answers_of(batches, self.numbers):
            columns: dict[str, pa.Array] = {NAME: _named(answers, names)}
            for alias, slot, own in self.payload:
                fields = [answers.column(f"{slot}.{name}") for name in own]
                columns[alias] = pa.StructArray.from_arrays(fields, list(own))
            columns[ANSWER_TIME] = answers.column(ANSWER_TS).view(_TIMESTAMP)
            yield pa.RecordBatch.from_pydict(columns)


def as_json(rows: pa.RecordBatch) -> list[str]:
    """Rows as JSON texts, times in UTC to the microsecond."""
    columns = [[_plain(value) for value in column.to_pylist()] for column in rows.columns]
    names = rows.schema.names
    return [json.dumps(dict(zip(names, values, strict=True))) for values in zip(*columns, strict=True)]


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return value.isoformat() if isinstance(value, date) else value


def _names(dataflow: SharedDataflow, numbers: frozenset[int]) -> dict[int, str]:
    return {ending.number: ending.query for ending in dataflow.endings if ending.number in numbers}


def _answers_of(batches: Iterator[pa.RecordBatch], numbers: frozenset[int]) -> Iterator[pa.RecordBatch]:
    """The answers of these queries, blob by blob."""
    wanted = pa.array(sorted(numbers), pa.int32())
    for batch in batches:
        for blob in batch.column("chunk"):
            answers = decode(blob.as_buffer())
            yield answers.filter(pc.is_in(answers.column(QUERY), wanted))


def _named(answers: pa.RecordBatch, names: Mapping[int, str]) -> pa.Array:
    numbers = answers.column(QUERY).dictionary_encode()
    texts = pa.array([names[number] for number in numbers.dictionary.to_pylist()], pa.string())
    return pa.DictionaryArray.from_arrays(numbers.indices, texts).dictionary_decode()

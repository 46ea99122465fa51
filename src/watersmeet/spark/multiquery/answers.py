"""The answers of a shared dataflow's batch, from blobs to rows of one sink.

Queries of bare columns have their rows ready in the blobs. Where a query's SELECT list or one of its
conditions is more than that, Spark evaluates it over the tuples, as it does for a query that runs by itself.

All rows of a sink have the same columns: `query` and those of its queries, which must then agree, or, where
it is declared with answers = 'json', `query`, `answer_time` and the answer as JSON text.
"""

from __future__ import annotations

import json
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import (
    BooleanType,
    DataType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from watersmeet.kernel import ANSWER_END, ANSWER_TS, ENDED, QUERY, TICK
from watersmeet.query import ANSWER_TIME, DAY_US, Query, Stream
from watersmeet.query.arrow_types import arrow_type
from watersmeet.query.expression import quote_name
from watersmeet.query.shared_dataflow import QueryTail, SharedDataflow
from watersmeet.spark.exchange.packed_chunk import decode
from watersmeet.spark.grouping.group_samples import GroupedTexts, group_samples, grouped_texts
from watersmeet.spark.multiquery.ship import ShippedDataflow
from watersmeet.spark.multiquery.sinks import NAME
from watersmeet.spark.multiquery.stage import template_names
from watersmeet.spark.sinks.kafka import MICROSECONDS
from watersmeet.spark.sources.derived.view_rows import view_rows

ANSWER = "answer"
_COVERED = "__covered"  # until when a value is present by earlier answers
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
class AnswerDecoder:
    """Makes rows of blobs of answers; `types` are those of the streams' columns."""

    ship: ShippedDataflow
    queries: Mapping[int, Query]
    types: Types

    @property
    def dataflow(self) -> SharedDataflow:
        return self.ship.dataflow

    def found(self, blobs: DataFrame) -> set[str]:
        """The templates of which a batch has answers."""
        return {row["source"] for row in blobs.select("source").collect()}

    def numbers(self, names: Container[str]) -> list[int]:
        """The queries of these names."""
        return [tail.number for tail in self.dataflow.tails if tail.query in names]

    def rows(
        self, blobs: DataFrame, found: set[str], numbers: frozenset[int], *, as_json: bool
    ) -> DataFrame | None:
        """The answers of these queries, given the templates that occur in a batch; None if there are none."""
        parts: list[DataFrame] = []
        templates = {name: own for name in sorted(found) if (own := self.tails(name, numbers))}
        ready = [name for name, tails in templates.items() if self.is_ready(tails[0], as_json=as_json)]
        if ready:
            columns = JSON_SCHEMA if as_json else self._schema(templates[ready[0]][0])
            unpack = UnpackReady(self.ship, numbers, None if as_json else tuple(columns.names[1:]))
            chosen = blobs.where(F.col("source").isin(ready))
            parts.append(chosen.select("chunk").mapInArrow(unpack, columns))
        for name, tails in templates.items():
            if name not in ready:
                parts += self._evaluated(blobs.where(F.col("source") == name), tails, as_json)
        return reduce(DataFrame.unionByName, parts) if parts else None

    @cached_property
    def _by_template(self) -> dict[str, list[QueryTail]]:
        names = {template: name for name, template in template_names(self.dataflow).items()}
        found: dict[str, list[QueryTail]] = {}
        for tail in self.dataflow.tails:
            found.setdefault(names[tail.template], []).append(tail)
        return found

    def tails(self, template: str, numbers: frozenset[int]) -> list[QueryTail]:
        return [tail for tail in self._by_template.get(template, ()) if tail.number in numbers]

    def is_ready(self, tail: QueryTail, *, as_json: bool) -> bool:
        """Whether answers leave Python in the form that the sink takes."""
        if tail.conditions or tail.outputs is None:
            return False
        types = [field.dataType.simpleString() for field in self._schema(tail).fields]
        return not as_json or all(type_ in _JSON_TYPES for type_ in types)

    def _schema(self, tail: QueryTail) -> StructType:
        """The rows of a query of bare columns."""
        assert tail.outputs is not None
        streams = {item.alias: item.stream.name for item in self.queries[tail.number].inputs}
        by_slot = {slot: self.types[streams[alias]] for alias, slot in tail.slots}
        fields = [StructField(NAME, StringType(), False)]
        for name, source in tail.outputs:
            if source == ANSWER_TIME:
                fields.append(StructField(name, TimestampType()))
            else:
                slot, _, column = source.rpartition(".")
                fields.append(StructField(name, by_slot[slot][column]))
        return StructType(fields)

    def by_select_list(self, tails: Sequence[QueryTail]) -> list[list[QueryTail]]:
        """Tails of one template, by SELECT list, and by GROUP BY and HAVING."""
        found: dict[tuple[tuple[tuple[str, str], ...], GroupedTexts | None], list[QueryTail]] = {}
        for tail in tails:
            texts = self._select_list(tail), grouped_texts(self.queries[tail.number])
            found.setdefault(texts, []).append(tail)
        return list(found.values())

    def _select_list(self, tail: QueryTail) -> tuple[tuple[str, str], ...]:
        return tuple((output.expr.sql, output.name) for output in self.queries[tail.number].select)

    def _evaluated(self, blobs: DataFrame, tails: Sequence[QueryTail], as_json: bool) -> list[DataFrame]:
        """The answers of queries that leave something to Spark."""
        frames = []
        for alike in self.by_select_list(tails):
            unpack, schema = self.unpack_tuples(alike)
            rows = blobs.select("chunk").mapInArrow(unpack, schema)
            condition = " AND ".join(f"({text})" for text in alike[0].conditions)
            rows = rows.where(condition) if condition else rows
            grouped = grouped_texts(self.queries[alike[0].number])
            texts = self._select_list(alike[0]) if grouped is None else grouped.outputs
            outputs = [f"{text} AS {quote_name(name)}" for text, name in texts]
            if as_json and not _repeats(alike[0]):
                outputs = [ANSWER_TIME, f"{json_text(', '.join(outputs))} AS {ANSWER}"]
            if _repeats(alike[0]):
                frames.append(_appearing(rows, outputs, [name for _, name in texts], as_json=as_json))
            elif grouped is None:
                frames.append(rows.selectExpr(NAME, *outputs))
            else:
                sampled = rows.drop(ANSWER_TIME).withColumnRenamed(TICK, ANSWER_TIME)
                frames.append(group_samples(sampled, grouped, [NAME, ANSWER_TIME], [NAME, *outputs]))
        return frames

    def unpack_tuples(self, tails: Sequence[QueryTail]) -> tuple[UnpackTuples, StructType]:
        """Makes complete combinations: the query's name, a struct for each input, t, and the tick if any."""
        first = tails[0]
        query, answered = self.queries[first.number], first.answered
        slots = dict(first.slots)
        fields, payload = [StructField(NAME, StringType(), False)], []
        for item in query.inputs:
            prefix = f"{slots[item.alias]}."
            own = {c.removeprefix(prefix): name for c, name in answered.items() if c.startswith(prefix)}
            types = self.types[item.stream.name]
            if own:
                payload.append((item.alias, tuple(own.items())))
                struct = StructType([StructField(name, types[name]) for name in own])
                fields.append(StructField(item.alias, struct))
        fields.append(StructField(ANSWER_TIME, TimestampType()))
        if query.aggregate is not None:
            fields.append(StructField(TICK, TimestampType()))
        if _repeats(first):
            fields += [StructField(ANSWER_END, LongType()), StructField(ENDED, BooleanType())]
        numbers = frozenset(tail.number for tail in tails)
        return UnpackTuples(self.ship, numbers, tuple(payload)), StructType(fields)


def _repeats(tail: QueryTail) -> bool:
    """Whether what is present comes along with a query's new answers."""
    return tail.hold is not None and tail.hold.repeats


def _appearing(rows: DataFrame, outputs: Sequence[str], names: Sequence[str], *, as_json: bool) -> DataFrame:
    """The values that appear in a batch, given the new answers in it and what was present before."""
    facts = [F.col(ANSWER_TIME).alias(ANSWER_TS), F.col(ANSWER_END), F.col(ENDED)]
    values = rows.select(NAME, *map(F.expr, outputs), *facts)
    own = [quote_name(name) for name in names]
    before = Window.partitionBy(NAME, *map(F.expr, own)).orderBy(F.desc(ENDED), ANSWER_TS)
    covered = F.max(ANSWER_END).over(before.rowsBetween(Window.unboundedPreceding, -1))
    appears = F.coalesce(F.col(_COVERED) < F.unix_micros(ANSWER_TS), F.lit(True))
    found = values.withColumn(_COVERED, covered).where(~F.col(ENDED) & appears)
    if as_json:
        time = f"{ANSWER_TS} AS {ANSWER_TIME}"
        return found.selectExpr(NAME, time, f"{json_text(', '.join(own))} AS {ANSWER}")
    return found.selectExpr(NAME, *own)


def column_types(streams: Sequence[Stream], sources: Mapping[str, DataFrame]) -> Types:
    """The types of the columns of streams and views as Spark knows them."""
    found = {}
    for stream in streams:
        frame = view_rows(sources, stream.view[0]) if stream.view else sources[stream.name]
        found[stream.name] = {field.name: field.dataType for field in frame.schema.fields}
    return found


def declared_types(streams: Sequence[Stream]) -> Types:
    """The types of the streams' columns as Spark has them, by their declarations alone."""
    return {
        stream.name: {column.name: from_arrow_type(arrow_type(column.type)) for column in stream.columns}
        for stream in streams
    }


def json_text(outputs: str) -> str:
    """SQL text that makes JSON of a SELECT list."""
    options = f"map('timestampFormat', \"{MICROSECONDS}\", 'ignoreNullFields', 'false')"
    return f"to_json(struct({outputs}), {options})"


@dataclass(frozen=True)
class UnpackReady:
    """Yields the answers of queries of bare columns: these columns, whatever their order, or JSON."""

    ship: ShippedDataflow
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

    ship: ShippedDataflow
    numbers: frozenset[int]
    payload: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]  # alias, columns, and their names in answers

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        names = _names(self.ship.dataflow, self.numbers)
        for answers in _answers_of(batches, self.numbers):
            columns: dict[str, pa.Array] = {NAME: _named(answers, names)}
            for alias, own in self.payload:
                fields = [answers.column(name) for _, name in own]
                columns[alias] = pa.StructArray.from_arrays(fields, [column for column, _ in own])
            columns[ANSWER_TIME] = answers.column(ANSWER_TS).view(_TIMESTAMP)
            if TICK in answers.schema.names:
                columns[TICK] = answers.column(TICK).view(_TIMESTAMP)
            columns |= {n: answers.column(n) for n in (ANSWER_END, ENDED) if ENDED in answers.schema.names}
            yield pa.RecordBatch.from_pydict(columns)


def as_json(rows: pa.RecordBatch) -> list[str]:
    """Rows as JSON texts, times in UTC to the microsecond."""
    columns = [_plain(column) for column in rows.columns]
    names = rows.schema.names
    return [json.dumps(dict(zip(names, values, strict=True))) for values in zip(*columns, strict=True)]


def _plain(column: pa.Array) -> list[Any]:
    """The values of a column as JSON has them."""
    if pa.types.is_timestamp(column.type):
        days, rest = np.divmod(_numbers(column, pa.int64()), DAY_US)
        times = np.datetime_as_string(rest.astype("datetime64[us]"))
        texts = [f"{day}{time[10:]}Z" for day, time in zip(_dates(days), times, strict=True)]
    elif pa.types.is_date(column.type):
        texts = _dates(_numbers(column, pa.int32()))
    else:
        values: list[Any] = column.to_pylist()
        return values
    valid = column.is_valid().to_pylist()
    return [text if is_valid else None for text, is_valid in zip(texts, valid, strict=True)]


def _numbers(column: pa.Array, type_: pa.DataType) -> np.ndarray:
    return np.asarray(column.view(type_).fill_null(0))


def _dates(days: np.ndarray) -> list[str]:
    """Days since 1970 as Spark writes them: NumPy, unlike Python, has years before 1 and after 9999."""
    texts = np.datetime_as_string(days.astype("datetime64[D]"))
    return [text if len(text) == 10 or text.startswith("-") else f"+{text}" for text in texts]


def _names(dataflow: SharedDataflow, numbers: frozenset[int]) -> dict[int, str]:
    return {tail.number: tail.query for tail in dataflow.tails if tail.number in numbers}


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

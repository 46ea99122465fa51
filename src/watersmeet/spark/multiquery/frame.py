"""All answers of a shared dataflow as one streaming DataFrame: query, answer time, and the answer as JSON.

Answers of bare columns are JSON already when they leave Python. Every SELECT list or condition that Spark has
to evaluate gets a column of its own with the tuples; one after another, these columns are turned into text.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import StringType, StructField, StructType, TimestampType

from watersmeet.errors import ConfigurationError
from watersmeet.query import ANSWER_TIME
from watersmeet.query.expression import quote_name
from watersmeet.query.shared_dataflow import QueryTail
from watersmeet.spark.multiquery.answer_stream import AnswerStream
from watersmeet.spark.multiquery.answers import ANSWER, AnswerDecoder, UnpackReady, UnpackTuples, json_text
from watersmeet.spark.multiquery.sinks import NAME
from watersmeet.spark.multiquery.stage import template_names

_NAME, _TIME, _ANSWER = "__wm_query", "__wm_time", "__wm_answer"


def answer_frame(stream: AnswerStream) -> DataFrame:
    """All answers of a stream: query, answer_time, answer. Refuses aggregates: all have other keys."""
    answers = stream.decoder
    for tail in answers.dataflow.tails:
        repeats = tail.hold is not None and tail.hold.repeats
        if repeats or answers.queries[tail.number].aggregate is not None:
            what = "has DISTINCT values that Spark computes" if repeats else "has aggregates"
            raise ConfigurationError(
                f"query {tail.query} {what}, which cannot be part of one DataFrame for many queries. "
                "Give each such query a DataFrame of its own with ws.sql(), or run them with watersmeet serve"
            )
    everyone = frozenset(answers.queries)
    ready, evaluated = [], []
    for template in template_names(answers.dataflow):
        tails = answers.tails(template, everyone)
        if answers.is_ready(tails[0], as_json=True):
            ready.append(template)
        else:
            evaluated += [(template, alike) for alike in answers.by_select_list(tails)]
    parts = [(template, answers.unpack_tuples(alike)) for template, alike in evaluated]
    unpack = _UnpackAll(
        UnpackReady(answers.ship, everyone),
        frozenset(ready),
        tuple((template, unpack) for template, (unpack, _) in parts),
        tuple(to_arrow_type(_opened(schema), timezone="UTC") for _, (_, schema) in parts),
    )
    fields = [
        StructField(_NAME, StringType(), False),
        StructField(_TIME, TimestampType(), False),
        StructField(_ANSWER, StringType()),
        *(StructField(_column(number), _opened(schema)) for number, (_, (_, schema)) in enumerate(parts)),
    ]
    rows = stream.blobs.select("source", "chunk").mapInArrow(unpack, StructType(fields))
    for number, (_, alike) in enumerate(evaluated):
        rows = _evaluated(rows, _column(number), answers, alike)
    rows = rows.where(F.col(_ANSWER).isNotNull())
    return rows.select(
        F.col(_NAME).alias(NAME), F.col(_TIME).alias(ANSWER_TIME), F.col(_ANSWER).alias(ANSWER)
    )


def _opened(schema: StructType) -> StructType:
    """What a column of tuples holds: all but the query's name."""
    return StructType([field for field in schema.fields if field.name != NAME])


def _column(number: int) -> str:
    return f"__wm_tuples_{number}"


def _evaluated(rows: DataFrame, column: str, answers: AnswerDecoder, tails: list[QueryTail]) -> DataFrame:
    """The rows with one column of tuples turned into answers, where its conditions hold."""
    query = answers.queries[tails[0].number]
    kept = [name for name in rows.columns if name != column]
    condition = " AND ".join([f"{column} IS NOT NULL", *(f"({text})" for text in tails[0].conditions)])
    outputs = ", ".join(f"{out.expr.sql} AS {quote_name(out.name)}" for out in query.select)
    text = f"CASE WHEN {condition} THEN {json_text(outputs)} END"
    opened = rows.select(*kept, column, f"{column}.*")
    return opened.selectExpr(*(n for n in kept if n != _ANSWER), f"coalesce({_ANSWER}, {text}) AS {_ANSWER}")


@dataclass(frozen=True)
class _UnpackAll:
    """Yields the answers of every query, those left to Spark as tuples."""

    ready: UnpackReady
    ready_templates: frozenset[str]
    tuples: tuple[tuple[str, UnpackTuples], ...]
    types: tuple[pa.DataType, ...]  # of the columns of tuples

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for row in range(batch.num_rows):
                one = batch.slice(row, 1)
                source = one.column("source")[0].as_py()
                if source in self.ready_templates:
                    for rows in self.ready(iter([one])):
                        yield self._row(rows.column(NAME), rows.column(ANSWER_TIME), rows.column(ANSWER))
                for number, (template, unpack) in enumerate(self.tuples):
                    if template == source:
                        for rows in unpack(iter([one])):
                            yield self._row_of_tuples(rows, number)

    def _row_of_tuples(self, rows: pa.RecordBatch, number: int) -> pa.RecordBatch:
        names = [name for name in rows.schema.names if name != NAME]
        tuples = pa.StructArray.from_arrays([rows.column(name) for name in names], names)
        nothing = pa.nulls(rows.num_rows, pa.string())
        return self._row(rows.column(NAME), rows.column(ANSWER_TIME), nothing, number, tuples)

    def _row(
        self,
        name: pa.Array,
        time: pa.Array,
        answer: pa.Array,
        number: int = -1,
        tuples: pa.Array | None = None,
    ) -> pa.RecordBatch:
        columns = {_NAME: name, _TIME: time, _ANSWER: answer}
        for other, type_ in enumerate(self.types):
            columns[_column(other)] = tuples if other == number else pa.nulls(len(name), type_)
        return pa.RecordBatch.from_pydict(columns)

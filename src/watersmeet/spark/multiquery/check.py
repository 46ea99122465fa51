"""What Spark says about a query before a shared dataflow takes it: the columns of its answers, or a refusal.

Only Spark knows which functions exist and which types go together. A query that it refuses would otherwise
make the whole dataflow fail.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import DataFrame, SparkSession

from watersmeet.errors import QueryError
from watersmeet.query import ANSWER_TIME, Column, Query
from watersmeet.query.expression import quote_name
from watersmeet.spark.grouping.group_samples import GroupedTexts, group_samples, grouped_texts
from watersmeet.spark.session.failures import explain_failure, first_line
from watersmeet.spark.sinks.repeatable import UNREPEATABLE, is_repeatable

Texts = tuple[str, ...]

REMEMBERED = 10_000  # answers of Spark's; a server lives long, and queries come and go
_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
_POSITION = re.compile(r"\W*line \d+ pos \d+$")  # in a text other than the one the user wrote


@dataclass(frozen=True)
class SparkCheck:
    """Asks Spark about queries, over frames without rows; what it has just said it is not asked again."""

    spark: SparkSession
    _known: dict[tuple[Texts, Texts, Texts, GroupedTexts | None], _Known] = field(default_factory=dict)

    def answer_columns(self, query: Query, name: str, tested: Texts) -> Sequence[Column]:
        """The columns of a query's answers, with Spark's names for their types, given what it tests."""
        keys = tuple(
            attribute.expr.sql
            for cls in query.graph.classes
            for attribute in cls.attributes
            if not attribute.expr.is_column
        )
        conditions = (*tested, *(f"({key}) IS NOT NULL" for key in keys))
        outputs = tuple(f"{output.expr.sql} AS {quote_name(output.name)}" for output in query.select)
        asked = (_struct_types(query), conditions, outputs, grouped_texts(query))
        if asked not in self._known:
            try:
                with _unlogged():
                    answer = self._ask(*asked)
            except (PySparkException, Py4JJavaError) as refusal:
                said = first_line(str(explain_failure(refusal)).removeprefix("Spark failed: "))
                said = _POSITION.sub("", said)
                raise QueryError(f"query {name}: Spark refuses it: {said}") from None
            while len(self._known) >= REMEMBERED:
                del self._known[next(iter(self._known))]
            self._known[asked] = answer
        known = self._known[asked]
        if query.sink is not None and not known.is_repeatable:
            raise QueryError(f"query {name} into sink {query.sink}: {UNREPEATABLE}")
        return known.columns

    def _ask(self, inputs: Texts, conditions: Texts, outputs: Texts, grouped: GroupedTexts | None) -> _Known:
        rows: DataFrame = self.spark.createDataFrame([], f"{', '.join(inputs)}, {ANSWER_TIME} timestamp")
        for condition in conditions:
            rows = rows.where(condition)
        if grouped is None:
            answers = rows.selectExpr(*outputs)
        else:
            answers = group_samples(rows, grouped, [ANSWER_TIME], grouped.selected)
        columns = (Column(field.name, field.dataType.simpleString()) for field in answers.schema.fields)
        return _Known(tuple(columns), is_repeatable(answers))


@dataclass(frozen=True)
class _Known:
    """The columns of a query's answers, and whether a repeated batch has the same ones."""

    columns: tuple[Column, ...]
    is_repeatable: bool


@contextmanager
def _unlogged() -> Iterator[None]:
    """While open, PySpark does not print its refusals: the client gets them in a reply."""
    loggers = [PySparkLogger.getLogger(name) for name in _LOGGERS]
    before = [logger.disabled for logger in loggers]
    try:
        for logger in loggers:
            logger.disabled = True
        yield
    finally:
        for logger, was in zip(loggers, before, strict=True):
            logger.disabled = was


def _struct_types(query: Query) -> Texts:
    """Each input as a column of its tuples, as Spark writes its type."""
    return tuple(
        f"{quote_name(item.alias)} struct<"
        + ", ".join(f"{quote_name(column.name)}: {column.type}" for column in item.stream.columns)
        + ">"
        for item in query.inputs
    )

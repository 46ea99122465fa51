"""Whether a query's answers fit the sink they go to, decided before the dataflow is changed.

All queries that name a sink fill it together: with rows of the query's name and its columns, which must then
be the same for all, or, where the sink is declared with answers = 'json', with texts that may differ.
"""

from __future__ import annotations

from collections.abc import Sequence

from watersmeet.errors import ConfigurationError
from watersmeet.query import ANSWER_TIME, Column, Query, Sink
from watersmeet.spark.multiquery.sinks import NAME, check_sink, takes_json
from watersmeet.spark.sinks.answer_ids import refuse_answer_id
from watersmeet.spark.sinks.postgres import FORMAT as POSTGRES


def bare_columns(query: Query) -> tuple[Column, ...] | None:
    """The columns of answers, where all are columns of streams or answer_time; None where others occur."""
    found = []
    for output in query.select:
        if output.expr.is_column:
            ref = output.expr.columns[0]
            declared = query.input(ref.alias).stream.column(ref.column)
            found.append(Column(output.name, declared.type if declared else "unknown"))
        elif output.expr.uses_answer_time and output.expr.sql == ANSWER_TIME:
            found.append(Column(output.name, "timestamp"))
        else:
            return None
    return tuple(found)


def has_own_columns(sink: Sink | None) -> bool:
    """Whether a sink takes answers as columns, and so only from queries that have the same columns."""
    return sink is not None and not takes_json(sink)


def check_fit(
    name: str, columns: Sequence[Column], sink: Sink, beside: tuple[str, Sequence[Column]] | None
) -> None:
    """Refuses answers that a sink cannot take, by itself or `beside` those of another query."""
    check_sink(sink)
    what = f"query {name} into sink {sink.name}"
    names = [column.name for column in columns]
    if NAME in (each.lower() for each in names):
        raise ConfigurationError(
            f"{what}: the column {NAME} is the query's name there. Write AS another_name"
        )
    if sink.connector.format.lower() in ("kafka", POSTGRES):
        refuse_answer_id(what, names)
    if beside is None:
        return
    other, others = beside
    if _as_set(columns) != _as_set(others):
        raise ConfigurationError(
            f"{what}: its answers are ({_pretty(columns)}), those of {other} are ({_pretty(others)}). "
            "Queries that share a sink have the same columns, unless it is declared with answers = 'json'"
        )


def _as_set(columns: Sequence[Column]) -> set[tuple[str, str]]:
    return {(column.name.lower(), column.type) for column in columns}


def _pretty(columns: Sequence[Column]) -> str:
    return ", ".join(column.pretty() for column in columns)

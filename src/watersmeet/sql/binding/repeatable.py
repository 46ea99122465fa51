"""Refuses functions that give another value each time, where a batch that is done again must give the same.

After a crash the batch under way is done again. A sink then has to know which of its answers it has already,
by their ids or by their batch, and that takes answers which do not change.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Set
from dataclasses import dataclass

from sqlglot import exp

from watersmeet.errors import Span
from watersmeet.query import Sink, Stream
from watersmeet.sql.binding.calls import find_calls
from watersmeet.sql.syntax.parse import Select

_CLOCK = (
    "Select answer_time, which is the time of the answer itself; or give the sink's table a column that is "
    "filled in on arrival."
)
_RANDOM = (
    "Select a hash of columns, such as xxhash64(a.id, b.id). Kafka and PostgreSQL get an answer_id for every "
    "answer."
)
_RUN = "What it says depends on how Spark divides the work. Select columns of the streams instead."

_ADVICE = {
    **dict.fromkeys(("current_timestamp", "now", "localtimestamp", "localtime"), _CLOCK),
    **dict.fromkeys(("current_date", "curdate", "current_time", "unix_timestamp"), _CLOCK),
    **dict.fromkeys(("uuid", "rand", "random", "randn", "randstr", "uniform", "shuffle"), _RANDOM),
    **dict.fromkeys(("monotonically_increasing_id", "spark_partition_id", "input_file_name"), _RUN),
    **dict.fromkeys(("input_file_block_start", "input_file_block_length"), _RUN),
}
# Texts that Spark takes for a time of the day it reads them on, wherever it takes a text for a time:
# TIMESTAMP 'now', CAST('today' AS DATE), to_date('today'), date_add('today', 1), a.ts < 'now'.
_DAY_OF_READING = re.compile(r"\s*(now|today|tomorrow|yesterday)(\s+\S+)?\s*", re.IGNORECASE)
_OF_TIME = re.compile(r"date|time|day|month|year|week|hour|minute|second|quarter|unix|trunc|extract")
_ANSWER_TIME = "answer_time"
_CHANGES = "gives another value when a batch is done again after a crash"


def refuse_unrepeatable(select: Select, sink: Sink | None, streams: Iterable[Stream] = ()) -> None:
    """Refuses such a function in a query whose answers are kept; the console keeps none.

    `streams` are those that it may read.
    """
    if sink is None or sink.connector.format.lower() == "console":
        return
    found = _first_unrepeatable(select, streams)
    if found is not None:
        raise select.source.refuse(
            f"{found.what} {_CHANGES}, and sink {sink.name} could not tell which answers it has already",
            found.at,
            _ADVICE.get(found.what, _CLOCK),
        )


def refuse_unrepeatable_view(select: Select, name: str, streams: Iterable[Stream]) -> None:
    """Refuses such a function in a declared view or stream of answers, whoever reads it."""
    found = _first_unrepeatable(select, streams)
    if found is not None:
        raise select.source.refuse(
            f"{found.what} {_CHANGES}, and {name} would have other tuples",
            found.at,
            f"Compute it in the query that reads {name}.",
        )


@dataclass(frozen=True)
class _Unrepeatable:
    """What gives another value each time, and where it stands."""

    what: str
    at: Span | exp.Expr


def _first_unrepeatable(select: Select, streams: Iterable[Stream]) -> _Unrepeatable | None:
    for call in find_calls(select):
        if call.name in _ADVICE and not (call.name == "unix_timestamp" and call.has_arguments):
            return _Unrepeatable(call.name, call.span)
    columns = [column for stream in streams for column in stream.columns]
    times = {column.name.lower() for column in columns if column.type.startswith(("date", "timestamp"))}
    for text in select.tree.find_all(exp.Literal):
        found = _DAY_OF_READING.fullmatch(text.this) if text.is_string else None
        if found and _is_read_as_time(text, times | {_ANSWER_TIME}):
            return _Unrepeatable(f"the time '{found[1]}'", _written(text))
    return None


def _is_read_as_time(text: exp.Literal, times: Set[str]) -> bool:
    """Whether Spark takes a text for a time: by a cast, in a function of time, or beside a time."""
    parent = text.parent
    if isinstance(parent, exp.Cast):
        return parent.is_type(*exp.DataType.TEMPORAL_TYPES)
    if isinstance(parent, exp.Func):
        name = parent.name if isinstance(parent, exp.Anonymous) else parent.sql_name()
        if _OF_TIME.search(name.lower()):
            return True
    beside = [] if parent is None else [each for each in parent.iter_expressions() if each is not text]
    return any(_is_time(each, times) for each in beside)


def _is_time(value: exp.Expr, times: Set[str]) -> bool:
    if isinstance(value, exp.Cast):
        return value.is_type(*exp.DataType.TEMPORAL_TYPES)
    return isinstance(value, exp.Interval) or (isinstance(value, exp.Column) and value.name.lower() in times)


def _written(text: exp.Literal) -> exp.Expr:
    """What is to be underlined: a cast as a whole."""
    return text.parent if isinstance(text.parent, exp.Cast) else text

"""Refuses functions that give another value each time, where a batch that is done again must give the same.

After a crash the batch under way is done again. A sink then has to know which of its answers it has already,
by their ids or by their batch, and that takes answers which do not change.
"""

from __future__ import annotations

import re

from sqlglot import exp

from watersmeet.errors import Span, SqlError
from watersmeet.query import Sink
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
# Texts that Spark takes for a time of the day it reads them on: TIMESTAMP 'now', CAST('today' AS DATE).
_DAY_OF_READING = re.compile(r"\s*(now|today|tomorrow|yesterday)\b", re.IGNORECASE)


def refuse_unrepeatable(select: Select, sink: Sink | None) -> None:
    """Refuses such a function in a query whose answers are kept; the console keeps none."""
    if sink is None or sink.connector.format.lower() == "console":
        return
    for call in find_calls(select):
        if call.name in _ADVICE and not (call.name == "unix_timestamp" and call.has_arguments):
            raise _refusal(select, call.span, call.name, sink)
    for cast in select.tree.find_all(exp.Cast):
        is_text = isinstance(cast.this, exp.Literal) and cast.this.is_string
        found = _DAY_OF_READING.match(cast.this.this) if is_text else None
        if found and cast.is_type(*exp.DataType.TEMPORAL_TYPES):
            raise _refusal(select, cast, f"the time '{found[1]}'", sink)


def _refusal(select: Select, at: Span | exp.Expr, what: str, sink: Sink) -> SqlError:
    return select.source.refuse(
        f"{what} gives another value when a batch is done again after a crash, and sink {sink.name} could "
        "not tell which answers it has already",
        at,
        _ADVICE.get(what, _CLOCK),
    )

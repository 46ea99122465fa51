"""Refuses functions that give another value each time, where a batch that is done again must give the same.

After a crash the batch under way is done again. A sink then has to know which of its answers it has already,
by their ids or by their batch, and that takes answers which do not change.
"""

from __future__ import annotations

import re

from sqlglot import exp

from watersmeet.errors import SqlError
from watersmeet.query import Sink
from watersmeet.sql.syntax.refuse import Source, span_of

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
_NAME = re.compile(r"`?(\w+)")
_COMMENT = re.compile(r"/\*.*?\*/|--[^\n]*", re.DOTALL)
_TIME_OF_AN_ARGUMENT = re.compile(r"`?unix_timestamp`?\s*\(\s*[^)\s]", re.IGNORECASE)
# Texts that Spark takes for a time of the day it reads them on: TIMESTAMP 'now', CAST('today' AS DATE).
_DAY_OF_READING = re.compile(r"\s*(now|today|tomorrow|yesterday)\b", re.IGNORECASE)


def refuse_unrepeatable(source: Source, tree: exp.Select, sink: Sink | None) -> None:
    """Refuses such a function in a query whose answers are kept; the console keeps none."""
    if sink is None or sink.connector.format.lower() == "console":
        return
    for node in tree.find_all(exp.Func):
        text = _COMMENT.sub("", source.slice(span_of(node)))
        found = _NAME.match(text)
        name = found[1].lower() if found else ""
        if name in _ADVICE and not _TIME_OF_AN_ARGUMENT.match(text):
            raise _refusal(source, node, name, sink)
        if isinstance(node, exp.Cast) and node.is_type(*exp.DataType.TEMPORAL_TYPES):
            read = node.this.this if isinstance(node.this, exp.Literal) and node.this.is_string else ""
            if found := _DAY_OF_READING.match(read):
                raise _refusal(source, node, f"the time '{found[1]}'", sink)


def _refusal(source: Source, node: exp.Func, what: str, sink: Sink) -> SqlError:
    return source.refuse(
        f"{what} gives another value when a batch is done again after a crash, and sink {sink.name} could "
        "not tell which answers it has already",
        node,
        _ADVICE.get(what, _CLOCK),
    )

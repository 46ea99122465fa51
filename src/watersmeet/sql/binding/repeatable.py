"""Refuses functions that give another value each time, where a batch that is done again must give the same.

After a crash the batch under way is done again. A sink then has to know which of its answers it has already,
by their ids or by their batch, and that takes answers which do not change.
"""

from __future__ import annotations

import re

from sqlglot import exp

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
    **dict.fromkeys(("current_timestamp", "now", "localtimestamp"), _CLOCK),
    **dict.fromkeys(("current_date", "curdate", "current_time", "unix_timestamp"), _CLOCK),
    **dict.fromkeys(("uuid", "rand", "random", "randn", "randstr", "uniform", "shuffle"), _RANDOM),
    **dict.fromkeys(("monotonically_increasing_id", "spark_partition_id", "input_file_name"), _RUN),
    **dict.fromkeys(("input_file_block_start", "input_file_block_length"), _RUN),
}
_NAME = re.compile(r"\w+")
_TIME_OF_AN_ARGUMENT = re.compile(r"unix_timestamp\s*\(\s*[^)\s]", re.IGNORECASE)


def refuse_unrepeatable(source: Source, tree: exp.Select, sink: Sink | None) -> None:
    """Refuses such a function in a query whose answers are kept; the console keeps none."""
    if sink is None or sink.connector.format.lower() == "console":
        return
    for node in tree.find_all(exp.Func):
        text = source.slice(span_of(node))
        found = _NAME.match(text)
        name = found[0].lower() if found else ""
        if name in _ADVICE and not _TIME_OF_AN_ARGUMENT.match(text):
            raise source.refuse(
                f"{name} gives another value when a batch is done again after a crash, and sink {sink.name} "
                "could not tell which answers it has already",
                node,
                _ADVICE[name],
            )

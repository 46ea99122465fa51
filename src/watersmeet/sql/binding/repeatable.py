"""Refuses functions that give another value each time, where a batch that is done again must give the same.

After a crash the batch under way is done again. A sink then has to know which of its answers it has already,
by their ids or by their batch, and that takes answers which do not change.
"""

from __future__ import annotations

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
    **dict.fromkeys(("current_timestamp", "now", "localtimestamp"), _CLOCK),
    **dict.fromkeys(("current_date", "curdate", "current_time", "localtime", "unix_timestamp"), _CLOCK),
    **dict.fromkeys(("uuid", "rand", "random", "randn", "randstr", "uniform", "shuffle"), _RANDOM),
    **dict.fromkeys(("monotonically_increasing_id", "spark_partition_id", "input_file_name"), _RUN),
    **dict.fromkeys(("input_file_block_start", "input_file_block_length"), _RUN),
}


def refuse_unrepeatable(select: Select, sink: Sink | None) -> None:
    """Refuses such a function in a query whose answers are kept; the console keeps none."""
    if sink is None or sink.connector.format.lower() == "console":
        return
    for call in find_calls(select):
        if call.name in _ADVICE and not (call.name == "unix_timestamp" and call.has_arguments):
            raise select.source.refuse(
                f"{call.name} gives another value when a batch is done again after a crash, and sink "
                f"{sink.name} could not tell which answers it has already",
                call.span,
                _ADVICE[call.name],
            )

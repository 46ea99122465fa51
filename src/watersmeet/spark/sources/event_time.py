"""The event time of a stream's tuples: a declared column, computed from one, or the time of their arrival."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from watersmeet.query import Stream, format_duration
from watersmeet.query.expression import quote_name
from watersmeet.spark.exchange.collect import NOW_SQL

ARRIVAL_TIME = "watersmeet_arrival"  # the event time of a stream that declares none


def stamp_arrivals(frame: DataFrame) -> DataFrame:
    """Tuples with the time of their micro-batch as event time."""
    return frame.withColumn(ARRIVAL_TIME, F.current_timestamp())


def add_event_time(frame: DataFrame, stream: Stream) -> DataFrame:
    """The stored tuples of a stream with its event time, if it is computed or the time of their arrival."""
    if stream.event_time is None:
        return stamp_arrivals(frame)
    if stream.computed_time is None:
        return frame
    return frame.withColumn(stream.event_time, F.expr(stream.computed_time.sql))


def event_microseconds(stream: Stream, alias: str) -> str:
    """The event time as SQL text, whole microseconds since the epoch; without a zone it is read as UTC."""
    name = stream.event_time or ARRIVAL_TIME
    text = f"{quote_name(alias)}.{quote_name(name)}"
    column = stream.column(name)
    if column is not None and column.type == "timestamp_ntz":
        return f"timestampdiff(MICROSECOND, TIMESTAMP_NTZ'1970-01-01 00:00:00', {text})"
    return f"unix_micros({text})"


def too_far_ahead(stream: Stream, alias: str) -> str | None:
    """Whether a tuple is further ahead of its micro-batch than it may be, as SQL text; None if any may be."""
    if stream.event_time is None or stream.max_ahead_us is None:
        return None
    return f"{event_microseconds(stream, alias)} > {NOW_SQL} + {stream.max_ahead_us}L"


def describe_ahead(stream: Stream) -> str:
    """What is wrong with such a tuple, for dead letters."""
    return f"its event time is more than {format_duration(stream.max_ahead_us or 0)} ahead"

"""The event time of a stream's tuples: a declared column, or the time of their arrival."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from watersmeet.query import Stream
from watersmeet.query.expression import quote_name

ARRIVAL_TIME = "watersmeet_arrival"  # the event time of a stream that declares none


def stamp_arrivals(frame: DataFrame) -> DataFrame:
    """Tuples with the time of their micro-batch as event time."""
    return frame.withColumn(ARRIVAL_TIME, F.current_timestamp())


def event_microseconds(stream: Stream, alias: str) -> str:
    """The event time as SQL text, whole microseconds since the epoch; without a zone it is read as UTC."""
    name = stream.event_time or ARRIVAL_TIME
    text = f"{quote_name(alias)}.{quote_name(name)}"
    column = stream.column(name)
    if column is not None and column.type == "timestamp_ntz":
        return f"timestampdiff(MICROSECOND, TIMESTAMP_NTZ'1970-01-01 00:00:00', {text})"
    return f"unix_micros({text})"

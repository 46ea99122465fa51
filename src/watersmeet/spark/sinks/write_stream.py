"""Starts the query that writes rows into a declared sink, or onto the console where none is declared."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from watersmeet.errors import ConfigurationError
from watersmeet.query import Connector, Sink, format_duration
from watersmeet.spark.session.connectors import refusals_named
from watersmeet.spark.sinks.formats import format_of
from watersmeet.spark.sinks.target import Target

CONSOLE = Sink("console", Connector("console", (("truncate", "false"),)))


def write_stream(
    frame: DataFrame,
    sink: Sink | None,
    *,
    name: str,
    checkpoint: Path | str,
    trigger_us: int | None = None,
    available_now: bool = False,
    base: Path,
    ready: bool = False,
) -> StreamingQuery:
    """Starts the query that writes `frame` into the sink, resuming from the checkpoint.

    Answers get the columns that the sink adds; rows that are `ready`, as dead letters are, have them already.

    With `available_now` it takes what the sources hold and ends. Otherwise a batch starts every `trigger_us`,
    or as soon as the one before has ended.
    """
    target = Target(sink or CONSOLE, base, str(checkpoint), ready)
    with refusals_named(target.what, target.connector):
        writer = (
            format_of(target.connector)(frame, target)
            .option("checkpointLocation", target.checkpoint)
            .queryName(name)
            .outputMode("append")  # an answer, once given, is never taken back
        )
    if available_now:
        writer = writer.trigger(availableNow=True)
    elif trigger_us is not None:
        writer = writer.trigger(processingTime=spark_interval(trigger_us))
    with refusals_named(target.what, target.connector):
        return writer.start()


def spark_interval(duration_us: int) -> str:
    """A trigger's interval as Spark reads it, to the millisecond.

    >>> spark_interval(1_500_000)
    '1500 milliseconds'
    """
    if duration_us < 0 or duration_us % 1000:
        raise ConfigurationError(
            f"a trigger of {format_duration(duration_us)} is not possible: write whole milliseconds"
        )
    return f"{duration_us // 1000} milliseconds"

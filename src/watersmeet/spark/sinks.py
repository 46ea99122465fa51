"""A query's answers into a declared sink, or onto the console where none is declared."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from watersmeet.errors import ConfigurationError
from watersmeet.query import Connector, Sink, format_duration
from watersmeet.spark.connectors import FILE_FORMATS, refusals_named, resolve

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
) -> StreamingQuery:
    """Starts the query that writes `frame` into the sink, resuming where the checkpoint stands.

    With `available_now` it takes what the sources hold and ends; else a batch starts every `trigger_us`, or
    as soon as the one before has ended.
    """
    target = sink or CONSOLE
    connector = target.connector
    if connector.format.lower() in FILE_FORMATS and connector.option("path") is None:
        raise ConfigurationError(f"sink {target.name} (format {connector.format}): add path = 'folder'")
    writer = (
        frame.writeStream.format(connector.format)
        .options(**resolve(connector, base))
        .option("checkpointLocation", str(checkpoint))
        .queryName(name)
        .outputMode("append")  # an answer, once given, is never taken back
    )
    if available_now:
        writer = writer.trigger(availableNow=True)
    elif trigger_us is not None:
        writer = writer.trigger(processingTime=spark_interval(trigger_us))
    with refusals_named(f"sink {target.name}", connector):
        return writer.start()


def spark_interval(duration_us: int) -> str:
    """A trigger's interval as Spark reads it, to the millisecond.

    >>> spark_interval(1_500_000)
    '1500 milliseconds'
    """
    if duration_us < 0 or duration_us % 1000:
        raise ConfigurationError(
            f"a trigger of {format_duration(duration_us)} cannot be: write whole milliseconds"
        )
    return f"{duration_us // 1000} milliseconds"

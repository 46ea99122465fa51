"""A query's answers into a declared sink, or onto the console where none is declared.

Most formats are Spark's own. Kafka gets JSON (`kafka_sink.py`); PostgreSQL and memory are filled batch by
batch (`postgres_sink.py`, `memory_sink.py`).
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from watersmeet.errors import ConfigurationError
from watersmeet.query import Connector, Sink, format_duration
from watersmeet.spark.session.connectors import FILE_FORMATS, refusals_named, resolve
from watersmeet.spark.session.kafka_options import sink_options
from watersmeet.spark.sinks.answer_ids import refuse_answer_id
from watersmeet.spark.sinks.kafka import kafka_messages
from watersmeet.spark.sinks.memory import memory_table
from watersmeet.spark.sinks.postgres import FORMAT as POSTGRES
from watersmeet.spark.sinks.postgres import postgres_table

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
    """Starts the query that writes `frame` into the sink, resuming where the checkpoint stands.

    Answers get what the sink needs beside them; rows that are `ready`, as dead letters are, have it.

    With `available_now` it takes what the sources hold and ends; else a batch starts every `trigger_us`, or
    as soon as the one before has ended.
    """
    target = sink or CONSOLE
    with refusals_named(f"sink {target.name}", target.connector):
        writer = (
            _writer(frame, target, str(checkpoint), base, ready)
            .option("checkpointLocation", str(checkpoint))
            .queryName(name)
            .outputMode("append")  # an answer, once given, is never taken back
        )
    if available_now:
        writer = writer.trigger(availableNow=True)
    elif trigger_us is not None:
        writer = writer.trigger(processingTime=spark_interval(trigger_us))
    with refusals_named(f"sink {target.name}", target.connector):
        return writer.start()


def _writer(frame: DataFrame, sink: Sink, checkpoint: str, base: Path, ready: bool) -> DataStreamWriter:
    """A writer of the sink's format, with its options."""
    connector, kind = sink.connector, sink.connector.format.lower()
    if kind in FILE_FORMATS and connector.option("path") is None:
        raise ConfigurationError(f"sink {sink.name} (format {connector.format}): add path = 'folder'")
    if kind == "kafka":
        options = sink_options(f"sink {sink.name}", connector)
        messages = frame if ready else kafka_messages(frame, sink.name, options)
        return messages.writeStream.format("kafka").options(**options.connector)
    if kind == POSTGRES:
        table = postgres_table(sink)
        if not ready:
            refuse_answer_id(f"sink {sink.name}", frame.columns)
        table.check(frame.sparkSession)
        return frame.writeStream.foreachBatch(table)
    if kind == "memory":
        return frame.writeStream.foreachBatch(memory_table(frame.sparkSession, sink.name, checkpoint))
    return frame.writeStream.format(connector.format).options(**resolve(connector, base))


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

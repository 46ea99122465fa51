"""Every sink format that needs more than Spark's own writer.

To add one: a function like `SinkFormat` in a file of its own, and a line here.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamWriter

from watersmeet.errors import ConfigurationError
from watersmeet.query import Connector
from watersmeet.spark.session.connectors import FILE_FORMATS, resolve
from watersmeet.spark.sinks.kafka import write_messages
from watersmeet.spark.sinks.memory import write_table
from watersmeet.spark.sinks.postgres import FORMAT as POSTGRES
from watersmeet.spark.sinks.postgres import write_postgres
from watersmeet.spark.sinks.target import SinkFormat, Target


def write_as_spark_does(rows: DataFrame, target: Target) -> DataStreamWriter:
    """A format of Spark's own: files, the console, or any whose package is installed."""
    connector = target.connector
    if connector.format.lower() in FILE_FORMATS and connector.option("path") is None:
        raise ConfigurationError(f"{target.what} (format {connector.format}): add path = 'folder'")
    return rows.writeStream.format(connector.format).options(**resolve(connector, target.base))


FORMATS: Mapping[str, SinkFormat] = {
    "kafka": write_messages,
    "memory": write_table,
    POSTGRES: write_postgres,
}


def format_of(sink: Connector) -> SinkFormat:
    """How to write into a sink of this format."""
    return FORMATS.get(sink.format.lower(), write_as_spark_does)

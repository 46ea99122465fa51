"""Every sink format that takes answers batch by batch, for one query and for many in one dataflow.

To add one: a function like `SinkFormat` in a file of its own, and a line here.
"""

from __future__ import annotations

from collections.abc import Mapping

from watersmeet.query import Connector
from watersmeet.spark.session.connectors import FILE_FORMATS
from watersmeet.spark.sinks.console import open_console
from watersmeet.spark.sinks.files import open_files
from watersmeet.spark.sinks.kafka import open_kafka
from watersmeet.spark.sinks.memory import open_memory
from watersmeet.spark.sinks.postgres import FORMAT as POSTGRES
from watersmeet.spark.sinks.postgres import open_postgres
from watersmeet.spark.sinks.target import SinkFormat

CONSOLE = "console"

FORMATS: Mapping[str, SinkFormat] = {
    **dict.fromkeys(FILE_FORMATS, open_files),
    "kafka": open_kafka,
    "memory": open_memory,
    POSTGRES: open_postgres,
    CONSOLE: open_console,
}


def format_of(sink: Connector) -> SinkFormat | None:
    """How to write into a sink of this format; None if only Spark knows how."""
    return FORMATS.get(sink.format.lower())

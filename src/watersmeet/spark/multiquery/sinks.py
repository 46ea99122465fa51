"""What the sinks of a shared dataflow have beside those of a single query: many queries fill one together."""

from __future__ import annotations

from dataclasses import replace

from watersmeet.errors import ConfigurationError
from watersmeet.query import Sink
from watersmeet.spark.session.connectors import FILE_FORMATS
from watersmeet.spark.sinks.formats import CONSOLE, FORMATS

NAME = "query"  # the column that names an answer's query, beside the answer's own
ANSWERS = "answers"  # a sink's option: 'json' for answers of different columns


def takes_json(sink: Sink) -> bool:
    """Whether a sink takes answers as JSON text; the console always does."""
    kind = (sink.connector.option(ANSWERS) or "columns").lower()
    if kind not in ("json", "columns"):
        raise ConfigurationError(f"sink {sink.name}: answers = '{kind}' is neither 'columns' nor 'json'")
    return kind == "json" or sink.connector.format.lower() == CONSOLE


def check_sink(sink: Sink) -> None:
    """Refuses a sink that cannot get each answer exactly once."""
    kind = sink.connector.format.lower()
    takes_json(sink)
    if kind not in FORMATS:
        raise ConfigurationError(
            f"sink {sink.name}: a shared dataflow writes to {', '.join(sorted(FORMATS))}, not to "
            f"{sink.connector.format}"
        )
    if kind in FILE_FORMATS and sink.connector.option("path") is None:
        raise ConfigurationError(f"sink {sink.name} (format {sink.connector.format}): add path = 'folder'")


def without_own_options(sink: Sink) -> Sink:
    """The sink without the option that is ours, not Spark's."""
    own = tuple((key, value) for key, value in sink.connector.options if key.lower() != ANSWERS)
    return Sink(sink.name, replace(sink.connector, options=own))

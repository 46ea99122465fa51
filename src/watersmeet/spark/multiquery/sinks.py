"""Writes the answers of a shared dataflow to its sinks, batch by batch, each answer once.

A batch that is repeated after a crash replaces its first try: files lie in a folder of the batch, a
PostgreSQL table skips answers it has already, messages carry the answer's id.

    out/dataflow=9f3c01ab/batch=17/part-...parquet
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame

from watersmeet.errors import ConfigurationError
from watersmeet.query import Connector, Sink
from watersmeet.spark.session.connectors import FILE_FORMATS, refusals_named, resolve
from watersmeet.spark.session.kafka_options import sink_options
from watersmeet.spark.sinks.answer_ids import refuse_answer_id
from watersmeet.spark.sinks.kafka import kafka_messages
from watersmeet.spark.sinks.memory import memory_table
from watersmeet.spark.sinks.postgres import FORMAT as POSTGRES
from watersmeet.spark.sinks.postgres import postgres_table

NAME = "query"  # the column that names an answer's query, beside the answer's own
ANSWERS = "answers"  # a sink's option: 'json' for answers of different columns
FORMATS = (*FILE_FORMATS, "console", "memory", "kafka", POSTGRES)


def takes_json(sink: Sink) -> bool:
    """Whether a sink takes answers as JSON text; the console always does."""
    kind = (sink.connector.option(ANSWERS) or "columns").lower()
    if kind not in ("json", "columns"):
        raise ConfigurationError(f"sink {sink.name}: answers = '{kind}' is neither 'columns' nor 'json'")
    return kind == "json" or sink.connector.format.lower() == "console"


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


def write_batch(answers: DataFrame, sink: Sink, batch: int, base: Path, dataflow_id: str) -> None:
    """Writes one batch's answers to one sink, replacing whatever a first try has left."""
    plain = _plain(sink)
    connector, kind = plain.connector, plain.connector.format.lower()
    with refusals_named(f"sink {sink.name}", connector):
        if kind == "console":
            answers.show(1000, truncate=False)
        elif kind == "memory":
            memory_table(answers.sparkSession, sink.name, dataflow_id)(answers, batch)
        elif kind == POSTGRES:
            refuse_answer_id(f"sink {sink.name}", answers.columns)
            postgres_table(plain)(answers, batch)
        elif kind == "kafka":
            options = sink_options(f"sink {sink.name}", connector)
            messages = kafka_messages(answers, sink.name, options)
            messages.write.format("kafka").options(**options.connector).save()
        else:
            options_ = resolve(connector, base)
            path = f"{options_.pop('path')}/dataflow={dataflow_id}/batch={batch}"
            answers.write.format(kind).options(**options_).mode("overwrite").save(path)


def _plain(sink: Sink) -> Sink:
    """The sink without the option that is ours, not Spark's."""
    own = tuple((key, value) for key, value in sink.connector.options if key.lower() != ANSWERS)
    return Sink(sink.name, Connector(sink.connector.format, own))

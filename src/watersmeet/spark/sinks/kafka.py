"""Answers as Kafka messages: JSON, each with the answer's id, so that a reader can drop duplicates.

Spark's Kafka sink writes the batch under way again after a crash, so a topic may hold an answer twice, with
the same `answer_id`. The id is also the message's key unless a column is named as `key`: a topic with log
compaction then drops repeats by itself.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.readwriter import DataStreamWriter

from watersmeet.errors import ConfigurationError
from watersmeet.query.expression import quote_name
from watersmeet.spark.session.kafka_options import KafkaOptions, sink_options
from watersmeet.spark.sinks.answer_ids import ANSWER_ID, refuse_answer_id, with_answer_ids
from watersmeet.spark.sinks.target import Target

MICROSECONDS = "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"
_JSON = "watersmeet_json"
_KEY = "watersmeet_key"


def write_messages(rows: DataFrame, target: Target) -> DataStreamWriter:
    """Answers as messages of a topic; rows that are `ready` are messages already."""
    options = sink_options(target.what, target.connector)
    messages = rows if target.ready else kafka_messages(rows, target.sink.name, options)
    return messages.writeStream.format("kafka").options(**options.connector)


def kafka_messages(answers: DataFrame, sink: str, options: KafkaOptions) -> DataFrame:
    """The messages to send for a query's answers.

    With `value = 'raw'` the answers are the messages: columns value, key, headers, topic, partition.
    """
    what = f"sink {sink}"
    if options.value == "raw":
        if "value" not in answers.columns:
            raise ConfigurationError(f"{what}: with value = 'raw' the query must SELECT ... AS value")
        return answers
    refuse_answer_id(what, answers.columns)
    return _as_json(answers, _key_of(what, answers, options), options)


def _key_of(what: str, answers: DataFrame, options: KafkaOptions) -> str | None:
    if options.key is None:
        return None
    for name in answers.columns:
        if name.lower() == options.key.lower():
            return name
    raise ConfigurationError(
        f"{what}: key = '{options.key}' is no column of its answers; they have {', '.join(answers.columns)}"
    )


def _as_json(answers: DataFrame, key: str | None, options: KafkaOptions) -> DataFrame:
    settings = {"timestampFormat": MICROSECONDS, **options.decoder, "ignoreNullFields": "false"}
    columns = [F.to_json(F.struct("*"), settings).alias(_JSON)]
    if key is not None:
        columns.append(F.col(quote_name(key)).cast("string").alias(_KEY))
    named = with_answer_ids(answers.select(*columns))
    # An id has no character that JSON would escape, and an answer at least one column.
    head, tail = F.lit(f'{{"{ANSWER_ID}":"'), F.expr(f"substring({_JSON}, 2)")
    value = F.concat(head, F.col(ANSWER_ID), F.lit('",'), tail)
    return named.select(F.col(ANSWER_ID if key is None else _KEY).alias("key"), value.alias("value"))

"""Answers as Kafka messages: JSON, each with the answer's id, so that a reader can drop duplicates.

The batch under way is sent again after a crash, so a topic may hold an answer twice, with
the same `answer_id`. The id is also the message's key unless a column is named as `key`: a topic with log
compaction then drops repeats by itself.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from watersmeet.errors import ConfigurationError
from watersmeet.query.expression import quote_name
from watersmeet.spark.session.kafka_options import KafkaOptions, sink_options
from watersmeet.spark.sinks.answer_ids import ANSWER_ID, Origin, refuse_answer_id, with_answer_ids
from watersmeet.spark.sinks.target import Batch, Target

MICROSECONDS = "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"
_JSON = "watersmeet_json"
_KEY = "watersmeet_key"


@dataclass(frozen=True)
class KafkaSink:
    """A topic, or several; rows that are `ready` are messages already."""

    what: str
    options: KafkaOptions
    ready: bool

    def check(self, columns: list[str]) -> None:
        """Refuses answers without the columns that messages are made of."""
        if not self.ready:
            check_columns(self.what, columns, self.options)

    def write(self, batch: Batch) -> None:
        rows = batch.answers(batch.queries)
        if rows is not None:
            messages = rows if self.ready else kafka_messages(rows, self.options, batch.origin)
            messages.write.format("kafka").options(**self.options.connector).save()


def open_kafka(target: Target) -> KafkaSink:
    """The topic that a sink names."""
    return KafkaSink(target.what, sink_options(target.what, target.connector), target.ready)


def check_columns(what: str, columns: list[str], options: KafkaOptions) -> None:
    """Refuses answers without the columns that messages are made of."""
    if options.value == "raw":
        if "value" not in columns:
            raise ConfigurationError(f"{what}: with value = 'raw' the query must SELECT ... AS value")
        return
    refuse_answer_id(what, columns)
    if options.key is not None and _column(columns, options.key) is None:
        raise ConfigurationError(
            f"{what}: key = '{options.key}' is no column of its answers; they have {', '.join(columns)}"
        )


def kafka_messages(answers: DataFrame, options: KafkaOptions, origin: Origin) -> DataFrame:
    """The messages to send for a batch's answers.

    With `value = 'raw'` the answers are the messages: columns value, key, headers, topic, partition.
    """
    if options.value == "raw":
        return answers
    key = None if options.key is None else _column(answers.columns, options.key)
    settings = {"timestampFormat": MICROSECONDS, **options.decoder, "ignoreNullFields": "false"}
    columns = [F.to_json(F.struct("*"), settings).alias(_JSON)]
    if key is not None:
        columns.append(F.col(quote_name(key)).cast("string").alias(_KEY))
    named = with_answer_ids(answers.select(*columns), origin)
    # An id has no character that JSON would escape, and an answer at least one column.
    head, tail = F.lit(f'{{"{ANSWER_ID}":"'), F.expr(f"substring({_JSON}, 2)")
    value = F.concat(head, F.col(ANSWER_ID), F.lit('",'), tail)
    return named.select(F.col(ANSWER_ID if key is None else _KEY).alias("key"), value.alias("value"))


def _column(columns: list[str], wanted: str) -> str | None:
    return next((name for name in columns if name.lower() == wanted.lower()), None)

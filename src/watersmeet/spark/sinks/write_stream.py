"""Starts the query that writes rows into a declared sink, or onto the console where none is declared."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from watersmeet.errors import ConfigurationError
from watersmeet.query import Connector, Sink, format_duration
from watersmeet.spark.session.connectors import hide_options, refusals_named, resolve
from watersmeet.spark.session.environment import keep_renames_safe
from watersmeet.spark.session.failures import explain_failure
from watersmeet.spark.sinks import formats
from watersmeet.spark.sinks.answer_ids import Origin
from watersmeet.spark.sinks.batch_plans import BatchPlans
from watersmeet.spark.sinks.formats import format_of
from watersmeet.spark.sinks.repeatable import UNREPEATABLE, is_repeatable
from watersmeet.spark.sinks.target import Batch, BatchSink, Target
from watersmeet.spark.storage.paths import spark_path

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
    into: BatchSink | None = None,
) -> StreamingQuery:
    """Starts the query that writes `frame` into the sink, resuming from the checkpoint.

    `into` is given where the sink is no declared one.

    Answers get the columns that the sink adds; rows that are `ready`, as dead letters are, have them already.

    With `available_now` it takes what the sources hold and ends. Otherwise a batch starts every `trigger_us`,
    or as soon as the one before has ended.
    """
    target = Target(
        spark=frame.sparkSession,
        sink=sink or CONSOLE,
        base=base,
        checkpoint=str(checkpoint),
        name=name,
        ready=ready,
    )
    keep_renames_safe(target.spark, target.checkpoint)
    with refusals_named(target.what, target.connector):
        writer = (
            _writer(frame, target, into)
            .option("checkpointLocation", spark_path(target.checkpoint))
            .queryName(name)
            .outputMode("append")  # an answer, once given, is never taken back
        )
    if available_now:
        writer = writer.trigger(availableNow=True)
    elif trigger_us is not None:
        writer = writer.trigger(processingTime=spark_interval(trigger_us))
    with refusals_named(target.what, target.connector):
        return writer.start()


def _writer(rows: DataFrame, target: Target, into: BatchSink | None) -> DataStreamWriter:
    hide_options(target.spark, target.connector)
    opened = format_of(target.connector) if into is None else lambda _: into
    kind = target.connector.format
    if opened is None or kind.lower() == formats.CONSOLE:
        # Any format whose package is installed; and the console, whose tables people know from Spark.
        return rows.writeStream.format(kind).options(**resolve(target.connector, target.base, target.what))
    sink = opened(target)
    sink.check(rows.columns)
    if not is_repeatable(rows):
        raise ConfigurationError(f"query {target.name} into {target.what}: {UNREPEATABLE}")
    return rows.writeStream.foreachBatch(OneQuery(sink, BatchPlans(target.spark, target.checkpoint)))


@dataclass(frozen=True)
class OneQuery:
    """Fills a sink with the answers of one query; called by `foreachBatch`."""

    sink: BatchSink
    plans: BatchPlans

    def __call__(self, answers: DataFrame, batch: int) -> None:
        query = answers.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
        assert query is not None, "foreachBatch runs in the thread of its query"
        writer, has_run = query[:8], False

        def take(_: frozenset[str]) -> DataFrame:
            nonlocal has_run
            has_run = True
            return answers

        own = Batch(
            number=batch,
            plan=self.plans.of(batch),
            origin=Origin(writer, batch),
            queries=frozenset({writer}),
            answers=take,
        )
        try:
            self.sink.write(own)
            if not has_run:
                # The state of the batch is due even if its answers are not, and it is made by the same tasks.
                answers.write.format("noop").mode("overwrite").save()
        except (PySparkException, Py4JJavaError) as error:
            # Further up only the first of its causes would be left.
            raise explain_failure(error) from error


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

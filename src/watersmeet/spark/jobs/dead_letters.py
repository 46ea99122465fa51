"""Messages in error into the sink that `dead_letters` names, by a streaming query beside the pipeline's own.

A message is in error if it is malformed, or if its event time is further ahead than the stream allows. The
latter goes by the time of the batch it is read in, and this query has batches of its own: of a tuple within
seconds of the bound it may judge otherwise than a query of the pipeline.

The query reads the same topics, with a checkpoint of its own, and writes like any other: once into files and
tables, at least once into Kafka. It fixes its offsets before the pipeline's queries fix theirs, so a message
that is malformed for them is there for it too. One query serves all streams that name the same sink, since a
file sink has one writer.

In a Kafka sink a dead letter is the message as it was, with three more headers. Elsewhere it is a row:
answer_id, stream, reason, topic, partition, offset, timestamp, key, value.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import reduce
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery

from watersmeet.errors import ConfigurationError
from watersmeet.query import Pipeline, Sink, Stream
from watersmeet.spark.jobs.job import RunOptions
from watersmeet.spark.jobs.running_query import RunningQuery
from watersmeet.spark.session.connectors import refusals_named
from watersmeet.spark.session.kafka_options import DEAD_LETTERS
from watersmeet.spark.sinks.answer_ids import ANSWER_ID
from watersmeet.spark.sinks.write_stream import write_stream
from watersmeet.spark.sources.event_time import add_event_time, describe_ahead, too_far_ahead
from watersmeet.spark.sources.kafka import RAW, REASON, read_messages
from watersmeet.spark.storage.folder import Folder

_POLL_S = 0.1
_KAFKA_ID = f"concat_ws('-', {RAW}.topic, {RAW}.partition, {RAW}.offset)"  # one message has it
_TEXT_FORMATS = ("json", "csv", "console", "text", "xml")


@dataclass(kw_only=True)
class DeadLetters(RunningQuery):
    """The running query that fills one sink with dead letters."""

    spark: SparkSession
    sink: Sink
    streams: tuple[Stream, ...]
    checkpoint: str
    base: Path
    options: RunOptions

    @property
    def name(self) -> str:
        return f"dead-letters-{self.sink.name}"

    def launch(self) -> StreamingQuery:
        """Starts or resumes, and returns once the query has its offsets in all topics."""
        letters = [self._letters(stream) for stream in self.streams]
        query = write_stream(
            reduce(DataFrame.unionByName, letters),
            self.sink,
            name=self.name,
            checkpoint=f"{self.checkpoint}/spark",
            trigger_us=self.options.trigger_us,
            available_now=self.options.available_now,
            base=self.base,
            ready=True,
        )
        files = Folder(self.spark, f"{self.checkpoint}/spark")
        while query.isActive and not all(
            files.holds(f"sources/{number}/0") for number in range(len(self.streams))
        ):
            time.sleep(_POLL_S)
        if (failure := query.exception()) is not None:
            raise failure
        return query

    def poll(self) -> None:
        """Raises the failure of the query, if it has failed for good, in plain words."""
        if self._query is not None and self._query.lastProgress is not None:
            self._retries.reset()
        self.check()

    def _letters(self, stream: Stream) -> DataFrame:
        assert stream.source is not None
        with refusals_named(f"stream {stream.name}", stream.source):
            decoded = add_event_time(read_messages(self.spark, stream.as_stored, self.base), stream)
        return dead_letters(decoded, stream, self.sink.connector.format.lower())


def dead_letters(decoded: DataFrame, stream: Stream, sink_format: str) -> DataFrame:
    """Those in error among decoded messages, as the sink takes them."""
    if (ahead := too_far_ahead(stream, stream.name)) is not None:
        reason = F.coalesce(F.col(REASON), F.when(F.expr(ahead), F.lit(describe_ahead(stream))))
        decoded = decoded.alias(stream.name).withColumn(REASON, reason)
    in_error = decoded.where(F.col(REASON).isNotNull())
    if sink_format == "kafka":
        facts = {"stream": F.lit(stream.name), "reason": F.col(REASON), "from": F.expr(_KAFKA_ID)}
        more = [
            F.struct(F.lit(f"watersmeet-{name}").alias("key"), text.cast("binary").alias("value"))
            for name, text in facts.items()
        ]
        headers = F.concat(F.coalesce(F.col(f"{RAW}.headers"), F.array()), F.array(*more))
        return in_error.select(f"{RAW}.key", f"{RAW}.value", headers.alias("headers"))
    kind = "string" if sink_format in _TEXT_FORMATS else "binary"
    return in_error.select(
        F.concat(F.lit(f"{stream.name}-"), F.expr(_KAFKA_ID)).alias(ANSWER_ID),
        F.lit(stream.name).alias("stream"),
        F.col(REASON).alias("reason"),
        *(F.col(f"{RAW}.{name}") for name in ("topic", "partition", "offset", "timestamp")),
        *(F.col(f"{RAW}.{name}").cast(kind).alias(name) for name in ("key", "value")),
    )


def plan_dead_letters(
    spark: SparkSession, pipeline: Pipeline, root: str, base: Path, options: RunOptions
) -> list[DeadLetters]:
    """A query for every sink that some stream of the pipeline names for its dead letters."""
    wanted: dict[str, list[Stream]] = {}
    for stream in pipeline.streams:
        if stream.source is not None and (name := stream.source.option(DEAD_LETTERS)) is not None:
            if stream.source.format.lower() != "kafka":
                raise ConfigurationError(
                    f"stream {stream.name} (format {stream.source.format}): {DEAD_LETTERS} is for Kafka; "
                    "files with malformed records can be corrected and read again"
                )
            wanted.setdefault(name.lower(), []).append(stream)
    return [_plan(spark, pipeline, streams, root, base, options) for streams in wanted.values()]


def _plan(
    spark: SparkSession, pipeline: Pipeline, streams: list[Stream], root: str, base: Path, options: RunOptions
) -> DeadLetters:
    first = streams[0].source
    assert first is not None
    name = first.option(DEAD_LETTERS) or ""
    sink = pipeline.sink(name)
    if sink is None:
        known = ", ".join(each.name for each in pipeline.sinks) or "none"
        raise ConfigurationError(
            f"stream {streams[0].name}: {DEAD_LETTERS} = '{name}' names no sink; there are: {known}"
        )
    if any((query.sink or "").lower() == sink.name.lower() for query in pipeline.queries):
        raise ConfigurationError(
            f"sink {sink.name} takes answers, so it cannot take dead letters: declare another one for them"
        )
    return DeadLetters(
        spark=spark,
        sink=sink,
        streams=tuple(streams),
        checkpoint=f"{root}/dead-letters-{sink.name.lower()}",
        base=base,
        options=options,
    )

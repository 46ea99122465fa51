"""A link as a topic of Kafka: written by Spark's Kafka sink, read by its source.

Kafka takes messages at least once. What is done again is sent again under the same keys, and the receiver
counts it once (`topic_messages.py`). Which batch comes before, the sender's own checkpoint says
(`link_record.py`): unlike a folder, a topic cannot be asked.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from watersmeet.errors import ConfigurationError, TransientError
from watersmeet.query import Connector
from watersmeet.spark.session.connectors import hide_options
from watersmeet.spark.session.failures import explain_failure, first_line
from watersmeet.spark.session.kafka_options import LinkOptions, link_options
from watersmeet.spark.sites.link_record import LinkCounts, LinkRecord, Sent
from watersmeet.spark.sites.parcel import Parcel, refuse_write
from watersmeet.spark.sites.topic_messages import (
    KEY,
    MESSAGE_SQL,
    OFFSET,
    PARTITION,
    VALUE,
    MessageKey,
    PackPieces,
    end_of_batch,
)

MOST_MESSAGES = "512"  # that a batch takes of a link, so that a site that was away catches up in pieces
WAIT_S = 30


@dataclass(frozen=True)
class LinkTopic:
    """One way between two sites; `record` is the sender's."""

    spark: SparkSession
    source: str
    target: str
    connector: Connector
    query: str
    record: LinkRecord | None = None

    @property
    def name(self) -> str:
        return f"the link from {self.source} to {self.target}"

    @property
    def options(self) -> LinkOptions:
        """The options of the link, secrets filled in."""
        return link_options(self.name, self.connector)

    def publish(self, parcel: Parcel) -> Sent:
        """Sends a batch's rows and its end; a batch that is done again is sent again."""
        assert self.record is not None
        key = MessageKey(
            source=self.source,
            target=self.target,
            query=self.query,
            plan=parcel.fingerprint,
            writer=parcel.writer,
            number=parcel.batch,
            batch_plan=parcel.batch_plan,
        )
        previous = self.record.read().with_batch(parcel.batch, parcel.counts).previous
        name, value = end_of_batch(key, previous, parcel.marks, parcel.groups)
        session = parcel.rows.sparkSession if parcel.rows is not None else self.spark
        whole = session.range(1).select(
            F.lit(bytearray(name)).alias(KEY), F.lit(bytearray(value)).alias(VALUE)
        )
        counts = replace(
            parcel.counts, mark_bytes=len(value), messages=1, framed_bytes=len(name) + len(value)
        )
        if parcel.rows is None:
            return self._send(whole, parcel.batch, counts)
        pieces = parcel.rows.mapInArrow(PackPieces(key), MESSAGE_SQL).persist()
        try:
            size = F.sum(F.length(KEY) + F.length(VALUE))
            messages, nbytes = pieces.agg(F.count(F.lit(1)), size).head() or (0, 0)
            more = LinkCounts(messages=messages, framed_bytes=nbytes or 0)
            return self._send(pieces.unionAll(whole), parcel.batch, counts + more)
        finally:
            pieces.unpersist()

    def _send(self, messages: DataFrame, batch: int, counts: LinkCounts) -> Sent:
        assert self.record is not None
        sent = self.record.note(batch, counts)
        try:
            messages.write.format("kafka").options(**self.options.sink).save()
        except (Py4JJavaError, PySparkException) as error:
            raise refuse_write(self.name, str(explain_failure(error)), error) from error
        return sent

    def open(self) -> None:
        """Makes the topic, unless it is there: whichever site comes first."""
        hide_options(self.spark, self.connector)
        try:
            self._make()
        except (Py4JError, PySparkException) as error:
            raise self._refusal(error) from None

    def read(self) -> DataFrame:
        """The topic's messages from its beginning on."""
        options = {"maxOffsetsPerTrigger": MOST_MESSAGES, **self.options.source}
        fixed = {"startingOffsets": "earliest", "failOnDataLoss": "true"}
        frame = self.spark.readStream.format("kafka").options(**{**options, **fixed}).load()
        return frame.select(KEY, VALUE, PARTITION, OFFSET)

    def _make(self) -> None:
        """Through the client that Spark's connector brings along."""
        jvm: Any = self.spark.sparkContext._jvm
        settings = jvm.java.util.Properties()
        for key, value in self.options.client.items():
            settings.setProperty(key, value)
        nothing = jvm.java.util.Optional.empty()
        topic = jvm.org.apache.kafka.clients.admin.NewTopic(self.options.topic, nothing, nothing)
        client = jvm.org.apache.kafka.clients.admin.AdminClient.create(settings)
        try:
            topics = jvm.java.util.Collections.singleton(topic)
            client.createTopics(topics).all().get(WAIT_S, jvm.java.util.concurrent.TimeUnit.SECONDS)
        except Py4JJavaError as error:
            if "TopicExistsException" not in str(error.java_exception.toString()):
                raise
        finally:
            client.close()

    def _refusal(self, error: Exception) -> Exception:
        said = str(error.java_exception.toString()) if isinstance(error, Py4JJavaError) else str(error)
        if "Timeout" in said:
            return TransientError(
                f"{self.name}: no broker answers at {self.options.client['bootstrap.servers']}"
            )
        return ConfigurationError(
            f"{self.name}: topic {self.options.topic} cannot be made: {first_line(said)}. Make it, with any "
            "number of partitions and without a limit of size or time that its reader could fall behind"
        )

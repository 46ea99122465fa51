"""The options of a Kafka source or sink, sorted into Spark's own, those of the value, and ours.

    bootstrap = 'host:9092'            Spark's kafka.bootstrap.servers
    topic = 'a,b'                      of a source, Spark's subscribe
    value = 'json' | 'csv' | 'avro'    how the message's value is written
    'value.NAME' = '...'               an option of that format
    dead_letters = 'sink'              where malformed messages go

All else is an option of Spark's connector: startingOffsets, maxOffsetsPerTrigger, kafka.security.protocol,
kafka.sasl.jaas.config and so on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from watersmeet.errors import ConfigurationError
from watersmeet.query import Connector

BOOTSTRAP = "kafka.bootstrap.servers"
SOURCE_VALUES = ("json", "csv", "avro")
SINK_VALUES = ("json", "raw")
DEAD_LETTERS = "dead_letters"
_TOPICS = ("subscribe", "subscribepattern", "assign")
_VALUE = "value."
_CLIENT = "kafka."
# A batch is read from end to end; these say where a stream starts and how fast it goes.
_STREAM_ONLY = ("startingoffsets", "maxoffsetspertrigger", "minoffsetspertrigger", "maxtriggerdelay")


@dataclass(frozen=True)
class KafkaOptions:
    """The options of one Kafka source or sink."""

    connector: Mapping[str, str]  # for Spark
    value: str
    decoder: Mapping[str, str]  # without their 'value.'
    key: str | None = None  # of a sink: the column that is the message's key

    def for_batch(self) -> dict[str, str]:
        """The options for reading all that a topic holds, once."""
        return {key: text for key, text in self.connector.items() if key.lower() not in _STREAM_ONLY}


def source_options(what: str, connector: Connector) -> KafkaOptions:
    """The options of a source; `what` names it, such as `stream s1`."""
    _refuse(what, connector, "mode", "malformed messages never stop a Kafka stream: leave mode out")
    options = _sorted(what, connector, {"bootstrap": BOOTSTRAP, "topic": "subscribe"}, SOURCE_VALUES)
    topics = [key for key in options.connector if key.lower() in _TOPICS]
    if not topics:
        raise ConfigurationError(f"{what} (format kafka): add topic = 'name'")
    if len(topics) > 1:
        raise ConfigurationError(f"{what} (format kafka): {' and '.join(topics)} contradict each other")
    return replace(options, connector={**options.connector, "includeHeaders": "true"})


def sink_options(what: str, connector: Connector) -> KafkaOptions:
    """The options of a sink; `what` names it, such as `sink out`."""
    options = _sorted(what, connector, {"bootstrap": BOOTSTRAP}, SINK_VALUES)
    if options.value == "json" and "topic" not in {key.lower() for key in options.connector}:
        raise ConfigurationError(f"{what} (format kafka): add topic = 'name'")
    return options


@dataclass(frozen=True)
class LinkOptions:
    """The options of a topic that is a link: for Spark's source and sink, and for a client of Kafka's own."""

    topic: str
    source: Mapping[str, str]
    sink: Mapping[str, str]
    client: Mapping[str, str]


def link_options(what: str, connector: Connector) -> LinkOptions:
    """The options of a link; `what` names it, such as `the link from paris to oslo`."""
    given = {"bootstrap": BOOTSTRAP}
    common: dict[str, str] = {}
    source: dict[str, str] = {}
    topic = None
    for key, text in connector.filled_in(what).items():
        name = key.lower()
        if name == "topic":
            topic = text
        elif name == "maxoffsetspertrigger":
            source[key] = text
        elif name in given or name.startswith(_CLIENT):
            common[given.get(name, key)] = text
        else:
            raise ConfigurationError(
                f"{what} (format kafka) has no option {key}. It takes bootstrap, topic, "
                "maxOffsetsPerTrigger, and those of Kafka's clients, such as 'kafka.security.protocol'"
            )
    if topic is None or BOOTSTRAP not in common:
        raise ConfigurationError(f"{what} (format kafka): add bootstrap = 'host:9092' and topic = 'name'")
    client = {key[len(_CLIENT) :]: text for key, text in common.items()}
    sink = {"kafka.compression.type": "zstd", **common, "topic": topic}
    return LinkOptions(topic, {**common, **source, "subscribe": topic}, sink, client)


def _sorted(
    what: str, connector: Connector, short: Mapping[str, str], values: tuple[str, ...]
) -> KafkaOptions:
    for_spark: dict[str, str] = {}
    decoder: dict[str, str] = {}
    for key, text in connector.filled_in(what).items():
        name = key.lower()
        if name.startswith(_VALUE):
            decoder[key[len(_VALUE) :]] = text
        elif name not in ("value", "key", DEAD_LETTERS):
            for_spark[short.get(name, key)] = text
    if BOOTSTRAP not in for_spark:
        raise ConfigurationError(f"{what} (format kafka): add bootstrap = 'host:9092'")
    value = (connector.option("value") or "json").lower()
    if value not in values:
        raise ConfigurationError(f"{what}: value = '{value}' is none of {', '.join(values)}")
    return KafkaOptions(for_spark, value, decoder, connector.option("key"))


def _refuse(what: str, connector: Connector, option: str, why: str) -> None:
    if connector.option(option) is not None:
        raise ConfigurationError(f"{what} (format kafka): {why}")

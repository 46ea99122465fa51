"""Kafka messages as tuples of a stream, and apart from them those that cannot be read as such.

A column whose name begins with `kafka_` is Kafka's own: `kafka_key`, `kafka_timestamp`, `kafka_headers` and
the rest of `OWN`. All others are read from the message's value by Spark's `from_json`, `from_csv` or
`from_avro`. A message is malformed when its value is missing, cannot be parsed, or holds something that does
not fit the declared type, or when its key does not; a field that a JSON value lacks is NULL. Malformed
messages are counted with the batch they are read in and left out of the stream; `dead_letters.py` keeps them.

    decoded:  dest, size (as declared) | watersmeet_reason (NULL if none) | watersmeet_raw (the message)
"""

from __future__ import annotations

import json
from pathlib import Path

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from watersmeet.errors import ConfigurationError, DataError
from watersmeet.query import Column, Stream
from watersmeet.query.expression import quote_name
from watersmeet.spark.metrics.progress import MALFORMED_OBSERVATION
from watersmeet.spark.session.connectors import hide_options, refusals_named
from watersmeet.spark.session.kafka_options import KafkaOptions, source_options
from watersmeet.spark.sources.source_format import Opening

REASON = "watersmeet_reason"
RAW = "watersmeet_raw"
_PARSED = "watersmeet_parsed"
_CORRUPT = "watersmeet_corrupt"  # where the parsers leave the text of a value that they cannot read
_READ = "watersmeet_read"  # a field that Avro fills in where it has read the others

_HEADERS = "array<struct<key:string,value:binary>>"
_HEADER_MAP = "map<string,string>"
# Kafka's own columns by the name they are declared under: the name in Spark's connector, the types they take.
OWN = {
    "kafka_key": ("key", None),  # any type that a text can be cast to
    "kafka_value": ("value", ("binary", "string")),
    "kafka_topic": ("topic", ("string",)),
    "kafka_partition": ("partition", ("int",)),
    "kafka_offset": ("offset", ("bigint",)),
    "kafka_timestamp": ("timestamp", ("timestamp",)),
    "kafka_headers": ("headers", (_HEADERS, _HEADER_MAP)),
}


class KafkaFormat:
    """Kafka as a source of tuples; malformed messages are counted and left out."""

    rows_option = "maxOffsetsPerTrigger"

    def infer_columns(self, opening: Opening) -> tuple[Column, ...]:
        raise ConfigurationError(f"{opening.what}: declare the columns of its Kafka messages")

    def read(self, opening: Opening, *, streaming: bool) -> DataFrame:
        read = read_messages if streaming else read_all_messages
        with refusals_named(opening.what, opening.source):
            return well_formed(read(opening.spark, opening.stream, opening.base), opening.stream)


def read_messages(spark: SparkSession, stream: Stream, base: Path) -> DataFrame:
    """The stream's messages as they come, decoded."""
    options = _options(spark, stream)
    frame = spark.readStream.format("kafka").options(**options.connector).load()
    return decode_messages(frame, stream, options, base)


def read_all_messages(spark: SparkSession, stream: Stream, base: Path) -> DataFrame:
    """The messages a stream's topic holds now, decoded."""
    options = _options(spark, stream)
    frame = spark.read.format("kafka").options(**options.for_batch()).load()
    return decode_messages(frame, stream, options, base)


def well_formed(decoded: DataFrame, stream: Stream) -> DataFrame:
    """The tuples among decoded messages; a streaming query that reads them reports how many are none."""
    if decoded.isStreaming:
        malformed = F.count_if(F.col(REASON).isNotNull()).alias("malformed")
        decoded = decoded.observe(f"{MALFORMED_OBSERVATION}{stream.name}", malformed)
    return decoded.where(F.col(REASON).isNull()).select(*(quote_name(c.name) for c in stream.columns))


def decode_messages(
    messages: DataFrame, stream: Stream, options: KafkaOptions, base: Path = Path()
) -> DataFrame:
    """Every message with its columns as declared, and why it is malformed if it is."""
    own = [column for column in stream.columns if column.name.lower() in OWN]
    inside = [column for column in stream.columns if column.name.lower() not in OWN]
    _check_own(stream, own)
    frame = messages.select(F.struct("*").alias(RAW))
    reasons = [_bad_key(column) for column in own if column.name.lower() == "kafka_key"]
    if inside:
        parsed, bad = _parsed(stream, inside, options, base)
        frame = frame.withColumn(_PARSED, parsed)
        reasons = [F.when(_raw("value").isNull(), F.lit("there is no value")), bad, *reasons]
        if options.value == "avro":
            _check_avro(frame, stream, inside)
    columns = [
        (_own(column) if column in own else F.col(_PARSED).getField(column.name)).alias(column.name)
        for column in stream.columns
    ]
    reason = F.coalesce(*reasons, F.lit(None).cast("string"))
    return frame.select(*columns, reason.alias(REASON), RAW)


def _options(spark: SparkSession, stream: Stream) -> KafkaOptions:
    assert stream.source is not None
    hide_options(spark, stream.source)
    if stream.idle_after_us is not None and stream.source.option("minOffsetsPerTrigger") is not None:
        raise ConfigurationError(
            f"stream {stream.name}: minOffsetsPerTrigger holds messages back, so the stream could be taken "
            "for idle while it has some: leave it out, or idle_after"
        )
    return source_options(f"stream {stream.name}", stream.source)


def _raw(name: str) -> SparkColumn:
    return F.col(RAW).getField(name)


def _check_own(stream: Stream, own: list[Column]) -> None:
    for column in own:
        types = OWN[column.name.lower()][1]
        if types is not None and column.type not in types:
            raise ConfigurationError(
                f"stream {stream.name}: {column.name} is declared {column.type}; "
                f"it can be {' or '.join(types)}"
            )
    for column in stream.columns:
        if column.name.lower().startswith("kafka_") and column not in own:
            raise ConfigurationError(
                f"stream {stream.name}: Kafka has no {column.name}; it has {', '.join(OWN)}"
            )


def _own(column: Column) -> SparkColumn:
    name = OWN[column.name.lower()][0]
    if name == "key" and column.type != "binary":
        return _raw("key").cast("string").try_cast(column.type)
    if column.type == _HEADER_MAP:
        # Kafka allows a header several times, a map does not: the last one counts.
        names = f"array_distinct({RAW}.headers.key)"
        last = f"element_at(filter({RAW}.headers, header -> header.key = name), -1)"
        return F.expr(f"map_from_arrays({names}, transform({names}, name -> CAST({last}.value AS STRING)))")
    return _raw(name).cast(column.type) if column.type == "string" else _raw(name)


def _bad_key(column: Column) -> SparkColumn:
    wrong = _raw("key").isNotNull() & _own(column).isNull()
    return F.when(wrong, F.lit(f"the key is no {column.type}"))


def _parsed(
    stream: Stream, inside: list[Column], options: KafkaOptions, base: Path
) -> tuple[SparkColumn, SparkColumn]:
    """The value as a struct of columns, and why that cannot be had."""
    if options.value == "avro":
        return _parsed_avro(stream, options, base)
    text = _raw("value").cast("string")
    schema = ", ".join(f"{quote_name(column.name)} {column.type}" for column in inside)
    settings = {**options.decoder, "mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    parse = F.from_json if options.value == "json" else F.from_csv
    parsed = parse(text, f"{schema}, {_CORRUPT} STRING", settings)
    unread = F.col(_PARSED).isNull() | F.col(_PARSED).getField(_CORRUPT).isNotNull()
    if options.value == "json":  # of an array from_json would take the first element and forget the others
        unread |= F.ltrim(text).startswith("[")
    wrong = F.lit(f"the value is no {options.value.upper()} of the declared columns")
    return parsed, F.when(unread, wrong)


def _parsed_avro(stream: Stream, options: KafkaOptions, base: Path) -> tuple[SparkColumn, SparkColumn]:
    from pyspark.sql.avro.functions import from_avro

    settings = dict(options.decoder)
    written = _avro_schema(stream, settings, base)
    skipped = int(settings.pop("skip_bytes", "0"))
    value = F.expr(f"substring({RAW}.value, {skipped + 1})") if skipped else _raw("value")
    # An unreadable value comes back as a record of NULLs. A field with a default distinguishes the two.
    read = {**written, "fields": [*written["fields"], {"name": _READ, "type": "boolean", "default": True}]}
    parsed = from_avro(
        value, json.dumps(written), {**settings, "mode": "PERMISSIVE", "avroSchema": json.dumps(read)}
    )
    unread = F.col(_PARSED).isNull() | F.col(_PARSED).getField(_READ).isNull()
    return parsed, F.when(unread, F.lit("the value is no Avro of the given schema"))


def _avro_schema(stream: Stream, settings: dict[str, str], base: Path) -> dict[str, list[object]]:
    """The schema that values are written in, taken out of the settings."""
    text, file = settings.pop("schema", None), settings.pop("schema_file", None)
    if (text is None) == (file is None):
        raise ConfigurationError(
            f"stream {stream.name}: Avro values need their schema, once: 'value.schema_file' = 'name.avsc' "
            "or 'value.schema' = '{...}'"
        )
    try:
        schema = json.loads(text if text is not None else (base / str(file)).read_text())
    except OSError as error:
        raise ConfigurationError(
            f"stream {stream.name}: the Avro schema {file} cannot be read: {error.strerror}"
        ) from None
    except ValueError as error:
        raise ConfigurationError(f"stream {stream.name}: the Avro schema is no JSON: {error}") from None
    if not isinstance(schema, dict) or schema.get("type") != "record" or not schema.get("fields"):
        raise ConfigurationError(f"stream {stream.name}: the Avro schema must be a record with fields")
    return schema


def _check_avro(frame: DataFrame, stream: Stream, inside: list[Column]) -> None:
    """Refuses a declaration that the Avro schema does not meet."""
    held = {field.name: field.dataType.simpleString() for field in frame.select(f"{_PARSED}.*").schema.fields}
    for column in inside:
        if held.get(column.name) != column.type:
            instead = f"makes it {held[column.name]}" if column.name in held else "has no such field"
            raise DataError(
                f"stream {stream.name}: column {column.name} is declared {column.type}, "
                f"but its Avro schema {instead}"
            )

"""Messages into tuples, and which are malformed; no broker is needed for that."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from watersmeet.errors import WatersmeetError
from watersmeet.plan.explain import explain_plan
from watersmeet.plan.physical import plan_physical
from watersmeet.query import UNBOUNDED, Column, Connector, Input, JoinGraph, Query, Stream
from watersmeet.spark.jobs.dead_letters import dead_letters
from watersmeet.spark.session.kafka_options import sink_options, source_options
from watersmeet.spark.sources.kafka import REASON, decode_messages, read_messages, well_formed

MESSAGE = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, "
    "timestampType int, headers array<struct<key:string,value:binary>>"
)
COLUMNS = (Column("dest", "string"), Column("size", "bigint"))
WHERE = {"bootstrap": "h:9092", "topic": "t"}
NOON = datetime(2025, 1, 1, 12)


def stream(columns: tuple[Column, ...] = COLUMNS, **options: str) -> Stream:
    return Stream("s1", columns, source=Connector("kafka", tuple({**WHERE, **options}.items())))


def messages(spark: SparkSession, *values: bytes | None, **rest: Any) -> DataFrame:
    rows = [
        (rest.get("key"), value and bytearray(value), "t", 0, offset, NOON, 0, rest.get("headers"))
        for offset, value in enumerate(values)
    ]
    return spark.createDataFrame(rows, MESSAGE)


def decode(frame: DataFrame, declared: Stream, base: Path = Path()) -> DataFrame:
    assert declared.source is not None
    return decode_messages(frame, declared, source_options("stream s1", declared.source), base)


def reasons(decoded: DataFrame) -> list[str | None]:
    return [row[0] for row in decoded.select(REASON).collect()]


def test_json_values_are_tuples_and_all_else_is_malformed(spark: SparkSession) -> None:
    values = [
        b'{"size": 5, "dest": "x", "more": 1}',
        b'{"dest": "y"}',
        b"{}",
        b'{"dest": "x", "size": "many"}',
        b'{"dest": "x", "size": 1.5}',
        b'{"dest": "x"',
        b"[1]",
        b' [{"dest": "a"}, {"dest": "b"}]',
        b"hello",
        b"",
        b"null",
        b"\xff\xfe",
        None,
    ]
    decoded = decode(messages(spark, *values), stream())
    found = reasons(decoded)
    assert found[:3] == [None, None, None]
    assert set(found[3:-1]) == {"the value is no JSON of the declared columns"}
    assert found[-1] == "there is no value"
    rows = [tuple(row) for row in well_formed(decoded, stream()).collect()]
    assert rows == [("x", 5), ("y", None), (None, None)]


def test_csv_values_with_options_of_the_format(spark: SparkSession) -> None:
    declared = stream(value="csv", **{"value.sep": ";"})
    decoded = decode(messages(spark, b"x;5", b"y;many", b"y", b"x;5;6", None), declared)
    assert [reason is None for reason in reasons(decoded)] == [True, False, False, False, False]
    assert [tuple(row) for row in well_formed(decoded, declared).collect()] == [("x", 5)]


@pytest.mark.connectors
def test_avro_values_by_the_schema_they_are_written_in(spark: SparkSession, tmp_path: Path) -> None:
    from pyspark.sql.avro.functions import to_avro

    fields = [{"name": "dest", "type": ["null", "string"]}, {"name": "size", "type": ["null", "long"]}]
    schema = json.dumps({"type": "record", "name": "packet", "fields": fields})
    (tmp_path / "packet.avsc").write_text(schema)
    written = spark.createDataFrame([("x", 5), (None, None)], "dest string, size bigint").coalesce(1)
    encoded = [bytes(row[0]) for row in written.select(to_avro(F.struct("*"), schema)).collect()]
    registered = [b"\x00\x00\x00\x00\x07" + value for value in encoded]  # as behind a schema registry
    declared = stream(value="avro", **{"value.schema_file": "packet.avsc", "value.skip_bytes": "5"})
    decoded = decode(messages(spark, *registered, b"\x00\x00\x00\x00\x07\x04", None), declared, tmp_path)
    assert reasons(decoded) == [
        None,
        None,
        "the value is no Avro of the given schema",
        "there is no value",
    ]
    assert [tuple(row) for row in well_formed(decoded, declared).collect()] == [("x", 5), (None, None)]
    wrong = stream(
        (Column("dest", "string"), Column("size", "int")), value="avro", **{"value.schema": schema}
    )
    with pytest.raises(WatersmeetError, match="size is declared int, but its Avro schema makes it bigint"):
        decode(messages(spark), wrong)


def test_kafka_has_columns_of_its_own(spark: SparkSession) -> None:
    columns = (
        Column("kafka_key", "bigint"),
        Column("kafka_timestamp", "timestamp"),
        Column("kafka_offset", "bigint"),
        Column("kafka_headers", "map<string,string>"),
        Column("kafka_value", "string"),
    )
    headers = [("a", bytearray(b"1")), ("b", None), ("a", bytearray(b"2"))]
    frame = messages(spark, b"raw", key=bytearray(b"7"), headers=headers)
    [row] = well_formed(decode(frame, stream(columns)), stream(columns)).collect()
    assert tuple(row) == (7, NOON, 0, {"a": "2", "b": None}, "raw")
    [nothing] = well_formed(decode(messages(spark, None), stream(columns)), stream(columns)).collect()
    assert tuple(nothing) == (None, NOON, 0, None, None)
    bad = decode(messages(spark, b"raw", key=bytearray(b"x")), stream(columns))
    assert reasons(bad) == ["the key is no bigint"]


def test_a_dead_letter_is_the_message_with_why_and_where(spark: SparkSession) -> None:
    decoded = decode(messages(spark, b'{"dest": "x"}', b"bad", key=bytearray(b"k")), stream())
    [row] = dead_letters(decoded, stream(), "parquet").collect()
    assert row.asDict() == {
        "answer_id": "s1-t-0-1",
        "stream": "s1",
        "reason": "the value is no JSON of the declared columns",
        "topic": "t",
        "partition": 0,
        "offset": 1,
        "timestamp": NOON,
        "key": bytearray(b"k"),
        "value": bytearray(b"bad"),
    }
    [sent] = dead_letters(decoded, stream(), "kafka").collect()
    assert (bytes(sent.key), bytes(sent.value)) == (b"k", b"bad")
    assert {h.key: bytes(h.value).decode() for h in sent.headers} == {
        "watersmeet-stream": "s1",
        "watersmeet-reason": "the value is no JSON of the declared columns",
        "watersmeet-from": "t-0-1",
    }


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        (stream((Column("kafka_offset", "int"),)), "kafka_offset is declared int; it can be bigint"),
        (stream((Column("kafka_ofset", "int"),)), "Kafka has no kafka_ofset; it has kafka_key, "),
        (stream(mode="DROPMALFORMED"), "malformed messages never stop a Kafka stream: leave mode out"),
        (stream(value="xml"), "stream s1: value = 'xml' is none of json, csv, avro"),
        (Stream("s1", COLUMNS, source=Connector("kafka", (("topic", "t"),))),
         r"stream s1 \(format kafka\): add bootstrap = 'host:9092'"),
        (Stream("s1", COLUMNS, source=Connector("kafka", (("bootstrap", "h"),))),
         r"stream s1 \(format kafka\): add topic = 'name'"),
        (stream(subscribePattern="t.*"), "subscribe and subscribePattern contradict each other"),
        (stream(value="avro"), "Avro values need their schema, once: 'value.schema_file'"),
        (stream(value="avro", **{"value.schema": "{"}), "the Avro schema is no JSON: "),
        (stream(value="avro", **{"value.schema": '"long"'}), "must be a record with fields"),
        (stream(value="avro", **{"value.schema_file": "no.avsc"}), "no.avsc cannot be read: No such file"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_so_is_refused(spark: SparkSession, declared: Stream, message: str) -> None:
    with pytest.raises(WatersmeetError, match=message):
        decode(messages(spark), declared)


def test_options_are_sorted_by_who_wants_to_know() -> None:
    options = source_options(
        "stream s",
        Connector("kafka", (("bootstrap", "h"), ("topic", "a,b"), ("startingOffsets", "earliest"),
                            ("maxOffsetsPerTrigger", "10"), ("kafka.security.protocol", "SSL"),
                            ("dead_letters", "d"), ("value", "CSV"), ("value.sep", "|"))),
    )  # fmt: skip
    assert options.connector == {
        "kafka.bootstrap.servers": "h",
        "subscribe": "a,b",
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": "10",
        "kafka.security.protocol": "SSL",
        "includeHeaders": "true",
    }
    assert (options.value, options.decoder) == ("csv", {"sep": "|"})
    assert options.for_batch() == {
        "kafka.bootstrap.servers": "h", "subscribe": "a,b", "kafka.security.protocol": "SSL",
        "includeHeaders": "true",
    }  # fmt: skip
    sink = sink_options("sink o", Connector("kafka", (("bootstrap", "h"), ("topic", "o"), ("key", "k"))))
    assert (sink.connector, sink.key) == ({"kafka.bootstrap.servers": "h", "topic": "o"}, "k")


@pytest.mark.connectors
def test_secrets_reach_the_connector_and_no_plan_of_sparks_or_ours(spark: SparkSession) -> None:
    login = 'org.apache.kafka.common.security.plain.PlainLoginModule required password="hunter2";'
    declared = stream(**{"kafka.sasl.jaas.config": login, "kafka.ssl.key.password": "hunter3"})
    assert declared.source is not None
    assert source_options("stream s1", declared.source).connector["kafka.sasl.jaas.config"] == login
    frame = well_formed(read_messages(spark, declared, Path()), declared)
    plan: Any = frame._jdf.queryExecution()
    assert "jaas" in plan.toString()
    query = Query((Input("a", declared, UNBOUNDED),), JoinGraph(("a",), ()), ())
    shown = explain_plan(plan_physical(query, 2))
    assert "s1 from kafka (bootstrap = 'h:9092', topic = 't', kafka.sasl.jaas.config = '***'" in shown
    assert "hunter" not in plan.toString() + shown


def test_a_message_from_the_far_future_is_a_dead_letter_with_its_reason(spark: SparkSession) -> None:
    columns = (*COLUMNS, Column("ts", "timestamp"))
    declared = replace(stream(columns), event_time="ts")
    values = [
        b'{"dest": "x", "ts": "%s"}' % when for when in (b"2020-01-01T00:00:00Z", b"3000-01-01T00:00:00Z")
    ]
    decoded = decode(messages(spark, *values, b'{"dest": "x"}', b"hello"), declared)
    found = {row["offset"]: row["reason"] for row in dead_letters(decoded, declared, "parquet").collect()}
    assert found == {
        1: "its event time is more than 1 d ahead",
        3: "the value is no JSON of the declared columns",
    }
    patient = replace(declared, max_ahead_us=None)
    assert [row["offset"] for row in dead_letters(decoded, patient, "parquet").collect()] == [3]


def test_messages_that_are_held_back_do_not_go_with_idle_after(spark: SparkSession) -> None:
    declared = replace(stream(minOffsetsPerTrigger="1000"), idle_after_us=1)
    with pytest.raises(WatersmeetError, match="minOffsetsPerTrigger holds messages back"):
        read_messages(spark, declared, Path())

"""Answers on their way from blobs to rows."""

from __future__ import annotations

import json
from collections import Counter
from decimal import Decimal

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from watersmeet.kernel import ANSWER_TS, QUERY
from watersmeet.plan.multiquery.plan_dataflow import Registered, plan_dataflow
from watersmeet.query import ANSWER_TIME, Column, Stream
from watersmeet.query.shared_dataflow import QueryTail, SharedDataflow
from watersmeet.spark.exchange.packed_chunk import encode
from watersmeet.spark.multiquery.answers import AnswerDecoder, UnpackReady, as_json, declared_types
from watersmeet.spark.multiquery.fill import some_of_each
from watersmeet.spark.multiquery.ship import ship_inline
from watersmeet.spark.multiquery.sinks import NAME
from watersmeet.sql import bind_query

DATAFLOW = SharedDataflow(
    levels=1,
    streams=("s",),
    tails=(
        QueryTail(query="one", number=4, join="j", streams=("s",), slots=()),
        QueryTail(query="other", number=7, join="j", streams=("s",), slots=()),
    ),
)


def unpacked(unpack: UnpackReady, columns: dict[str, pa.Array]) -> list[dict[str, object]]:
    blob = encode(pa.RecordBatch.from_pydict(columns))
    rows = unpack(iter([pa.RecordBatch.from_pydict({"chunk": pa.array([blob], pa.binary())})]))
    return [row for batch in rows for row in batch.to_pylist()]


def answers() -> dict[str, pa.Array]:
    return {
        QUERY: pa.array([7, 4, 9], pa.int32()),
        "V": pa.array([1, 2, 3]),
        "k": pa.array(["x", None, "z"]),
        ANSWER_TS: pa.array([5, 6, 7]),
    }


def test_columns_come_in_the_order_and_spelling_of_the_sink() -> None:
    unpack = UnpackReady(ship_inline(DATAFLOW), frozenset([4, 7]), ("k", "v"))
    assert unpacked(unpack, answers()) == [
        {"query": "other", "k": "x", "v": 1},
        {"query": "one", "k": None, "v": 2},
    ]


def test_answers_as_json_keep_their_own_names_and_nulls() -> None:
    rows = unpacked(UnpackReady(ship_inline(DATAFLOW), frozenset([4])), answers())
    assert [(row["query"], row["answer"]) for row in rows] == [("one", '{"V": 2, "k": null}')]


def test_times_of_any_year_are_written_as_spark_writes_them() -> None:
    instants = [-219935606400000000, -(2**63), -1, None, 253402300800000000, 2**63 - 1]
    days = [-3000000, 0, None, -719162, 2932897, 2**31 - 1]
    rows = pa.table({"t": pa.array(instants, pa.timestamp("us", "UTC")), "d": pa.array(days, pa.date32())})
    assert [tuple(json.loads(text).values()) for text in as_json(rows.to_batches()[0])] == [
        ("-5000-07-09T00:00:00.000000Z", "-6244-04-12"),
        ("-290308-12-21T19:59:05.224192Z", "1970-01-01"),
        ("1969-12-31T23:59:59.999999Z", None),
        (None, "0001-01-01"),
        ("+10000-01-01T00:00:00.000000Z", "+10000-01-01"),
        ("+294247-01-10T04:00:54.775807Z", "+5881580-07-11"),
    ]


def test_columns_that_only_spark_can_write_as_json_reach_it(spark: SparkSession) -> None:
    """Decimals and numbers with a point, of a query that leaves nothing else to Spark."""
    columns = (Column("price", "decimal(10,2)"), Column("ratio", "double"), Column("ts", "timestamp"))
    streams = [Stream("s", columns, "ts")]
    query = bind_query("SELECT DISTINCT a.ratio AS r, a.price, answer_time AS t FROM s AS a", streams)
    dataflow = plan_dataflow([Registered("q", 0, query)], streams, 2)
    decoder = AnswerDecoder(ship_inline(dataflow), {0: query}, declared_types(streams))
    found = {
        QUERY: pa.array([0, 0], pa.int32()),
        "r": [0.5, None],
        "price": pa.array([Decimal("1.50"), Decimal(7)], pa.decimal128(10, 2)),
        "t": pa.array([5, 6], pa.timestamp("us", "UTC")),
        ANSWER_TS: [5, 6],
    }
    blob = bytearray(encode(pa.RecordBatch.from_pydict(found)))
    blobs = spark.createDataFrame([("0", 2, blob)], "source string, rows int, chunk binary")
    rows = decoder.rows(blobs, {"0"}, frozenset([0]), as_json=True)
    assert rows is not None
    assert [row["answer"] for row in rows.collect()] == [
        '{"r":0.5,"price":1.50,"t":"1970-01-01T00:00:00.000005Z"}',
        '{"r":null,"price":7.00,"t":"1970-01-01T00:00:00.000006Z"}',
    ]


def test_a_query_with_many_answers_leaves_room_for_the_tails_of_others(spark: SparkSession) -> None:
    texts = [("chatty", str(number)) for number in range(500)] + [("quiet", "1"), ("quiet", "2")]
    rows = spark.createDataFrame(texts, f"{NAME} string, answer string")
    long_ago = F.expr("timestamp_seconds(-219935606400)").alias(ANSWER_TIME)  # no time of Python's
    shown = some_of_each(rows.select("*", long_ago), 10).collect()
    assert Counter(row[NAME] for row in shown) == {"chatty": 10, "quiet": 2}
    assert shown[0].asDict().keys() == {NAME, "answer"}

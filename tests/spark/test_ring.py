"""Many queries in one dataflow: each gets exactly the oracle's answers."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tests.spark.pipelines import random_batches, write_case
from watersmeet import Session, oracle
from watersmeet.oracle import MicroBatch
from watersmeet.query import Query
from watersmeet.sql import bind_query, parse_pipeline

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
A, B, C = "s1 [RANGE 4 SECONDS]", "s2 [RANGE 3 SECONDS]", "s3 [TUMBLE 6 SECONDS]"
THREE = f"FROM {A} AS a, {B} AS b, {C} AS c WHERE"
SAME = f"{THREE} a.k = b.k AND b.k = c.k"
QUERIES = {
    "same": f"SELECT a.k, a.v AS va, b.v AS vb, c.v AS vc, answer_time {SAME}",
    "same_but_5": f"SELECT a.k, c.v {SAME} AND a.v = 5",
    "same_but_6": f"SELECT a.k, c.v {SAME} AND a.v = 6",
    "range": f"SELECT c.v {SAME} AND a.v < b.v AND c.v >= 3",
    "evaluated": f"SELECT a.v + b.v AS total, c.k % 3 AS third {SAME} AND a.v + c.v > 6",
    "chain": f"SELECT a.v AS va, b.v AS vb, c.k AS kc, answer_time AS t {THREE} a.k = b.k AND b.v = c.v",
    "chain_of_sums": f"SELECT a.v AS va, c.k AS kc {THREE} a.k + 1 = b.k AND b.v = c.v AND b.v > 2",
    "cycle": f"SELECT a.k, c.v {THREE} a.k = b.k AND b.v = c.v AND c.k = a.v",
    "pair": f"SELECT x.k, y.v FROM {B} AS x, {C} AS y WHERE x.v = y.v AND x.k = y.k",
    "self": f"SELECT x.v AS vx, y.v AS vy FROM {A} AS x, {A} AS y WHERE x.k = y.k",
    "alone": f"SELECT k, v FROM {B} WHERE v = 7",
}


def expected(query: Query, batches: list[MicroBatch]) -> Counter[tuple[Any, ...]]:
    """What the oracle says, times as JSON has them."""
    times = [output.expr.uses_answer_time for output in query.select]
    rows = oracle.run(query, batches).rows
    return oracle.bag(tuple(instant(v) if t else v for v, t in zip(row, times, strict=True)) for row in rows)


def instant(microseconds: int) -> str:
    return (EPOCH + timedelta(microseconds=microseconds)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def test_queries_of_a_session_share_a_dataflow(spark: SparkSession, tmp_path: Path) -> None:
    case = write_case(tmp_path, QUERIES["same"], random_batches(3, count=4))
    session = Session(spark)
    streams = parse_pipeline(case.file.read_text()).streams
    for stream in streams:
        reader = spark.readStream.schema("k bigint, v bigint, ts timestamp").option("maxFilesPerTrigger", 1)
        session.stream(
            stream.name, reader.parquet(str(tmp_path / stream.name)), event_time="ts", lateness="2 s"
        )
    writer = session.queries(QUERIES).writeStream.format("parquet").trigger(availableNow=True)
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    writer.start(str(tmp_path / "answers")).awaitTermination()
    rows = spark.read.parquet(str(tmp_path / "answers")).collect()
    for name, text in QUERIES.items():
        found = [tuple(json.loads(row["answer"]).values()) for row in rows if row["query"] == name]
        want = expected(bind_query(text, streams), case.batches)
        assert want, f"{name} without answers proves nothing"
        assert oracle.bag(found) == want, name

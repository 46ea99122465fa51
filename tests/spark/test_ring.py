"""Many queries in one dataflow: each gets exactly the oracle's answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tests.spark.pipelines import random_batches, write_case
from watersmeet import Session, oracle
from watersmeet.oracle import MicroBatch
from watersmeet.query import Query
from watersmeet.sql import bind_query, parse_pipeline

WINDOWS = "s1 [RANGE 4 SECONDS] AS a, s2 [RANGE 3 SECONDS] AS b, s3 [TUMBLE 6 SECONDS] AS c"
QUERIES = {
    "same": f"SELECT a.k, a.v AS va, b.v AS vb, c.v AS vc, answer_time FROM {WINDOWS} WHERE a.k = b.k AND b.k = c.k",
    "same_but_5": f"SELECT a.k, c.v FROM {WINDOWS} WHERE a.k = b.k AND b.k = c.k AND a.v = 5",
    "same_but_6": f"SELECT a.k, c.v FROM {WINDOWS} WHERE a.k = b.k AND b.k = c.k AND a.v = 6",
    "range": f"SELECT c.v FROM {WINDOWS} WHERE a.k = b.k AND b.k = c.k AND a.v < b.v AND c.v >= 3",
    "evaluated": f"SELECT a.v + b.v AS total, upper(hex(c.k)) AS k FROM {WINDOWS} "
    "WHERE a.k = b.k AND b.k = c.k AND a.v + c.v > 6",
    "chain": f"SELECT a.v AS va, b.v AS vb, c.k AS kc, answer_time AS t FROM {WINDOWS} WHERE a.k = b.k AND b.v = c.v",
    "chain_of_sums": f"SELECT a.v AS va, c.k AS kc FROM {WINDOWS} WHERE a.k + 1 = b.k AND b.v = c.v AND b.v > 2",
    "cycle": f"SELECT a.k, c.v FROM {WINDOWS} WHERE a.k = b.k AND b.v = c.v AND c.k = a.v",
    "pair": "SELECT x.k, y.v FROM s2 [RANGE 3 SECONDS] AS x, s3 [TUMBLE 6 SECONDS] AS y WHERE x.v = y.v AND x.k = y.k",
    "self": "SELECT x.v AS vx, y.v AS vy FROM s1 [RANGE 4 SECONDS] AS x, s1 [RANGE 4 SECONDS] AS y WHERE x.k = y.k",
    "alone": "SELECT k, v FROM s2 [RANGE 3 SECONDS] WHERE v = 7",
}


def plain(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(
        value.strftime("%Y-%m-%dT%H:%M:%S.%fZ") if hasattr(value, "strftime") else value for value in row
    )


def expected(query: Query, batches: list[MicroBatch]) -> list[tuple[Any, ...]]:
    return oracle.bag([plain(row) for row in oracle.run(query, batches).rows])


def test_queries_of_a_session_share_a_dataflow(spark: SparkSession, tmp_path: Path) -> None:
    case = write_case(tmp_path, "SELECT a.k FROM s1 AS a", random_batches(3, count=4))
    session = Session(spark)
    streams = parse_pipeline(case.file.read_text()).streams
    for stream in streams:
        reader = spark.readStream.schema("k bigint, v bigint, ts timestamp").option("maxFilesPerTrigger", 1)
        session.stream(
            stream.name, reader.parquet(str(tmp_path / stream.name)), event_time="ts", lateness="2 s"
        )
    writer = session.queries(QUERIES).writeStream.format("parquet").trigger(availableNow=True)
    writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start(
        str(tmp_path / "answers")
    ).awaitTermination()
    rows = spark.read.parquet(str(tmp_path / "answers")).collect()
    for name, text in QUERIES.items():
        found = [tuple(json.loads(row["answer"]).values()) for row in rows if row["query"] == name]
        want = expected(bind_query(text, streams), case.batches)
        assert want, f"{name} without answers proves nothing"
        assert oracle.bag(found) == want, name

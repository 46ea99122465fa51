"""Many queries in one dataflow: each gets exactly the oracle's answers."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.spark.pipelines import Case, arrive, random_batches, write_case
from watersmeet import Session, oracle
from watersmeet.oracle.oracle import MicroBatch
from watersmeet.plan.multiquery.plan_dataflow import Registered, plan_dataflow
from watersmeet.query import (
    NEVER,
    Query,
)
from watersmeet.query.shared_dataflow import SharedDataflow
from watersmeet.spark.jobs.job import RunOptions
from watersmeet.spark.jobs.shared_job import SharedJob
from watersmeet.spark.sources.read_sources import read_sources
from watersmeet.sql import bind_query, parse_pipeline

SINKS = """
CREATE SINK typed WITH (format = 'parquet', path = 'typed');
CREATE SINK wide WITH (format = 'json', path = 'wide');
CREATE SINK mixed WITH (format = 'parquet', path = 'mixed', answers = 'json');
"""

INTO = {"evaluated": "wide", "same": "typed"}  # all others into mixed
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


def dataflow_job(
    spark: SparkSession,
    case: Case,
    texts: Mapping[str, tuple[str, int, int]],
    kept: SharedDataflow | None = None,
    *,
    sinks: str = SINKS,
    into: Mapping[str, str] = INTO,
) -> SharedJob:
    """The job of a case's streams; `texts` has each query with its batches [since, until)."""
    pipeline = parse_pipeline(case.file.read_text() + sinks)
    registered = [
        Registered(name, number, bind_query(text, pipeline.streams), since, until)
        for number, (name, (text, since, until)) in enumerate(texts.items())
    ]
    registered = [replace(r, query=replace(r.query, sink=into.get(r.name, "mixed"))) for r in registered]
    dataflow = plan_dataflow(registered, pipeline.streams, 2, kept=kept)
    return SharedJob(
        spark=spark,
        dataflow=dataflow,
        queries={r.number: r.query for r in registered},
        pipeline=pipeline,
        sources=read_sources(spark, pipeline.streams, case.folder),
        folder=str(case.folder / "flow"),
        base=case.folder,
        dataflow_id="ab12",
        partitions=2,
        options=RunOptions(available_now=True),
    )


def run_to_end(job: SharedJob) -> None:
    job.start()
    while job.is_running():
        time.sleep(0.1)
    job.poll()


@pytest.mark.variant  # they come and go in a served dataflow too
def test_queries_come_and_go_between_runs(spark: SparkSession, tmp_path: Path) -> None:
    case = write_case(tmp_path, QUERIES["same"], random_batches(5, count=6), arrived=2)
    first = {"same": (QUERIES["same"], 0, NEVER), "chain": (QUERIES["chain"], 0, NEVER)}
    job = dataflow_job(spark, case, first)
    run_to_end(job)
    arrive(case, [2, 3, 4, 5])
    second = first | {"chain": (QUERIES["chain"], 0, 2)}
    second |= {name: (text, 2, NEVER) for name, text in QUERIES.items() if name not in first}
    job = dataflow_job(spark, case, second, job.dataflow)
    run_to_end(job)
    assert job.progress is not None
    assert job.progress.totals.rows == 480

    streams = parse_pipeline(case.file.read_text()).streams
    mixed = spark.read.parquet(str(tmp_path / "mixed")).collect()
    for name, (text, since, until) in second.items():
        query = bind_query(text, streams)
        if name == "same":
            typed = spark.read.parquet(str(tmp_path / "typed"))
            assert typed.columns == ["query", "k", "va", "vb", "vc", "answer_time"]
            rows = typed.selectExpr("k", "va", "vb", "vc", "unix_micros(answer_time)").collect()
            assert oracle.bag(rows) == oracle.bag(oracle.run(query, case.batches).rows)
            continue
        if name == "evaluated":
            rows = spark.read.json(str(tmp_path / "wide")).select("query", "total", "third").collect()
            found = [tuple(row)[1:] for row in rows]
        else:
            found = [tuple(json.loads(row["answer"]).values()) for row in mixed if row["query"] == name]
        assert oracle.bag(found) == expected(query, midway(case.batches, since, until)), name


def midway(batches: list[MicroBatch], since: int, until: int) -> list[MicroBatch]:
    """The batches a query sees: none of these tuples is late, whenever it came."""
    return [batch if since <= number < until else {} for number, batch in enumerate(batches)]

"""DISTINCT and aggregates in a shared dataflow on Spark: each query gets exactly the oracle's answers."""

from __future__ import annotations

import json
from pathlib import Path

from pyspark.sql import SparkSession

from tests.spark.multiquery.test_shared_dataflow import (
    QUERIES,
    SAME,
    dataflow_job,
    expected,
    midway,
    run_to_end,
)
from tests.spark.pipelines import arrive, random_batches, write_case
from watersmeet import oracle
from watersmeet.query import NEVER
from watersmeet.sql import bind_query, parse_pipeline

SINKS = """
CREATE SINK grouped WITH (format = 'parquet', path = 'grouped');
CREATE SINK parts WITH (format = 'parquet', path = 'parts');
CREATE SINK mixed WITH (format = 'parquet', path = 'mixed', answers = 'json');
"""
INTO = {"groups": "grouped", "parts": "parts"}  # all others into mixed
FIRST = {
    "total": f"SELECT sum(a.v) AS total, answer_time AS tick {SAME}",
    "values": f"SELECT DISTINCT a.k, c.v {SAME}",
    "parts": f"SELECT DISTINCT a.k, c.v % 4 AS part {SAME} AND a.v + c.v > 3",
    "groups": f"SELECT a.k, count(*) AS n, count(DISTINCT c.v) AS kinds {SAME} AND a.v + c.v > 3 "
    "GROUP BY a.k HAVING count(*) > 1 EMIT EVERY 1 SECOND",
}
SECOND = {
    "thirds": f"SELECT DISTINCT b.v % 3 AS third, answer_time AS t {SAME} AND a.v = 5",
}


def test_tails_of_queries_that_come_and_go(spark: SparkSession, tmp_path: Path) -> None:
    case = write_case(tmp_path, QUERIES["same"], random_batches(5, count=4), arrived=2)
    first = {name: (text, 0, NEVER) for name, text in FIRST.items()}
    job = dataflow_job(spark, case, first, sinks=SINKS, into=INTO)
    run_to_end(job)
    arrive(case, [2, 3])
    second = first | {name: (text, 2, NEVER) for name, text in SECOND.items()}
    second["values"] = (FIRST["values"], 0, 2)
    run_to_end(dataflow_job(spark, case, second, job.dataflow, sinks=SINKS, into=INTO))

    streams = parse_pipeline(case.file.read_text()).streams
    mixed = spark.read.parquet(str(tmp_path / "mixed")).collect()
    typed = {name: spark.read.parquet(str(tmp_path / sink)) for name, sink in INTO.items()}
    assert typed["groups"].columns == ["query", "k", "n", "kinds"]
    for name, (text, since, until) in second.items():
        found = [tuple(json.loads(row["answer"]).values()) for row in mixed if row["query"] == name]
        if name in typed:
            found = [tuple(row) for row in typed[name].drop("query").collect()]
        want = expected(bind_query(text, streams), midway(case.batches, since, until)[:until])
        assert want, f"{name} without answers proves nothing"
        assert oracle.bag(found) == want, name

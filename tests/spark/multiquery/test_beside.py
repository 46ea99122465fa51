"""A served folder with queries that cannot share the dataflow: each has the oracle's answers, once."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.spark.beside import own_batches
from tests.spark.multiquery.test_failing_queries import serve_to_end
from tests.spark.pipelines import Case, arrive, random_batches, write_case
from watersmeet.oracle import oracle
from watersmeet.serve.create_dataflow import CreationOptions, create_dataflow
from watersmeet.serve.registry.changes import ChangePlanner
from watersmeet.serve.registry.folder import RegistryFolder
from watersmeet.serve.registry.listing import list_queries
from watersmeet.serve.registry.record import Registration, require_record
from watersmeet.serve.registry.requests import Drop, Submit, send
from watersmeet.serve.spark_engine import AnswerCheck
from watersmeet.spark.multiquery.check import SparkCheck

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
PAIR = "FROM s1 [{}] AS a, s2 [RANGE 3 SECONDS] AS b WHERE a.k = b.k"
SHARED = f"SELECT a.k, a.v AS va, b.v AS vb {PAIR.format('RANGE 4 SECONDS')}"
ROWS = f"SELECT a.k, a.v AS va, b.v AS vb {PAIR.format('ROWS 15')}"
VIEW = (
    "SELECT a.k, a.v AS va, b.v AS vb FROM big [RANGE 4 SECONDS] AS a, big [RANGE 4 SECONDS] AS b "
    "WHERE a.k = b.k"
)
LEFT = (
    "SELECT a.k, a.v + 1 AS va, b.v AS vb, answer_time AS t FROM s1 [RANGE 2 SECONDS] AS a "
    "LEFT JOIN s2 [RANGE 1 SECOND] AS b ON a.k = b.k AND b.v > 8"
)
VALUES = f"SELECT DISTINCT a.k, b.v % 3 AS third {PAIR.format('ROWS 15')}"
SUMS = (
    "SELECT a.k, count(b.k) AS n, answer_time AS t FROM s1 [RANGE 2 SECONDS] AS a "
    "LEFT JOIN s2 [RANGE 1 SECOND] AS b ON a.k = b.k AND b.v > 8 GROUP BY a.k EMIT EVERY 1 SECOND"
)
TEXTS = {"left": LEFT, "values": VALUES, "sums": SUMS}
DECLARED = """
CREATE VIEW big AS SELECT k, v * 10 AS v, ts FROM s2 WHERE v > 3;
CREATE SINK texts WITH (format = 'parquet', path = 'texts', answers = 'json');
"""


def expected(case: Case, flow: RegistryFolder, query: Registration) -> Any:
    bound = require_record(flow).bind(query.sql, query.name)
    brought = own_batches(case, flow.path, query.number, query.since, bound)
    assert sum(len(rows) for batch in brought for rows in batch.values()) > 100
    return bound, oracle.bag(oracle.run(bound, brought).rows)


@pytest.mark.parametrize(
    "texts",
    [("left",), pytest.param(("left", "values", "sums"), marks=pytest.mark.variant)],
    ids=["joins", "values and groups too"],
)
def test_answers_are_those_of_the_oracle_whether_queries_share_the_dataflow_or_not(
    spark: SparkSession, tmp_path: Path, texts: tuple[str, ...]
) -> None:
    case = write_case(tmp_path, SHARED, random_batches(8, count=5, keys=8), derived=DECLARED, arrived=2)
    case.file.write_text(f"{case.file.read_text()}-- name: rows\nINSERT INTO out {ROWS};\n")
    flow = RegistryFolder(tmp_path / "flow")
    create_dataflow(
        flow,
        CreationOptions(case.file, levels=1),
        partitions=2,
        infer=lambda stream: (),
        planner=ChangePlanner(AnswerCheck(SparkCheck(spark))),
        newest=lambda checkpoint: -1,
    )
    serve_to_end(spark, flow)
    first, rows = require_record(flow).queries
    assert (first.beside, rows.since) == (None, 0)
    want = {rows.name: expected(case, flow, rows)}

    asked = (
        ("view", f"INSERT INTO out {VIEW}"),
        *((name, f"INSERT INTO texts {TEXTS[name]}") for name in texts),
    )
    send(flow, Drop(("rows",)))
    send(flow, Submit(asked))
    arrive(case, range(2, 5))
    serve_to_end(spark, flow)
    record = require_record(flow)
    assert record.failed == {}
    assert {query.since for query in record.beside.values()} == {2}
    assert {int(path.name) for path in (flow.path / "beside").iterdir()} == set(record.beside)
    want |= {query.name: expected(case, flow, query) for query in record.beside.values()}
    reasons = {query.name: query.beside for query in list_queries(flow).queries}
    assert (reasons[first.name], reasons["view"]) == (None, "a is a view")
    assert reasons["left"] == "it has outer, semi or anti joins"

    out = spark.read.parquet(str(tmp_path / "out"))
    assert sorted(out.columns) == ["k", "query", "va", "vb"]
    want[first.name] = case.query, oracle.bag(oracle.run(case.query, case.batches).rows)
    for name in (first.name, "rows", "view"):
        found = out.where(f"query = '{name}'").select("k", "va", "vb").collect()
        assert found, f"{name} without answers proves nothing"
        assert oracle.bag(map(tuple, found)) == want[name][1], name
    check_texts(spark, tmp_path, {name: want[name] for name in texts})


def check_texts(spark: SparkSession, folder: Path, want: Mapping[str, Any]) -> None:
    """The sink of texts has the answers, each with its time."""
    texts = spark.read.parquet(str(folder / "texts"))
    assert sorted(texts.columns) == ["answer", "answer_time", "query"]
    for name, (query, bag) in want.items():
        rows = (
            texts.where(f"query = '{name}'").selectExpr("answer", "unix_micros(answer_time) AS t").collect()
        )
        assert rows, f"{name} without answers proves nothing"
        found = []
        for row in rows:
            answer = json.loads(row["answer"])
            assert list(answer) == [output.name for output in query.select]
            if "t" in answer:
                answer["t"] = (datetime.fromisoformat(answer["t"]) - EPOCH) // timedelta(microseconds=1)
                assert answer["t"] == row["t"]
            else:
                assert row["t"] is not None
            found.append(tuple(answer.values()))
        if name == "sums":  # Spark holds the last groups back until a batch comes after them
            newest = max(answer[2] for answer in found)
            bag = Counter({answer: count for answer, count in bag.items() if answer[2] <= newest})
        assert oracle.bag(found) == bag, name
    if "left" in want:
        assert texts.where("query = 'left' AND answer LIKE '%\"vb\":null%'").count()

"""Each query of a file keeps its own part of the checkpoint, whatever is written around it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.spark.pipelines import Case, arrive, pipeline_text, random_batches, write_case
from watersmeet.oracle import oracle
from watersmeet.query import Column, Connector, Pipeline, Sink, Stream
from watersmeet.session import Session
from watersmeet.spark.jobs.dead_letters import plan_dead_letters
from watersmeet.spark.jobs.job import RunOptions
from watersmeet.spark.jobs.pipeline_file import read_text
from watersmeet.sql import parse_pipeline

ONCE = RunOptions(available_now=True)
JOIN = "FROM s1 [RANGE 4 SECONDS] AS a, s2 [RANGE 3 SECONDS] AS b WHERE a.k = b.k"
EVEN = f"SELECT a.k, a.v AS va, b.v AS vb {JOIN} AND a.v % 2 = 0"
ODD = f"SELECT a.k, a.v AS va, b.v AS vb {JOIN} AND a.v % 2 = 1"


def _run(spark: SparkSession, case: Case) -> None:
    Session(spark).run(case.file, checkpoint=case.checkpoint, options=ONCE)


def _due(case: Case) -> Counter[Any]:
    """The oracle's answers to all queries of the case."""
    return oracle.bag([row for q in case.queries for row in oracle.run(q, case.batches).rows])


@pytest.mark.variant  # tests/spark/sinks/test_files.py shares sinks
def test_two_statements_that_share_a_sink_as_the_advice_for_union_says_and_one_more_above_them(
    spark: SparkSession, tmp_path: Path
) -> None:
    declared = pipeline_text([]) + "CREATE SINK out WITH (format = 'parquet', path = 'out');\n"
    text = f"{declared}-- name: even\nINSERT INTO out {EVEN};\n-- name: odd\nINSERT INTO out {ODD};\n"
    case = write_case(tmp_path, [], random_batches(seed=30, count=3, streams=("s1", "s2")), arrived=0)
    case = replace(case, queries=parse_pipeline(text).queries)
    case.file.write_text(text)
    arrive(case, range(2))
    _run(spark, case)
    more = f"CREATE SINK all WITH (format = 'parquet', path = 'all');\nINSERT INTO all SELECT b.v {JOIN};\n"
    case.file.write_text(declared + more + text.removeprefix(declared))  # above those that have state
    arrive(case, [2])
    _run(spark, case)
    due = _due(case)
    assert len(due) > 100
    assert oracle.bag(case.found(spark)) == due
    assert {path.name for path in case.checkpoint.iterdir() if path.is_dir()} == {"even", "odd", "all"}


def test_case_makes_no_difference_to_the_part_of_dead_letters(tmp_path: Path) -> None:
    source = Connector("kafka", (("bootstrap", "h"), ("topic", "t"), ("dead_letters", "Bad")))
    stream = Stream("s", (Column("k", "bigint"),), source=source)
    spark: Any = None
    parts = {
        letters.checkpoint
        for name in ("Bad", "bad", "BAD")
        for letters in plan_dead_letters(
            spark, Pipeline((stream,), (Sink(name, Connector("console")),)), "c", tmp_path, ONCE
        )
    }
    assert parts == {"c/dead-letters-bad"}


def test_a_pipeline_file_may_begin_with_a_mark_of_its_encoding(tmp_path: Path) -> None:
    (tmp_path / "p.sql").write_bytes("\ufeff-- gr\u00fcn\n".encode())
    assert read_text(tmp_path / "p.sql") == "-- gr\u00fcn\n"

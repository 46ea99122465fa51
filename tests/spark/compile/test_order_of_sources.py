"""Spark's checkpoint knows sources by their order: it is that of FROM, whatever reads them."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.spark.multiquery.test_shared_dataflow import dataflow_job, expected, midway, run_to_end
from tests.spark.pipelines import Case, arrive, random_batches, write_case
from watersmeet import Session, oracle
from watersmeet.kernel import StateLimit
from watersmeet.query import NEVER
from watersmeet.spark.compile.compile import Compiler
from watersmeet.spark.jobs.job import RunOptions
from watersmeet.spark.jobs.shared_job import SharedJob
from watersmeet.spark.multiquery.answer_stream import stream_answers
from watersmeet.spark.sources.parquet.folder_columns import DIRECT
from watersmeet.sql import bind_query, parse_pipeline

pytestmark = pytest.mark.slow

AMPLE = StateLimit(1 << 40)  # nothing is shed, yet packing tasks read the files
FROM = "FROM s3 [RANGE 4 SECONDS] AS a, s2 [RANGE 3 SECONDS] AS b, s1 [TUMBLE 6 SECONDS] AS c"
QUERIES = {
    "plain": f"SELECT a.v {FROM} WHERE a.k = b.k AND b.k = c.k",
    "filtered": f"SELECT a.v {FROM} WHERE a.k = b.k AND b.k = c.k AND b.v > 2",
    "expression": f"SELECT a.v {FROM} WHERE a.k + 1 = b.k AND b.k = c.k",
    "self": f"SELECT a.v {FROM}, s2 [RANGE 3 SECONDS] AS d WHERE a.k = b.k AND b.k = c.k AND c.k = d.k",
    "self filtered": f"SELECT a.v {FROM}, s2 [RANGE 3 SECONDS] AS d "
    "WHERE a.k = b.k AND b.k = c.k AND c.k = d.k AND d.v > 2",
}


@pytest.fixture
def direct(spark: SparkSession) -> Iterator[None]:
    """Whatever a test sets, files are read directly again afterwards."""
    yield
    spark.conf.unset(DIRECT)


def _slots(frame: DataFrame) -> list[str]:
    """The folders of the sources in the order of Spark's checkpoint, which knows equal relations as one."""
    execution: Any = frame._jdf
    leaves = execution.queryExecution().analyzed().collectLeaves()
    relations = [leaves.apply(number) for number in range(leaves.size())]
    distinct: list[Any] = []
    for relation in relations:
        if relation.isStreaming() and not any(relation.equals(other) for other in distinct):
            distinct.append(relation)
    return [str(relation.toString()).rstrip("]").rsplit("/", 1)[-1] for relation in distinct]


@pytest.mark.usefixtures("direct")
def test_sources_stand_in_the_order_of_from_each_stream_once(spark: SparkSession, tmp_path: Path) -> None:
    case = write_case(tmp_path, list(QUERIES.values()), random_batches(seed=1, count=1))
    compared = 0
    for is_direct, limit, routing in itertools.product(
        ("true", "false"), (None, AMPLE), ("shares", "pipeline")
    ):
        if limit is not None and routing == "pipeline":
            continue
        spark.conf.set(DIRECT, is_direct)
        session = Session(spark)
        pipeline = session.read(case.file)
        queries = dict(zip(QUERIES, pipeline.queries, strict=True))
        root = str(tmp_path / f"checkpoint-{compared}")
        options = RunOptions(limit=limit, routing=routing)
        for job in session._jobs(
            queries, pipeline, base=tmp_path, root=root, options=options, statistics=None
        ):
            answers = Compiler(
                spark=spark,
                plan=job.plan,
                sources=job.sources.tuples,
                files=job.sources.files,
                control=job.checkpoint.control(),
                limit=limit,
            ).answers()
            assert _slots(answers) == ["s3", "s2", "s1", "control"], (job.name, is_direct, limit, routing)
            compared += 1
    assert compared == 6 * len(QUERIES)


@pytest.mark.usefixtures("direct")
def test_sources_of_a_shared_dataflow_stand_in_the_order_of_their_declaration(
    spark: SparkSession, tmp_path: Path
) -> None:
    case = write_case(tmp_path, QUERIES["plain"], random_batches(seed=1, count=1))
    for is_direct in ("true", "false"):
        spark.conf.set(DIRECT, is_direct)
        for name in QUERIES:
            job = dataflow_job(spark, case, {name: (QUERIES[name], 0, NEVER)})
            assert _slots(_blobs(spark, job)) == ["s1", "s2", "s3"], (name, is_direct)


def _blobs(spark: SparkSession, job: SharedJob) -> DataFrame:
    return stream_answers(
        spark,
        job.dataflow,
        queries=job.queries,
        streams=job.pipeline.streams,
        sources=job.sources,
        partitions=job.partitions,
    ).blobs


def _with_globs(case: Case) -> None:
    """Names files by a pattern: Spark then has no folder by which it could tell a wrong source."""
    text = case.file.read_text()
    for stream in ("s1", "s2", "s3"):
        text = text.replace(f"path = '{stream}'", f"path = '{stream}/*.parquet'")
    case.file.write_text(text)


@pytest.mark.usefixtures("direct")
@pytest.mark.variant  # the tests above show the order, test_restart.py that queries are resumed
@pytest.mark.parametrize("globs", [True, False])
def test_a_mixed_query_is_resumed_under_a_limit_and_by_sparks_reader(
    globs: bool, spark: SparkSession, tmp_path: Path
) -> None:
    select = QUERIES["self filtered"].replace("SELECT a.v", "SELECT a.v AS va, b.v AS vb, c.v AS vc")
    case = write_case(tmp_path, select, random_batches(seed=31, count=3), arrived=1)
    if globs:
        _with_globs(case)
    for number, (is_direct, limit) in enumerate([("true", None), ("true", AMPLE), ("false", None)]):
        spark.conf.set(DIRECT, is_direct)
        if number:
            arrive(case, [number])
        options = RunOptions(available_now=True, limit=limit)
        Session(spark).run(case.file, checkpoint=case.checkpoint, options=options)
    case.check(spark, flush=False)


def test_a_query_submitted_later_may_need_an_expression_on_a_stream(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Its stream is then read by Spark, for all queries of the dataflow."""
    case = write_case(tmp_path, QUERIES["plain"], random_batches(5, count=3), arrived=1)
    _with_globs(case)
    first = {"plain": (QUERIES["plain"], 0, NEVER)}
    job = dataflow_job(spark, case, first)
    run_to_end(job)
    arrive(case, [1, 2])
    both = first | {"later": (QUERIES["expression"].replace("a.k + 1", "a.v + 1"), 1, NEVER)}
    run_to_end(dataflow_job(spark, case, both, job.dataflow))
    rows = spark.read.parquet(str(tmp_path / "mixed")).collect()
    streams = parse_pipeline(case.file.read_text()).streams
    for name, (text, since, until) in both.items():
        want = expected(bind_query(text, streams), midway(case.batches, since, until))
        assert want, f"{name} without answers proves nothing"
        found = [tuple(json.loads(row["answer"]).values()) for row in rows if row["query"] == name]
        assert oracle.bag(found) == want, name

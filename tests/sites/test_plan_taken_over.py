"""Another plan takes over while all sites run, through Spark: each answer once, some from either plan."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.sites.test_run_site import follow_all
from tests.sites.two_sites import PLAN, SITES, assert_answers, statistics, write_pipeline, write_tuples
from watersmeet.plan.sites.change_over import taken_over
from watersmeet.session import Session
from watersmeet.sites.plan_changes import PLANS, ChangedPlan, PlanChanges
from watersmeet.sites.run_site import SiteRequest, start_site
from watersmeet.spark.jobs.job import RunOptions
from watersmeet.sql import parse_pipeline


@pytest.mark.spark
@pytest.mark.variant
@pytest.mark.parametrize(
    ("old", "new"),
    [
        (PLAN, "simple, all at paris"),
        ("semijoin, linear, SM-S1 and SM-D1", "semijoin, linear, SM-S2 and SM-D2"),
    ],
)
def test_a_plan_takes_over_and_each_answer_comes_once(
    spark: SparkSession, tmp_path: Path, old: str, new: str
) -> None:
    file = write_pipeline(tmp_path)
    session = Session(spark)
    requests = [SiteRequest(file=file, site=site, plan=old) for site in SITES.values()]
    runs = [start_site(session, request, RunOptions()) for request in requests]
    for run in runs:
        for job in run.jobs:
            job._query.processAllAvailable()  # type: ignore[union-attr]
    for run in runs:
        run.stop()
    root = tmp_path / ".watersmeet" / "pipeline"
    seen = [json.loads((root / "sites" / site / "out" / "seen.json").read_text()) for site in SITES.values()]
    seen_us = max(each["seen_us"] for each in seen)
    streams = [pq.read_table(tmp_path / name / "0.parquet")["ts"].cast(pa.int64()) for name in SITES]
    assert seen_us == max(max(times.to_pylist()) for times in streams)
    (query,) = parse_pipeline(file.read_text()).queries
    tenure = taken_over(query, seen_us)
    change = ChangedPlan(new, statistics(), tenure)
    (root / PLANS).write_text(PlanChanges().with_change("out", change).to_text())
    for number in (1, 2):
        write_tuples(tmp_path, number)
    finite = RunOptions(available_now=True, flush=True)
    runs = [start_site(session, request, finite) for request in requests]
    names = [job.name for run in runs for job in run.jobs]
    assert names == ["out at paris", "out@1 at paris", "out at oslo", "out@1 at oslo"]
    follow_all(runs)
    by_new, every = assert_answers(tmp_path, from_us=tenure.since_us)
    assert 100 < by_new < every - 100
    assert start_site(session, requests[0], finite).ended == ("out@1 at paris",)

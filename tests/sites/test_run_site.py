"""PMJoin's Example 1 through Spark: three sites, links of files, each answer once, at the simulated bytes."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.paths import EXAMPLES
from watersmeet.errors import ConfigurationError
from watersmeet.lab.wan.arrivals import arrivals_of
from watersmeet.lab.wan.pmjoin.network import PmjoinNetwork
from watersmeet.oracle.oracle import Tuple
from watersmeet.plan.statistics import read_statistics
from watersmeet.query import Query
from watersmeet.query.values import timestamp_us
from watersmeet.session import Session
from watersmeet.sites.bill import draw_up
from watersmeet.sites.choose_plan import choose_plan, programs_by
from watersmeet.sites.run_site import SiteRequest, start_site
from watersmeet.spark.jobs.job import RunOptions
from watersmeet.spark.jobs.pipeline_run import PipelineRun
from watersmeet.sql import parse_pipeline

EXAMPLE = EXAMPLES / "sites" / "pmjoin-example-1"
SITES = ("n1", "n2", "n3")
SECONDS = 600
FINITE = RunOptions(available_now=True, flush=True)
EXPECTED = """
    SELECT s1.dest, s1.ts, s2.ts, s3.ts, greatest(s1.ts, s2.ts, s3.ts)
    FROM s1 JOIN s2 ON s1.dest = s2.dest AND abs(epoch_us(s1.ts) - epoch_us(s2.ts)) <= 500000
            JOIN s3 ON s2.dest = s3.dest AND abs(epoch_us(s2.ts) - epoch_us(s3.ts)) <= 500000
                   AND abs(epoch_us(s1.ts) - epoch_us(s3.ts)) <= 500000"""


@pytest.fixture
def example(tmp_path: Path) -> Path:
    """The example with its tuples, in a folder of its own."""
    folder = tmp_path / "example"
    shutil.copytree(
        EXAMPLE, folder, ignore=shutil.ignore_patterns("data", "out", ".watersmeet", "__pycache__")
    )
    subprocess.run([sys.executable, str(folder / "make_tuples.py"), str(SECONDS)], check=True)
    return folder / "pipeline.sql"


def follow_all(runs: list[PipelineRun]) -> None:
    """Follows runs side by side until all have ended by themselves; what makes one fail is raised."""
    deadline, alive = time.monotonic() + 900, list(runs)
    try:
        while alive and time.monotonic() < deadline:
            for run in list(alive):
                rounds = iter((False, True))
                run.follow(until=lambda rounds=rounds: next(rounds))
                if run.failures:
                    raise run.failed()
                if not run.is_running():
                    run.follow()  # which asks what has ended it
                    alive.remove(run)
        assert not alive, "some site has not ended"
    finally:
        for run in runs:
            run.stop()


def assert_answers(folder: Path) -> None:
    """The answers are those of DuckDB on the same files."""
    with duckdb.connect() as database:
        for stream in ("s1", "s2", "s3"):
            database.execute(f"CREATE VIEW {stream} AS FROM read_parquet('{folder}/data/{stream}/*.parquet')")
        database.execute(f"CREATE VIEW found AS FROM read_parquet('{folder}/out/*.parquet')")
        database.execute(f"CREATE TABLE expected AS {EXPECTED}")
        [[expected]] = database.execute("SELECT count(*) FROM expected").fetchall()
        assert expected > 20
        assert database.execute("FROM expected EXCEPT ALL FROM found").fetchall() == []
        assert database.execute("FROM found EXCEPT ALL FROM expected").fetchall() == []


def streams_of(query: Query, folder: Path) -> dict[str, list[Tuple]]:
    """The tuples of the example as the simulator takes them."""
    found = {}
    for stream in query.streams:
        files = sorted((folder / "data" / stream.name).glob("*.parquet"))
        rows = [row for file in files for row in pq.read_table(file).to_pylist()]
        found[stream.name] = [Tuple(timestamp_us(row["ts"]), {"dest": row["dest"]}) for row in rows]
    return found


@pytest.mark.spark
def test_example_1_runs_at_three_sites(spark: SparkSession, example: Path) -> None:
    """They end by themselves; then bytes are as simulated, and nothing more is taken."""
    session = Session(spark)
    requests = [SiteRequest(file=example, site=site, plan="pmjoin, by rate") for site in SITES]
    follow_all([start_site(session, request, FINITE) for request in requests])
    assert_answers(example.parent)
    (query,) = parse_pipeline(example.read_text()).queries
    statistics = read_statistics(example.with_suffix(".stats.json"))
    option = choose_plan(query, statistics, "pmjoin, by rate", command="")
    programs = programs_by(query, option)
    root = str(example.parent / ".watersmeet" / "pipeline")
    bill = draw_up("out", option, programs.values(), root)
    arrivals = arrivals_of(query, streams_of(query, example.parent))
    network = PmjoinNetwork(query, option.plan, keep_answers=False, start_us=arrivals[0].at_us)
    traffic = network.run(arrivals, until_us=arrivals[-1].at_us + 10).traffic
    measured = {link.way: link.priced_bytes for link in bill.links if link.counts.rows}
    assert measured == {way: seen.bytes for way, seen in traffic.items()}
    assert measured
    left = list((example.parent / ".watersmeet").glob("pipeline/links/out/*/*.parquet"))
    assert len(left) < sum(link.counts.messages for link in bill.links), "files that were read are removed"
    run = start_site(session, requests[0], FINITE)
    assert run.ended == ("out at n1",)
    run.stop()
    with pytest.raises(ConfigurationError, match="was ended by --flush"):
        start_site(session, requests[0], RunOptions())
    with pytest.raises(ConfigurationError, match="was begun with plan"):
        start_site(session, SiteRequest(file=example, site="n1", plan="simple, all at n2"), FINITE)
    with pytest.raises(ConfigurationError, match=r"no part of a query runs there\. The sites are n1, n2, n3"):
        start_site(session, SiteRequest(file=example, site="n9", plan="pmjoin, by rate"), FINITE)

"""A semijoin plan through Spark: two sites, each answer once, at the bytes the simulator ships."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.paths import EXAMPLES, ROOT
from tests.sites.test_run_site import FINITE, follow_all
from tests.testing.test_site_examples import CASES, answers_of
from watersmeet.oracle.oracle import bag
from watersmeet.plan.statistics import read_statistics
from watersmeet.query.values import timestamp_us
from watersmeet.session import Session
from watersmeet.sites.bill import draw_up
from watersmeet.sites.choose_plan import choose_plan, programs_by
from watersmeet.sites.run_site import SiteRequest, start_site
from watersmeet.sql import parse_pipeline


def answers_written(folder: Path) -> list[tuple[object, ...]]:
    rows = [row for file in (folder / "out").glob("*.parquet") for row in pq.read_table(file).to_pylist()]
    return [(*list(row.values())[:-1], timestamp_us(row["answer_time"])) for row in rows]


@pytest.mark.spark
@pytest.mark.parametrize(
    "name",
    [
        "semijoin-news",
        *(pytest.param(name, marks=pytest.mark.variant) for name in ("semijoin-packets", "semijoin-sensors")),
    ],
)
def test_an_example_runs_at_its_sites(spark: SparkSession, tmp_path: Path, name: str) -> None:
    folder = tmp_path / "example"
    shutil.copytree(EXAMPLES / "sites" / name, folder, ignore=shutil.ignore_patterns("data", "out", ".*"))
    subprocess.run([sys.executable, str(folder / "make_tuples.py")], check=True)
    file, session = folder / "pipeline.sql", Session(spark)
    (query,) = parse_pipeline(file.read_text(), file=str(file)).queries
    option = choose_plan(query, read_statistics(file.with_suffix(".stats.json")), CASES[name][0], command="")
    programs = programs_by(query, option)
    requests = [SiteRequest(file=file, site=site, plan=option.name) for site in programs]
    follow_all([start_site(session, request, FINITE) for request in requests])
    found = answers_written(folder)
    assert bag(found) == bag(answers_of(query, folder, CASES[name][1]))
    assert found
    bill = draw_up("out", option, programs.values(), str(folder / ".watersmeet" / "pipeline"))
    assert bill.priced_bytes > 0
    if name == "semijoin-news":  # as documented
        text = (ROOT / "docs" / "sites.md").read_text()
        for link in bill.links:
            documented = re.search(rf"{link.way[0]} -> {link.way[1]} +[\d,]+ +([\d,]+) +(\d+) ", text)
            assert documented is not None
            assert documented.groups() == (f"{link.priced_bytes:,.0f}", f"{link.counts.total_rows}")
    run = start_site(session, requests[0], FINITE)
    assert run.ended
    run.stop()

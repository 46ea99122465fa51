"""Hot values through Spark: tables outlive a stop, and settings are read. All else is tested in process."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.paths import ROOT
from tests.spark.pipelines import (
    QUERIES,
    Case,
    arrive,
    pipeline_text,
    write_case,
)
from tests.spark.processes import descendants, jvm, kill
from tests.spark.run_pipeline import Request
from tests.testing.test_hot_values import HOT, draw_batch
from watersmeet.errors import ConfigurationError, WatersmeetError
from watersmeet.kernel import Grid, HotTable, JoinLayout, plan_bucket
from watersmeet.session import Session
from watersmeet.spark.exchange.hot_keys import (
    FOLDER,
    MIN_ROWS,
    SWITCH,
    HotKeys,
    plan_hot_keys,
    read_hot_key_settings,
)
from watersmeet.spark.jobs.job import RunOptions
from watersmeet.spark.metrics.progress import Progress
from watersmeet.sql import parse_pipeline


@pytest.fixture(autouse=True)
def _quick_to_heat(spark: SparkSession) -> Iterator[None]:
    spark.conf.set(MIN_ROWS, "60")
    yield
    spark.conf.unset(MIN_ROWS)
    spark.conf.unset(SWITCH)


def tables(case: Case) -> list[HotTable]:
    """The routing tables that are still there, in the order of their batches."""
    files = sorted(case.checkpoint.glob("*/routing/*/*.json"))
    return [HotTable.from_json(json.loads(file.read_text())) for file in files]


def run(spark: SparkSession, case: Case, *, flush: bool) -> list[Progress]:
    reported: list[Progress] = []
    Session(spark).run(
        case.file,
        checkpoint=case.checkpoint,
        options=RunOptions(available_now=True, flush=flush),
        on_progress=lambda _, progress: reported.append(progress),
    )
    return reported


@pytest.mark.variant  # in process: tests/testing/test_hot_values.py, tests/machine
def test_a_query_stopped_while_values_are_spread_goes_on_by_its_table(
    spark: SparkSession, tmp_path: Path
) -> None:
    rng, hot = random.Random(2), {"s1": 0.2, "s2": 0.7, "s3": 0.1}
    case = write_case(tmp_path, QUERIES["plain"], [draw_batch(rng, n, hot) for n in range(5)], arrived=3)
    reported = run(spark, case, flush=False)
    assert reported[-1].hot_values >= 1
    table = tables(case)[-1]
    line = table.find(0, HOT)
    assert line is not None
    assert (line.spread, line.cooling) == ("b", False)
    arrive(case, [3, 4])
    for folder in case.checkpoint.glob("*/routing"):
        shutil.rmtree(folder)
    with pytest.raises(WatersmeetError, match="has been put back: resume the query"):
        run(spark, case, flush=False)
    run(spark, case, flush=False)
    case.check(spark, flush=False)


def test_tables_are_kept_where_all_workers_see_them_or_nothing_is_spread(spark: SparkSession) -> None:
    bucket = plan_bucket(parse_pipeline(pipeline_text(QUERIES["plain"])).queries[0])
    rows = plan_bucket(parse_pipeline(pipeline_text(QUERIES["rows"])).queries[0])

    def plan(checkpoint: str | None, layout: JoinLayout = bucket.layout) -> HotKeys | None:
        settings = read_hot_key_settings(spark, checkpoint)
        return plan_hot_keys(layout, Grid((3,)), "a plan", settings)

    assert plan(None) is None
    assert plan("hdfs://host/checkpoint") is None
    assert plan("/disk/checkpoint", rows.layout) is None
    for place in ("/disk/checkpoint", "file:/disk/checkpoint", "file:///disk/checkpoint"):
        found = plan(place)
        assert found is not None
        assert (found.folder, found.classes, found.min_rows) == ("/disk/checkpoint/routing", (0,), 60)
    spark.conf.set(FOLDER, "/shared/tables")
    found = plan("hdfs://host/checkpoint")
    spark.conf.unset(FOLDER)
    assert found is not None
    assert found.folder == "/shared/tables"


@pytest.mark.parametrize(("setting", "text"), [(SWITCH, "perhaps"), (MIN_ROWS, "many")])
def test_settings_that_say_nothing_are_refused(spark: SparkSession, setting: str, text: str) -> None:
    spark.conf.set(setting, text)
    with pytest.raises(ConfigurationError, match=f"{setting} is '{text}'"):
        read_hot_key_settings(spark, "/disk/checkpoint")


def test_a_driver_killed_while_values_are_spread_loses_and_repeats_nothing(
    spark: SparkSession, tmp_path: Path, long_mode: bool
) -> None:
    if not long_mode:
        pytest.skip("takes minutes; stopping within a batch is shown above")
    rng, hot = random.Random(4), {"s1": 0.7, "s2": 0.1, "s3": 0.2}
    case = write_case(tmp_path, QUERIES["plain"], [draw_batch(rng, n, hot) for n in range(9)])
    conf = {MIN_ROWS: "60"}
    request = Request(str(case.file), str(case.checkpoint), str(tmp_path / "spark.log"), conf=conf)
    for last in ("batch 2", "batch 5"):
        with subprocess.Popen(request.command, cwd=ROOT, text=True, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert any(line.startswith(last) for line in process.stdout)
            time.sleep(rng.uniform(0, 0.5))
            below = [each.pid for each in descendants(process.pid)]
            for victim in (process.pid, jvm(process.pid)):
                assert victim is not None
                assert kill(victim)
        deadline = time.monotonic() + 60
        while any(Path(f"/proc/{pid}").exists() for pid in below):
            assert time.monotonic() < deadline, "processes of a killed driver live on"
            time.sleep(0.1)
        line = tables(case)[-1].find(0, HOT)
        assert line is not None
        assert not line.cooling
    run(spark, case, flush=True)
    case.check(spark)

"""Hot values in the engine: spread, cooled, swapped, stopped and resumed, and every answer once."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.paths import ROOT
from tests.spark.pipelines import (
    BATCH_S,
    LATENESS_S,
    QUERIES,
    SECOND_US,
    Case,
    arrive,
    pipeline_text,
    write_case,
)
from tests.spark.processes import descendants, jvm, kill
from tests.spark.run_pipeline import Request
from watersmeet.errors import ConfigurationError, WatersmeetError
from watersmeet.kernel import Grid, HotTable, JoinLayout, plan_bucket
from watersmeet.kernel.columns.hashing import hash_column
from watersmeet.oracle.oracle import MicroBatch, Tuple
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

STREAMS = ("s1", "s2", "s3")
HOT = int(hash_column(pa.array([0]))[0])  # of the key 0


@pytest.fixture(autouse=True)
def _quick_to_heat(spark: SparkSession) -> Iterator[None]:
    spark.conf.set(MIN_ROWS, "60")
    yield
    spark.conf.unset(MIN_ROWS)
    spark.conf.unset(SWITCH)


def batch(
    rng: random.Random, number: int, hot: dict[str, float], rows: int = 24, keys: int = 40
) -> MicroBatch:
    """Tuples of which a share, by stream, has the key 0; out of order within the lateness."""

    def one(share: float) -> Tuple:
        since = int((BATCH_S * number - LATENESS_S / 2) * SECOND_US)
        key = 0 if rng.random() < share else rng.randrange(1, keys)
        return Tuple(
            rng.randrange(since, BATCH_S * (number + 1) * SECOND_US), {"k": key, "v": rng.randrange(10)}
        )

    return {name: [one(hot.get(name, 0.0)) for _ in range(rows)] for name in STREAMS}


def tables(case: Case) -> list[HotTable]:
    """The routing tables that are still there, in the order of their batches."""
    files = sorted(case.checkpoint.glob("*/routing/*/*.json"))
    return [HotTable.from_json(json.loads(file.read_text())) for file in files]


def run(spark: SparkSession, case: Case, *, flush: bool) -> list[Progress]:
    told: list[Progress] = []
    Session(spark).run(
        case.file,
        checkpoint=case.checkpoint,
        options=RunOptions(available_now=True, flush=flush),
        on_progress=lambda _, progress: told.append(progress),
    )
    return told


def test_a_value_heats_cools_and_heats_again_on_another_stream(spark: SparkSession, tmp_path: Path) -> None:
    rng = random.Random(1)
    phases = [{"s1": 0.8, "s2": 0.1, "s3": 0.1}] * 3 + [{}] * 4 + [{"s1": 0.1, "s2": 0.8, "s3": 0.1}] * 4
    case = write_case(tmp_path, QUERIES["plain"], [batch(rng, *each) for each in enumerate(phases)])
    told = run(spark, case, flush=True)
    case.check(spark)
    lines = [line for table in tables(case) if (line := table.find(0, HOT))]
    assert list(dict.fromkeys((line.spread, line.cooling) for line in lines)) == [
        ("a", False),
        ("a", True),
        ("b", False),
    ]
    assert max(progress.hot_values for progress in told) >= 1
    assert sum(progress.rows for progress in told) == len(phases) * len(STREAMS) * 24, (
        "copies are not counted"
    )
    assert all(progress.busiest_share >= 1 for progress in told)


def test_a_query_stopped_while_values_are_spread_goes_on_by_its_table(
    spark: SparkSession, tmp_path: Path
) -> None:
    rng = random.Random(2)
    hot = {"s1": 0.2, "s2": 0.7, "s3": 0.1}
    case = write_case(tmp_path, QUERIES["plain"], [batch(rng, n, hot) for n in range(8)], arrived=6)
    started = Session(spark).start(
        case.file, checkpoint=case.checkpoint, options=RunOptions(available_now=True)
    )
    started.follow(until=lambda: any(progress.batch_id >= 3 for progress in started.progress.values()))
    started.stop()  # most likely within a batch
    table = tables(case)[-1]
    line = table.find(0, HOT)
    assert line is not None
    assert (line.spread, line.cooling) == ("b", False)
    for folder in case.checkpoint.glob("*/routing"):
        shutil.rmtree(folder)
    with pytest.raises(WatersmeetError, match="has been put back: resume the query"):
        run(spark, case, flush=False)
    assert tables(case) == [table]
    run(spark, case, flush=False)
    spark.conf.set(SWITCH, "false")  # no value may heat from here on, but this one still has to cool
    arrive(case, [6, 7])
    run(spark, case, flush=True)
    case.check(spark)
    assert all(line.cooling for line in tables(case)[-1].values)


@pytest.mark.parametrize("skew", [0.0, 0.9, 1.5])
def test_answers_are_the_oracles_at_any_skew(
    skew: float, spark: SparkSession, tmp_path: Path, long_mode: bool
) -> None:
    if not long_mode:
        pytest.skip("the conductor's own tests show it in less time")
    rng = random.Random(3)
    weights = [1 / n**skew for n in range(1, 41)]
    batches: list[MicroBatch] = []
    for number in range(4):
        even = batch(rng, number, {}, rows=40)
        keys = {name: rng.choices(range(40), weights, k=40) for name in STREAMS}
        batches.append(
            {
                name: [
                    Tuple(t.ts, {**t.values, "k": key}) for t, key in zip(even[name], keys[name], strict=True)
                ]
                for name in STREAMS
            }
        )
    case = write_case(tmp_path, QUERIES["plain"], batches)
    run(spark, case, flush=True)
    case.check(spark)
    if skew >= 1:
        assert any(table.values for table in tables(case))


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
    case = write_case(tmp_path, QUERIES["plain"], [batch(rng, n, hot) for n in range(9)])
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

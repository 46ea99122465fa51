"""Bounded memory through Spark: its settings and smaller batches. What is shed is tested in process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from watersmeet.errors import ConfigurationError
from watersmeet.kernel import Shed, StateLimit
from watersmeet.session import Session
from watersmeet.spark.jobs.job import RunOptions
from watersmeet.spark.jobs.state_limit import parse_limit
from watersmeet.spark.metrics.progress import Progress

FILES, ROWS, KEYS = 6, 3000, 2000
FILE_S, WINDOW_S = 5, 20
LIMIT = StateLimit(600_000)  # of about 690 kB that three files take
NAMES = ("a", "b")


def write_pipeline(folder: Path, files_at_once: int) -> Path:
    for name in NAMES:
        (folder / name).mkdir()
    declared = [
        f"CREATE STREAM {name} (k BIGINT, v BIGINT, ts TIMESTAMP) WITH (format = 'parquet', path = '{name}', "
        f"event_time = 'ts', 'option.maxFilesPerTrigger' = '{files_at_once}');"
        for name in NAMES
    ]
    file = folder / "pipeline.sql"
    file.write_text(
        "\n".join(declared) + "\nCREATE SINK out WITH (format = 'parquet', path = 'out');\n"
        f"INSERT INTO out SELECT a.v AS va, b.v AS vb FROM a [RANGE {WINDOW_S} SECONDS], "
        f"b [RANGE {WINDOW_S} SECONDS] WHERE a.k = b.k;\n"
    )
    return file


def arrive(folder: Path, numbers: range) -> dict[str, pd.DataFrame]:
    """Files of tuples in order of time; `v` numbers the tuples of a stream."""
    tables: dict[str, list[pd.DataFrame]] = {name: [] for name in NAMES}
    for number in numbers:
        for seed, name in enumerate(NAMES):
            random = np.random.default_rng([seed, number])
            ts = np.sort(random.integers(number * FILE_S, (number + 1) * FILE_S, ROWS)) * 1_000_000
            frame = pd.DataFrame(
                {"k": random.integers(0, KEYS, ROWS), "v": number * ROWS + np.arange(ROWS), "ts": ts}
            )
            tables[name].append(frame)
            table = pa.Table.from_pandas(frame, preserve_index=False)
            times = table["ts"].cast(pa.timestamp("us", "UTC"))
            path = folder / name / f"_{number:04}"
            pq.write_table(table.set_column(2, "ts", times), path)
            os.utime(path, (1_000_000 + number, 1_000_000 + number))
            path.rename(path.with_name(f"{number:04}.parquet"))
    return {name: pd.concat(parts) for name, parts in tables.items()}


def answers(tables: dict[str, pd.DataFrame]) -> set[tuple[int, int]]:
    pairs = tables["a"].merge(tables["b"], on="k")
    near = (pairs.ts_x - pairs.ts_y).abs() <= WINDOW_S * 1_000_000
    return set(zip(pairs.v_x[near], pairs.v_y[near], strict=True))


def run(spark: SparkSession, file: Path, limit: StateLimit) -> list[Progress]:
    reported: list[Progress] = []
    options = RunOptions(available_now=True, limit=limit)
    checkpoint = file.parent / "checkpoint"
    Session(spark).run(
        file, checkpoint=checkpoint, options=options, on_progress=lambda _, p: reported.append(p)
    )
    return reported


def found(spark: SparkSession, folder: Path) -> Counter[tuple[int, int]]:
    rows = spark.read.parquet(str(folder / "out")).toArrow()
    return Counter(zip(rows["va"].to_pylist(), rows["vb"].to_pylist(), strict=True))


def test_none_sheds_nothing_and_takes_smaller_batches(spark: SparkSession, tmp_path: Path) -> None:
    file = write_pipeline(tmp_path, 4)
    tables = arrive(tmp_path, range(FILES))
    reported = run(spark, file, StateLimit(LIMIT.nbytes, Shed.NONE))
    notices = [p.notice for p in reported if p.notice]
    assert any("batches are 2 times smaller now" in notice for notice in notices)
    assert reported[-1].totals.shed == 0
    assert reported[-1].completeness == reported[-1].totals.completeness == 1
    out = found(spark, tmp_path)
    assert max(out.values()) == 1
    assert out.keys() == answers(tables)


def test_a_session_takes_its_limit_from_its_settings(spark: SparkSession, tmp_path: Path) -> None:
    """And a batch that is large beside the limit is joined as it comes in."""
    file = write_pipeline(tmp_path, 4)
    tables = arrive(tmp_path, range(4))
    spark.conf.set("spark.watersmeet.stateLimit", "150kB")
    spark.conf.set("spark.watersmeet.shed", "oldest")
    try:
        reported: list[Progress] = []
        Session(spark).run(
            file, options=RunOptions(available_now=True), on_progress=lambda _, p: reported.append(p)
        )
    finally:
        spark.conf.unset("spark.watersmeet.stateLimit")
        spark.conf.unset("spark.watersmeet.shed")
    assert reported[-1].state_limit == 150_000
    assert reported[-1].memory_bytes <= 150_000
    assert reported[-1].rows == 4 * ROWS * len(NAMES)
    assert found(spark, tmp_path).keys() < answers(tables)


def test_values_of_distinct_that_are_left_out_are_counted(spark: SparkSession, tmp_path: Path) -> None:
    file = write_pipeline(tmp_path, 1)
    file.write_text(file.read_text().replace("SELECT a.v AS va", "SELECT DISTINCT a.v AS va"))
    tables = arrive(tmp_path, range(4))
    reported = run(spark, file, StateLimit(400_000))
    assert found(spark, tmp_path).keys() < answers(tables)
    assert reported[-1].totals.left_out > 0
    assert any("values of DISTINCT are left out so far" in progress.notice for progress in reported)


CHAIN = (
    "SELECT a.v AS va, b.v AS vb, c.v AS vc FROM a [RANGE 20 SECONDS], b [RANGE 20 SECONDS], "
    f"a [RANGE 20 SECONDS] AS c WHERE a.k = b.k AND b.v % {KEYS} = c.k AND a.v % 10 = 0"
)


def chained(tables: dict[str, pd.DataFrame]) -> set[tuple[int, int, int]]:
    first = tables["a"][tables["a"].v % 10 == 0]
    pairs = first.merge(tables["b"].assign(j=tables["b"].v % KEYS), on="k")
    all_ = pairs.merge(tables["a"], left_on="j", right_on="k")
    ts = all_[["ts_x", "ts_y", "ts"]]
    near = ts.max(axis=1) - ts.min(axis=1) <= WINDOW_S * 1_000_000
    return set(zip(all_.v_x[near], all_.v_y[near], all_.v[near], strict=True))


def test_a_pipeline_sheds_tuples_and_partial_results_and_tells_what_is_missing(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The second run finds the state that the first has left."""
    file = write_pipeline(tmp_path, 2)
    text = file.read_text()
    file.write_text(f"{text[: text.index('SELECT')]}{CHAIN};\n")
    limit, tables, found_, missed = StateLimit(500_000), list[dict[str, pd.DataFrame]](), 0, 0.0
    options = RunOptions(available_now=True, limit=limit, routing="pipeline")
    for files in (range(2), range(2, 4)):
        reported: list[Progress] = []
        tables.append(arrive(tmp_path, files))
        Session(spark).run(file, options=options, on_progress=lambda _, p, to=reported: to.append(p))
        assert max(p.memory_bytes for p in reported) <= limit.nbytes == reported[-1].state_limit
        found_ += reported[-1].totals.combinations
        missed += reported[-1].totals.missed
    assert reported[-1].totals.shed > reported[-1].results_shed > 0
    due = chained({name: pd.concat([some[name] for some in tables]) for name in NAMES})
    rows = spark.read.parquet(str(tmp_path / "out")).toArrow().to_pylist()
    out = Counter((row["va"], row["vb"], row["vc"]) for row in rows)
    assert max(out.values()) == 1
    assert out.keys() < due
    assert found_ == len(out)
    assert found_ / (found_ + missed) == pytest.approx(len(out) / len(due), abs=0.05)


@pytest.mark.variant  # of the test before, by a server
def test_a_served_folder_keeps_within_the_limit_of_its_server(tmp_path: Path) -> None:
    file, tables = write_pipeline(tmp_path, 1), list[dict[str, pd.DataFrame]]()
    words = [sys.executable, "-m", "watersmeet", "serve", "flow", "--available-now", "--json"]
    words += ["--master", "local[2]", "--conf", "spark.sql.shuffle.partitions=2", "--shed", "oldest"]
    progress: list[dict[str, Any]] = []
    for files, more in ((range(3), ["--streams", file.name]), (range(3, 5), [])):
        tables.append(arrive(tmp_path, files))
        ran = subprocess.run(
            [*words, "--state-limit", "400kB", *more],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
        events = [json.loads(line) for line in ran.stdout.splitlines()]
        progress += [event for event in events if event["event"] == "progress"]
        assert progress[-1]["total_shed"] > 0
        assert progress[-1]["total_completeness"] < 1
    assert max(each["memory_bytes"] for each in progress) <= 400_000 == progress[-1]["state_limit"]
    every = {name: pd.concat([some[name] for some in tables]) for name in NAMES}
    out = [row for path in (tmp_path / "out").glob("*.parquet") for row in pq.read_table(path).to_pylist()]
    given = Counter((row["va"], row["vb"]) for row in out)
    assert max(given.values()) == 1
    assert given.keys() < answers(every)


@pytest.mark.parametrize(
    ("size", "shed", "message"),
    [
        ("2 elephants", None, r"--state-limit: '2 elephants' is not a size"),
        ("10 bytes", None, r"nothing can be joined in less than 100000 bytes"),
        ("2GB", "some", r"--shed some: it is one of random, oldest, least, none"),
        (None, "least", r"--shed least says what to shed; say from which size on: --state-limit 2GB"),
    ],
)
def test_a_limit_that_cannot_be_meant_is_refused(size: str | None, shed: str | None, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        parse_limit(size, shed, ("--state-limit", "--shed"))

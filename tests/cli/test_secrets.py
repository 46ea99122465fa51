"""A secret that is planted in a run is found in nothing that the run leaves behind or says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytestmark = [pytest.mark.spark, pytest.mark.slow]

PLANTED = "xyzzy-planted-9"
PIPELINE = """\
CREATE STREAM s (k BIGINT, ts TIMESTAMP) WITH (
  format = 'parquet', path = 's', event_time = 'ts', 'option.source.login' = '${env:PLANTED}');
CREATE SINK out WITH (format = 'json', path = 'out', 'option.sink.login' = 'user:${file:key.txt}');
INSERT INTO out SELECT a.k, b.ts FROM s [RANGE 1 MINUTE] AS a, s [RANGE 1 MINUTE] AS b WHERE a.k = b.k;
"""


def run_cli(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "watersmeet", *arguments],
        cwd=folder, capture_output=True, text=True, timeout=600, check=False,
        env={**os.environ, "PLANTED": PLANTED},
    )  # fmt: skip


def test_a_run_leaves_no_secret_behind(tmp_path: Path) -> None:
    for name in ("s", "events"):
        (tmp_path / name).mkdir()
    times = pa.array([0, 1_000_000], pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"k": [1, 1], "ts": times}), tmp_path / "s/1.parquet")
    (tmp_path / "key.txt").write_text(f"{PLANTED}\n")
    (tmp_path / "flow.sql").write_text(PIPELINE)
    arguments = [
        "--available-now", "--json", "--master", "local[2]", "--conf", "spark.driver.memory=1g",
        "--conf", "spark.hadoop.some.login=${file:key.txt}", "--conf", "spark.eventLog.enabled=true",
        "--conf", f"spark.eventLog.dir=file:{tmp_path}/events", "--conf", "spark.eventLog.compress=false",
    ]  # fmt: skip
    done = run_cli(tmp_path, "run", "flow.sql", *arguments)
    assert done.returncode == 0, done.stderr
    explained = run_cli(tmp_path, "explain", "flow.sql", "--json")
    said = [text for each in (done, explained) for text in (each.stdout, each.stderr)]
    assert not [text for text in said if PLANTED in text]
    left = [path for path in tmp_path.rglob("*") if path.is_file() and path.name != "key.txt"]
    assert not [str(path) for path in left if PLANTED.encode() in path.read_bytes()]
    answers = [path for path in (tmp_path / "out").glob("*.json") if path.stat().st_size]
    assert answers, "the run had options with the secret, and answers"
    events = b"".join(path.read_bytes() for path in (tmp_path / "events").rglob("*") if path.is_file())
    assert b"some.login" in events, "Spark wrote its settings down, this one without its value"
    for path in (tmp_path / ".watersmeet/flow.log", tmp_path / ".watersmeet/flow/out/watersmeet.json"):
        assert path.stat().st_mode & 0o777 == 0o600, path
    assert (tmp_path / ".watersmeet").stat().st_mode & 0o777 == 0o700

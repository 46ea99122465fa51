"""A secret that is planted in a run is found in nothing that the run leaves behind or says."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.spark.processes import descendants

pytestmark = [pytest.mark.spark, pytest.mark.slow]

PLANTED = "xyzzy'planted-9"  # Spark writes it otherwise where it quotes it
PARTS = ("xyzzy", "planted-9")
PIPELINE = """\
CREATE STREAM s (k BIGINT, ts TIMESTAMP) WITH (
  format = 'parquet', path = 's', event_time = 'ts', 'option.source.login' = '${env:PLANTED}');
CREATE SINK out WITH (format = 'json', path = 'out', 'option.sink.login' = 'user:${file:key.txt}');
INSERT INTO out SELECT a.k, b.ts FROM s [RANGE 1 MINUTE] AS a, s [RANGE 1 MINUTE] AS b WHERE a.k = b.k;
"""
FAILING = {
    "run": """\
CREATE STREAM t (k BIGINT, ts TIMESTAMP) WITH (
  format = 'json', path = 't', event_time = 'ts', 'option.encoding' = '${env:PLANTED}');
CREATE SINK failed WITH (format = 'json', path = 'failed');
INSERT INTO failed SELECT a.k, b.ts FROM t [RANGE 1 MINUTE] AS a, t [RANGE 1 MINUTE] AS b WHERE a.k = b.k;
""",
    "serve": """\
CREATE SINK failed WITH (format = 'json', path = 'file/${env:PLANTED}');
INSERT INTO failed SELECT a.k, b.ts FROM s [RANGE 1 MINUTE] AS a, s [RANGE 1 MINUTE] AS b WHERE a.k = b.k;
""",
}
SMALL = ("--master", "local[2]", "--conf", "spark.driver.memory=1g")


@dataclass
class Said:
    """What a command has said, how it ended, and the arguments of all processes that it has started."""

    code: int
    text: str
    arguments: set[str]


def run_cli(folder: Path, *arguments: str) -> Said:
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "watersmeet", *arguments], cwd=folder, stdout=output, stderr=output,
            env={**os.environ, "PLANTED": PLANTED},
        )  # fmt: skip
        seen: set[str] = set()
        while process.poll() is None:
            seen.update(each.command for each in descendants(process.pid))
            with suppress(subprocess.TimeoutExpired):
                process.wait(0.5)
        output.seek(0)
        return Said(process.returncode, output.read(), seen)


def leaks(folder: Path, *said: Said) -> list[str]:
    """Where some part of the secret is: in what was said, in processes' arguments, in files."""
    found = [each.text for each in said if any(part in each.text for part in PARTS)]
    found += [line for each in said for line in each.arguments if any(part in line for part in PARTS)]
    for path in folder.rglob("*"):
        is_ours = path.is_file() and path.name != "key.txt"
        content = path.read_bytes() if is_ours else b""
        if any(part in str(path) or part.encode() in content for part in PARTS):
            found.append(str(path))
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("s", "t", "events"):
        (tmp_path / name).mkdir()
    times = pa.array([0, 1_000_000], pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"k": [1, 1], "ts": times}), tmp_path / "s/1.parquet")
    (tmp_path / "t/1.json").write_text('{"k": 1, "ts": "2026-01-01T00:00:00Z"}\n')
    (tmp_path / "file").write_text("not a folder\n")
    (tmp_path / "key.txt").write_text(f"{PLANTED}\n")
    return tmp_path


def answered(folder: Path) -> bool:
    return any(path.stat().st_size for path in (folder / "out").glob("*.json"))


@pytest.mark.variant  # a served dataflow has its options and messages by the same code
def test_a_run_leaves_no_secret_behind_also_where_it_fails(folder: Path) -> None:
    (folder / "flow.sql").write_text(PIPELINE + FAILING["run"])
    arguments = [
        "--available-now", "--json", *SMALL,
        "--conf", "spark.hadoop.some.login=${file:key.txt}",
    ]  # fmt: skip
    done = run_cli(folder, "run", "flow.sql", *arguments)
    assert done.code == 3, done.text
    assert answered(folder), "the run had options with the secret, and answers"
    log = folder / ".watersmeet/flow.log"
    assert "but got ***" in log.read_text(), "Spark failed by what it had to hide"
    assert leaks(folder, done, run_cli(folder, "explain", "flow.sql", "--json")) == []
    for path in (log, folder / ".watersmeet/flow/out/watersmeet.json"):
        assert path.stat().st_mode & 0o777 == 0o600, path
    assert (folder / ".watersmeet").stat().st_mode & 0o777 == 0o700


def test_a_served_dataflow_leaves_no_secret_behind_also_where_a_query_fails(folder: Path) -> None:
    (folder / "flow.sql").write_text(PIPELINE + FAILING["serve"])
    arguments = [
        "--available-now", "--json", *SMALL, "--conf", "spark.hadoop.some.login=${file:key.txt}",
        "--conf", "spark.eventLog.enabled=true", "--conf", f"spark.eventLog.dir=file:{folder}/events",
        "--conf", "spark.eventLog.compress=false",
    ]  # fmt: skip
    done = run_cli(folder, "serve", "flow", "--streams", "flow.sql", *arguments)
    assert done.code == 1, done.text
    assert answered(folder)
    listed = [run_cli(folder, "list", "flow", *options) for options in ((), ("--json",))]
    for each in (done, *listed):
        assert "file/***" in each.text, "the query failed by what was to be hidden"
    assert leaks(folder, done, *listed) == []
    events = b"".join(path.read_bytes() for path in (folder / "events").rglob("*") if path.is_file())
    assert b"some.login" in events, "Spark wrote its settings down, this one without its value"
    for path in (folder / "flow").rglob("*.json"):
        if "spark" not in path.parts:
            assert path.stat().st_mode & 0o777 == 0o600, path

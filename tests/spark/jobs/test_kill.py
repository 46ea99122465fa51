"""A driver or a Python worker killed at any moment costs time, never an answer."""

from __future__ import annotations

import random
import subprocess
import time
from pathlib import Path
from typing import IO

import pytest
from pyspark.sql import SparkSession

from tests.paths import ROOT
from tests.spark.pipelines import QUERIES, random_batches, write_case
from tests.spark.processes import descendants, jvm, kill, python_workers, session_jvm
from tests.spark.run_pipeline import Request
from watersmeet.session import Session
from watersmeet.spark.jobs.job import RunOptions

TO_THE_END = RunOptions(available_now=True, flush=True)


def _start(request: Request) -> subprocess.Popen[str]:
    return subprocess.Popen(
        request.command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def _await_line(lines: IO[str] | None, start: str) -> bool:
    assert lines is not None
    return any(line.startswith(start) for line in lines)


def _await_end(pids: list[int]) -> None:
    """Whatever the dead driver has left running must not meet the one that resumes."""
    deadline = time.monotonic() + 60
    while any(Path(f"/proc/{pid}").exists() for pid in pids):
        assert time.monotonic() < deadline, "processes of a killed driver go on"
        time.sleep(0.1)


@pytest.mark.slow
@pytest.mark.spark
def test_a_driver_killed_again_and_again_still_gives_each_answer_once(
    spark: SparkSession, tmp_path: Path, long_mode: bool
) -> None:
    selects = [QUERIES["plain"], QUERIES["aggregate"]]
    case = write_case(tmp_path, selects, random_batches(seed=20, count=6, rows=25, keys=10))
    rng = random.Random(20)
    request = Request(str(case.file), str(case.checkpoint), str(tmp_path / "spark.log"))
    for attempt in range(12 if long_mode else 1):
        process = _start(request)
        assert _await_line(process.stdout, "batch"), process.communicate()[1]
        time.sleep(rng.uniform(0, 1.0))
        below = [each.pid for each in descendants(process.pid)]
        # Both at once, as when a machine goes down, or the JVM alone, or the program alone.
        victims = {0: [process.pid, jvm(process.pid)], 1: [jvm(process.pid)], 2: [process.pid]}[attempt % 3]
        assert all(victim is not None and kill(victim) for victim in victims)
        process.communicate(timeout=120)
        assert process.returncode != 0
        _await_end(below)
    Session(spark).run(case.file, checkpoint=case.checkpoint, options=TO_THE_END)
    case.check(spark)


def test_a_python_worker_killed_during_a_batch_changes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    case = write_case(tmp_path, QUERIES["rows"], random_batches(seed=21, count=4))
    [job] = Session(spark).start(case.file, checkpoint=case.checkpoint, options=TO_THE_END).jobs
    rng = random.Random(21)
    killed = 0
    while job.is_running():
        job.poll()
        busy = [pid for pid in python_workers(session_jvm(spark)) if _is_busy(pid)]
        if busy and killed < 3:  # a task that fails four times fails its query
            killed += kill(rng.choice(busy))
        time.sleep(rng.uniform(0, 0.4))
    job.poll()
    assert killed
    case.check(spark)


def _is_busy(pid: int) -> bool:
    """Whether a worker is at work: idle ones sleep."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "R"
    except OSError:
        return False

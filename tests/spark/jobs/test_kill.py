"""A driver or a Python worker killed at any moment costs time, never an answer."""

from __future__ import annotations

import random
import subprocess
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.paths import ROOT
from tests.spark.pipelines import QUERIES, arrive, random_batches, write_case
from tests.spark.processes import jvm, kill, python_workers, session_jvm
from tests.spark.run_pipeline import Request
from watersmeet.errors import ConfigurationError
from watersmeet.session import Session
from watersmeet.spark.jobs.job import RunOptions
from watersmeet.spark.jobs.run_lock import LOCK

TO_THE_END = RunOptions(available_now=True, flush=True)


def _start(request: Request) -> subprocess.Popen[str]:
    return subprocess.Popen(
        request.command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


@pytest.mark.slow
@pytest.mark.spark
def test_a_driver_killed_again_and_again_still_gives_each_answer_once(
    spark: SparkSession, tmp_path: Path, long_mode: bool
) -> None:
    """A round: two files more, a run, a kill at any moment; the next run waits for what is left of it."""
    rounds = 20 if long_mode else 3
    selects = [QUERIES["plain"], QUERIES["aggregate"]]
    batches = random_batches(seed=20, count=2 * rounds, rows=25, keys=10)
    case = write_case(tmp_path, selects, batches, arrived=0)
    rng = random.Random(20)
    request = Request(
        str(case.file), str(case.checkpoint), str(tmp_path / "spark.log"), available_now=False, flush=False
    )
    for number in range(rounds):
        arrive(case, range(2 * number, 2 * number + 2))
        process = _start(request)
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "started\n", process.communicate()[1]
            time.sleep(rng.uniform(0, 8))  # while it starts, or in some batch
            if number == rounds - 1:
                _await_lock(case.checkpoint / LOCK, process.pid)
                with pytest.raises(ConfigurationError, match=rf"in use by process {process.pid} on "):
                    Session(spark).start(case.file, checkpoint=case.checkpoint)
            # The program alone, both at once, as when a machine goes down, or the JVM alone.
            whom = {0: [process.pid], 1: [process.pid, jvm(process.pid)], 2: [jvm(process.pid)]}
            victims = whom[(rounds - 1 - number) % 3]
            assert all(victim is not None and kill(victim) for victim in victims)
        finally:
            process.kill()
            process.communicate(timeout=120)
    # At once, while the last JVM may still be at it.
    Session(spark).run(case.file, checkpoint=case.checkpoint, options=TO_THE_END)
    case.check(spark)


def _await_lock(path: Path, pid: int) -> None:
    """Returns when a run holds the checkpoint, which it does before it reads or writes anything there."""
    deadline = time.monotonic() + 120
    while f'"pid":{pid},' not in (path.read_text() if path.exists() else ""):
        assert time.monotonic() < deadline, "the run did not come to its checkpoint"
        time.sleep(0.1)


def test_a_python_worker_killed_during_a_batch_changes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    case = write_case(tmp_path, QUERIES["rows"], random_batches(seed=21, count=4))
    run = Session(spark).start(case.file, checkpoint=case.checkpoint, options=TO_THE_END)
    rng = random.Random(21)
    killed = 0
    while run.is_running():
        busy = [pid for pid in python_workers(session_jvm(spark)) if _is_busy(pid)]
        if busy and killed < 3:  # a task that fails four times fails its query
            killed += kill(rng.choice(busy))
        time.sleep(rng.uniform(0, 0.4))
    run.follow()
    assert killed
    case.check(spark)


def _is_busy(pid: int) -> bool:
    """Whether a worker is at work: idle ones sleep."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "R"
    except OSError:
        return False

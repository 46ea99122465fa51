"""Sites that are killed at any moment, and one that starts late: late answers, never wrong ones."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.sites.random_sites import PLACES, draw_sites
from tests.sites.test_run_site import SITES, assert_answers, example
from watersmeet.oracle.oracle import bag

__all__ = ["example"]  # a fixture

KILLS = 4  # at the most: sites may have ended by then
LATE_AFTER = 2  # kills, or once the others have ended, the last site starts
DEADLINE_S = 1500.0


def start(file: Path, site: str, plan: str) -> subprocess.Popen[bytes]:
    """One site as a person would start it, with a process group of its own."""
    words = ["run", str(file), "--site", site, "--available-now", "--flush", "--plan", plan]
    log = file.parent / f"{site}.log"
    with (file.parent / f"{site}.out").open("ab") as out:
        return subprocess.Popen(
            [sys.executable, "-m", "watersmeet", *words, "--log", str(log)],
            stdout=out,
            stderr=out,
            start_new_session=True,
        )


def run_with_kills(file: Path, sites: Sequence[str], plan: str, rng: random.Random) -> None:
    """Runs all sites to their end, the last of them late, and kills one now and then at any moment."""
    *early, late = sites
    running = {site: start(file, site, plan) for site in early}
    deadline, kills = time.monotonic() + DEADLINE_S, 0
    try:
        while len(running) < len(sites) or any(process.poll() is None for process in running.values()):
            assert time.monotonic() < deadline, "the sites have not ended"
            time.sleep(rng.uniform(5.0, 30.0))
            alive = [site for site, process in running.items() if process.poll() is None]
            if kills < KILLS and alive:
                victim = rng.choice(alive)
                os.killpg(running[victim].pid, signal.SIGKILL)
                if running[victim].wait() == -signal.SIGKILL:  # or it had just ended by itself
                    kills += 1
                    running[victim] = start(file, victim, plan)
            for site, process in running.items():
                if process.poll() not in (None, 0):  # such as a machine too busy to start a worker in time
                    running[site] = start(file, site, plan)
            if (kills >= LATE_AFTER or not alive) and late not in running:
                running[late] = start(file, late, plan)
    finally:
        for process in running.values():
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
    assert kills >= 1


@pytest.mark.spark
@pytest.mark.variant
@pytest.mark.parametrize("seed", [1, 2])
def test_sites_that_are_killed_give_each_answer_once(example: Path, seed: int) -> None:
    run_with_kills(example, SITES, "pmjoin, by rate", random.Random(seed))
    assert_answers(example.parent)


@pytest.mark.spark
@pytest.mark.variant
@pytest.mark.parametrize(
    ("seed", "sites", "kind", "plan"),
    [
        (1, 2, "distinct", "semijoin, linear, SM-S1 and SM-D2"),
        (14, 3, "distinct", "distributed, Algorithm 1"),
        (15, 3, "aggregate", "semijoin, linear, any"),
    ],
)
def test_sites_that_are_killed_give_each_value_and_group_once(
    tmp_path: Path, seed: int, sites: int, kind: str, plan: str
) -> None:
    case = draw_sites(tmp_path, seed, kind, sites)
    run_with_kills(case.file, PLACES[:sites], plan, random.Random(seed))
    assert bag(case.found) == bag(case.expected)


@pytest.mark.spark
@pytest.mark.variant
def test_all_sites_are_stopped_and_resumed_together(example: Path) -> None:
    """Ctrl-C, then the same command again; the bill at the end is of both runs."""
    words = ["sites", str(example), "--available-now", "--flush", "--plan", "pmjoin, by rate"]
    command = [sys.executable, "-m", "watersmeet", *words]
    log = example.parent / "sites.out"
    with log.open("wb") as out:
        first = subprocess.Popen(command, stdout=out, stderr=out, start_new_session=True)
        deadline = time.monotonic() + DEADLINE_S
        while b" batches" not in log.read_bytes() and time.monotonic() < deadline:
            time.sleep(0.2)
        first.send_signal(signal.SIGINT)
        assert first.wait(DEADLINE_S) == 130
    assert "stopped; to resume:\n  watersmeet sites" in log.read_text()
    again = subprocess.run(command, capture_output=True, text=True, check=False)
    assert again.returncode == 0, again.stderr
    assert "n2 -> n1      18.43     18    16" in again.stderr
    assert_answers(example.parent)

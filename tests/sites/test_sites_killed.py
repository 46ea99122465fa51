"""Sites that are killed at any moment, and one that starts late: late answers, never wrong ones."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.sites.test_run_site import SITES, assert_answers, example

__all__ = ["example"]  # a fixture

KILLS = 4  # at the most: sites may have ended by then
LATE_AFTER = 2  # kills, the last site starts
DEADLINE_S = 1500.0


def start(file: Path, site: str) -> subprocess.Popen[bytes]:
    """One site as a person would start it, with a process group of its own."""
    words = ["run", str(file), "--site", site, "--available-now", "--flush", "--plan", "pmjoin, by rate"]
    log = file.parent / f"{site}.log"
    with (file.parent / f"{site}.out").open("ab") as out:
        return subprocess.Popen(
            [sys.executable, "-m", "watersmeet", *words, "--log", str(log)],
            stdout=out,
            stderr=out,
            start_new_session=True,
        )


@pytest.mark.spark
@pytest.mark.variant
@pytest.mark.parametrize("seed", [1, 2])
def test_sites_that_are_killed_give_each_answer_once(example: Path, seed: int) -> None:
    rng, late = random.Random(seed), "n3"
    running = {site: start(example, site) for site in SITES if site != late}
    deadline, kills = time.monotonic() + DEADLINE_S, 0
    try:
        while len(running) < len(SITES) or any(process.poll() is None for process in running.values()):
            assert time.monotonic() < deadline, "the sites have not ended"
            time.sleep(rng.uniform(5.0, 30.0))
            alive = [site for site, process in running.items() if process.poll() is None]
            if kills < KILLS and alive:
                victim = rng.choice(alive)
                os.killpg(running[victim].pid, signal.SIGKILL)
                if running[victim].wait() == -signal.SIGKILL:  # or it had just ended by itself
                    kills += 1
                    running[victim] = start(example, victim)
            for site, process in running.items():
                if process.poll() not in (None, 0):  # such as a machine too busy to start a worker in time
                    running[site] = start(example, site)
            if kills >= LATE_AFTER and late not in running:
                running[late] = start(example, late)
    finally:
        for process in running.values():
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
    assert kills >= LATE_AFTER
    assert_answers(example.parent)


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

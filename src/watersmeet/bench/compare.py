"""Runs every engine on a workload, one after another, and puts their figures side by side.

Figures are of steady batches: engines have run the query before, and its first few batches are left out. The
ratios are what counts; absolute figures are of this machine on this day.
"""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from watersmeet.bench.engines import WARM_UP, WARM_UP_S, Batch, Outcome
from watersmeet.bench.workloads import WORKLOADS, Workload
from watersmeet.errors import ConfigurationError, WatersmeetError

SWEEP = (5_000, 50_000, 500_000)
ENGINE_NAMES = ("ours", "cascade", "cascade-rocksdb", "cascade-untuned", "duckdb")
FIRST_BATCHES = 3  # a new query plans, opens state and fills its windows in them
SAMPLE_S = 0.2


@dataclass(frozen=True, kw_only=True)
class Figures:
    """One engine on one workload at one batch size."""

    engine: str
    workload: str
    batch_rows: int
    rows_per_s: float
    p50_ms: float
    p95_ms: float
    peak_memory_bytes: int
    state_bytes: int
    live_rows: int
    answers: int


@dataclass(frozen=True)
class Comparison:
    """All engines on one workload at one batch size; answers are known to agree."""

    workload: str
    batch_rows: int
    batches: int
    figures: tuple[Figures, ...]

    def of(self, engine: str) -> Figures | None:
        return next((figures for figures in self.figures if figures.engine == engine), None)

    def speedup(self, over: str) -> float | None:
        """How many times our rows/s are another engine's."""
        ours, theirs = self.of("ours"), self.of(over)
        return ours.rows_per_s / theirs.rows_per_s if ours and theirs and theirs.rows_per_s else None


def compare(
    name: str,
    *,
    batch_rows: int,
    batches: int,
    engines: Sequence[str] = ("ours", "cascade", "cascade-rocksdb", "duckdb"),
    warm_up_s: float = WARM_UP_S,
    partitions: int | None = None,
    report: Callable[[str], None] = lambda _: None,
) -> Comparison:
    """Writes the data, runs the engines one after another, checks that their answers agree.

    Without a number of shuffle partitions every engine has the one that suits it.
    """
    workload = _workload(name)
    folder = Path(tempfile.mkdtemp(prefix="watersmeet-bench-"))
    try:
        report(f"{name}: writing {batches} batches of {batch_rows} rows")
        workload.write(folder, batch_rows=batch_rows, batches=batches)
        outcomes = []
        for engine in engines:
            report(f"{name}: {engine}")
            outcomes.append(_run(engine, workload, folder, batch_rows, warm_up_s, partitions))
            shutil.rmtree(folder / WARM_UP, ignore_errors=True)
        _check_agreement(name, [outcome for outcome, _ in outcomes])
        return Comparison(name, batch_rows, batches, tuple(figures for _, figures in outcomes))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _workload(name: str) -> Workload:
    if name not in WORKLOADS:
        raise ConfigurationError(f"there is no workload {name}; there are {', '.join(WORKLOADS)}")
    return WORKLOADS[name]


def _run(
    engine: str,
    workload: Workload,
    folder: Path,
    batch_rows: int,
    warm_up_s: float,
    partitions: int | None,
) -> tuple[Outcome, Figures]:
    child = [sys.executable, "-m", "watersmeet.bench.child"]
    command = [*child, engine, workload.name, str(folder), str(warm_up_s)]
    command += [] if partitions is None else [str(partitions)]
    peak_bytes = run_child(command, f"{engine} on {workload.name}")
    record = json.loads((folder / f"{engine}.json").read_text())
    outcome = Outcome(
        engine, tuple(Batch(**batch) for batch in record["batches"]), record["answers"], record["digest"]
    )
    return outcome, _figures(outcome, workload.name, batch_rows, peak_bytes)


def run_child(command: Sequence[str], what: str) -> int:
    """Runs a process to its end; the peak of its memory. A failure quotes the end of its output."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        memory = _PeakMemory(process.pid)
        memory.start()
        output, _ = process.communicate()
        memory.stop()
    if process.returncode:
        raise WatersmeetError(f"{what} failed:\n{output[-3000:]}")
    return memory.peak_bytes


def _figures(outcome: Outcome, workload: str, batch_rows: int, peak_bytes: int) -> Figures:
    steady = outcome.batches[FIRST_BATCHES:] if len(outcome.batches) > FIRST_BATCHES else outcome.batches
    times = sorted(batch.ms for batch in steady)
    return Figures(
        engine=outcome.engine,
        workload=workload,
        batch_rows=batch_rows,
        rows_per_s=1000 * sum(batch.rows for batch in steady) / max(1, sum(times)),
        p50_ms=statistics.median(times),
        p95_ms=times[min(len(times) - 1, int(0.95 * len(times)))],
        peak_memory_bytes=peak_bytes,
        state_bytes=max((batch.state_bytes for batch in steady), default=0),
        live_rows=max((batch.live_rows for batch in steady), default=0),
        answers=outcome.answers,
    )


def _check_agreement(name: str, outcomes: Sequence[Outcome]) -> None:
    """Engines that give different answers are not compared by speed."""
    different = {(outcome.answers, outcome.digest) for outcome in outcomes}
    if len(different) > 1:
        counts = ", ".join(f"{outcome.engine} {outcome.answers}" for outcome in outcomes)
        raise WatersmeetError(f"{name}: the engines' answers differ ({counts})")


class _PeakMemory(threading.Thread):
    """The largest resident memory of a process and its descendants together, looked at now and then."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.peak_bytes = 0
        self._pid = pid
        self._done = threading.Event()

    def run(self) -> None:
        while not self._done.is_set():
            self.peak_bytes = max(self.peak_bytes, tree_memory(self._pid))
            time.sleep(SAMPLE_S)

    def stop(self) -> None:
        self._done.set()
        self.join()


def tree_memory(pid: int) -> int:
    """Bytes of memory of a process and all its descendants, shared pages counted once each (PSS)."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rsplit(")", 1)[1].split()
            parents.setdefault(int(fields[1]), []).append(int(entry.parent.name))
        except (OSError, IndexError, ValueError):
            continue
    total, todo = 0, [pid]
    while todo:
        current = todo.pop()
        todo += parents.get(current, [])
        total += _proportional_bytes(current)
    return total


def _proportional_bytes(pid: int) -> int:
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except OSError:
        return 0
    return 0

"""Runs one engine on one workload and makes its figures, the same way with micro-batches and without.

Each engine's clock runs from the moment it has the query to its last answer; ours is the sum of Spark's batch
times. Three times are taken: of a tiny input (its start-up), of the first half of the rows, of all of them. A
peer runs anew for each; ours reports every batch, so the first half is read off the run of the whole. Ours
has run the query for a while before, as in `watersmeet bench`, because its first half is over before a JVM is
warm; `ours-cold` has not.

    net rows/s    = all rows / (time of all - start-up)
    steady rows/s = rows of the second half / (time of all - time of the first half)
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import duckdb
from benchmarks.peers.data import MARK, job_of

from watersmeet.bench.compare import tree_memory
from watersmeet.bench.engines import WARM_UP, WARM_UP_S, digest_answers
from watersmeet.bench.workloads import Workload

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
SAMPLE_S = 0.2
OURS = {"ours": WARM_UP_S, "ours-cold": 0}  # seconds before it is measured
TOLD = 600  # characters of a failed engine's output that are repeated


@dataclass(frozen=True)
class Run:
    """One engine, one input: its seconds, the memory of its processes, its answers."""

    seconds: float
    peak_bytes: int
    answers: int
    digest: int
    first_half_s: float | None = None  # where the engine reports it
    plan: str = ""


@dataclass(frozen=True)
class Figures:
    """One engine on one workload; `problem` says why it has none or cannot be compared."""

    workload: str
    engine: str
    rows: int
    startup_s: float = 0.0
    first_half_s: float = 0.0
    seconds: float = 0.0
    peak_bytes: int = 0
    answers: int = 0
    digest: int = 0
    plan: str = ""
    problem: str = ""

    @property
    def net_rows_per_s(self) -> float:
        return _rate(self.rows, self.seconds - self.startup_s)

    @property
    def steady_rows_per_s(self) -> float:
        return _rate(self.rows / 2, self.seconds - self.first_half_s)


class EngineError(Exception):
    """An engine that refused, failed, or took too long."""


def _rate(rows: float, seconds: float) -> float:
    return rows / seconds if seconds > 0 else 0.0


def measure(
    workload: Workload, engine: str, inputs: dict[str, Path], rows: int, *, cores: int, limit_s: float
) -> Figures:
    """All figures of an engine on a workload; its inputs are `tiny`, `half` and `all`."""
    run = run_ours if engine in OURS else run_peer
    try:
        tiny = run(workload, engine, inputs["tiny"], cores, limit_s)
        whole = run(workload, engine, inputs["all"], cores, limit_s)
        half_s = whole.first_half_s
        if half_s is None:
            half_s = run(workload, engine, inputs["half"], cores, limit_s).seconds
    except EngineError as problem:
        return Figures(workload.name, engine, rows, problem=str(problem))
    return Figures(
        workload.name,
        engine,
        rows,
        tiny.seconds,
        half_s,
        whole.seconds,
        whole.peak_bytes,
        whole.answers,
        whole.digest,
        whole.plan,
    )


def run_ours(workload: Workload, engine: str, folder: Path, _cores: int, limit_s: float) -> Run:
    """Our engine in a process of its own, as `watersmeet bench` runs it."""
    command = [sys.executable, "-m", "watersmeet.bench.child", "ours", workload.name, str(folder)]
    for left_over in ("ours", WARM_UP):
        shutil.rmtree(folder / left_over, ignore_errors=True)
    peak = _watch([*command, str(OURS[engine])], folder / f"{engine}.out", limit_s)
    record = json.loads((folder / "ours.json").read_text())
    times = [batch["ms"] / 1000 for batch in record["batches"]]
    first_half = sum(times[: len(times) // 2])
    return Run(sum(times), peak, record["answers"], record["digest"], first_half)


def run_peer(workload: Workload, engine: str, folder: Path, cores: int, limit_s: float) -> Run:
    """A peer in its own environment; `flink-rocksdb` is a variant of flink."""
    name = engine.split("-")[0]
    out = folder / f"out-{engine}"
    shutil.rmtree(out, ignore_errors=True)
    job, result = folder / f"{engine}.job.json", folder / f"{engine}.json"
    job.write_text(job_of(workload, folder, out, cores).as_json())
    python = HERE / f".venv-{name}" / "bin" / "python"
    if not python.exists():
        raise EngineError(f"no environment for {name}; `make bench-peers` makes it")
    command = [str(python), "-m", f"benchmarks.peers.{name}_peer", engine, str(job), str(result)]
    peak = _watch(command, folder / f"{engine}.out", limit_s, {"PATHWAY_THREADS": str(cores)})
    record = json.loads(result.read_text())
    if "refused" in record:
        raise EngineError(f"refused: {record['refused']}")
    answers, digest = digest_of(workload, out)
    return Run(record["seconds"], peak, answers, digest, plan=record.get("plan", ""))


def digest_of(workload: Workload, out: Path) -> tuple[int, int]:
    """Count and digest of a peer's answers in the columns and types of ours, less those it withdrew."""
    sizes = ", ".join(f"size_{alias}::BIGINT AS size_{alias}" for alias in workload.aliases)
    select = f"SELECT {sizes}, make_timestamptz(answer_us::BIGINT) AS answer_time"
    files = [file for file in out.rglob("*") if file.is_file() and file.stat().st_size]
    if not files:
        return 0, 0
    if files[0].suffix == ".csv":
        source = f"FROM read_csv('{out}/*.csv', header = true) WHERE size_a <> {MARK}"
        sql = f"{select} {source} AND diff = 1 EXCEPT ALL {select} {source} AND diff = -1"
    else:
        sql = f"{select} FROM read_parquet({[str(file) for file in files]})"
    target = out.parent / f"{out.name}.parquet"
    duckdb.connect().execute(f"COPY ({sql}) TO '{target}' (FORMAT parquet)")
    return digest_answers(out.parent, str(target))


def _watch(command: list[str], log: Path, limit_s: float, settings: dict[str, str] | None = None) -> int:
    """Runs a command from the project's root; the most memory that it and its descendants had at once."""
    deadline, peak = time.monotonic() + limit_s, 0
    environment = {**os.environ, **(settings or {})}
    with (
        log.open("w") as output,
        subprocess.Popen(
            command, stdout=output, stderr=output, cwd=ROOT, env=environment, start_new_session=True
        ) as process,
    ):
        try:
            while process.poll() is None:
                peak = max(peak, tree_memory(process.pid))
                if time.monotonic() > deadline:
                    raise EngineError(f"stopped after {limit_s:.0f} s")
                time.sleep(SAMPLE_S)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # JVMs that outlive their parent too
    if process.returncode:
        raise EngineError(f"failed: {log.read_text()[-TOLD:].strip()}")
    return peak

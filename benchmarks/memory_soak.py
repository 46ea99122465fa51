"""A window that cannot fit: does the memory of the Python workers stay flat under a limit of state?

    python benchmarks/memory_soak.py --seconds 360

Two made-up streams of wide tuples under a window of an hour, far more than the limit holds. Every few seconds
prints the memory of all Python workers together (what they share counted once) and of the largest, beside
what the query tells of its state. At the end the peaks of the first and the last third of the time that the
state was at its limit: alike if memory is flat.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from watersmeet.kernel import Shed, StateLimit
from watersmeet.query.byte_size import format_bytes, parse_bytes
from watersmeet.session import Session
from watersmeet.spark.jobs.job import Job, RunOptions
from watersmeet.spark.metrics.progress import Progress

PIPELINE = """
CREATE STREAM {name} (k BIGINT, payload BINARY, ts TIMESTAMP) WITH (format = 'watersmeet-generator',
  event_time = 'ts', stream = '{name}', rate = '{rate}', keys = '{keys}', payload = '{payload}');
"""
QUERY = """
CREATE SINK out WITH (format = 'noop');
INSERT INTO out SELECT a.k, a.payload, length(b.payload) AS other
FROM a [RANGE 1 HOUR], b [RANGE 1 HOUR] WHERE a.k = b.k;
"""


def worker_memory() -> list[int]:
    """Bytes of each Python worker of this process's Spark, with its part of what they share."""
    parents, sizes = {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rsplit(")", 1)[1].split()
            command = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        parents[int(folder.name)] = int(fields[1])
        if b"\0-m\0watersmeet.spark.daemon" in command or b"\0-m\0pyspark.daemon" in command:
            sizes[int(folder.name)] = _proportional_bytes(folder)
    return [size for process, size in sizes.items() if _is_ours(process, parents)]


def _proportional_bytes(folder: Path) -> int:
    try:
        lines = (folder / "smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), 0)


def _is_ours(process: int, parents: dict[int, int]) -> bool:
    own = int(Path("/proc/self").resolve().name)
    while process in parents and process != own:
        process = parents[process]
    return process == own


@dataclass
class Soak:
    """Samples while the query runs."""

    seconds: float
    began: float = field(default_factory=time.monotonic)
    samples: list[tuple[float, int, int]] = field(default_factory=list)
    last: Progress | None = None
    full_at: float | None = None  # when the first tuple was shed

    def is_over(self) -> bool:
        elapsed = time.monotonic() - self.began
        sizes = worker_memory()
        self.samples.append((elapsed, sum(sizes), max(sizes, default=0)))
        return elapsed > self.seconds

    def show(self, job: Job, progress: Progress) -> None:
        elapsed, total, largest = self.samples[-1]
        if self.last is None or progress.batch_id % 3 == 0:
            print(
                f"{elapsed:6.0f} s  batch {progress.batch_id:4}  {progress.rows_per_s / 1000:6.1f}k rows/s  "
                f"state {format_bytes(progress.memory_bytes):>9}  workers {format_bytes(total):>9}  "
                f"largest {format_bytes(largest):>9}  shed {progress.totals.shed:>9}  "
                f"complete {progress.totals.completeness:.1%}",
                flush=True,
            )
        self.last = progress
        if self.full_at is None and progress.totals.shed:
            self.full_at = elapsed

    def peaks(self) -> tuple[int, int]:
        """The largest memory of all workers in the first and the last third of the time at the limit."""
        since = self.seconds if self.full_at is None else self.full_at
        third = (self.seconds - since) / 3
        first = [total for at, total, _ in self.samples if since < at <= since + third]
        last = [total for at, total, _ in self.samples if at > self.seconds - third]
        return max(first, default=0), max(last, default=0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=360)
    parser.add_argument("--limit", default="100MB")
    parser.add_argument("--shed", choices=[shed.value for shed in Shed], default="random")
    parser.add_argument("--rate", type=int, default=15_000)
    parser.add_argument("--payload", type=int, default=200)
    parser.add_argument("--keys", type=int, default=2_000_000)
    arguments = parser.parse_args()
    facts = {"rate": arguments.rate, "payload": arguments.payload, "keys": arguments.keys}
    limit = StateLimit(parse_bytes(arguments.limit), Shed(arguments.shed))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "soak.sql"
        file.write_text("".join(PIPELINE.format(name=name, **facts) for name in "ab") + QUERY)
        session = Session(log=Path(folder) / "spark.log")
        run = session.start(file, options=RunOptions(limit=limit))
        soak = Soak(arguments.seconds)
        try:
            run.follow(soak.show, until=soak.is_over)
        finally:
            run.stop()
            session.spark.stop()
    first, last = soak.peaks()
    print(
        f"peak of all workers at the limit: {format_bytes(first)} in its first third of time, then "
        f"{format_bytes(last)} in its last"
    )


if __name__ == "__main__":
    main()

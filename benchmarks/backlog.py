"""A backlog of files worked off by an available-now run: rows a second, and whether memory stays flat.

    python benchmarks/backlog.py --rows 5000000 --batch-bytes 8MB
    python benchmarks/backlog.py --rows 200000000 --folder /tmp/backlog

Makes the files of three streams with 3, 2 and 1 parts of the rows over the same event time, runs a three-way
window join over them with `--available-now`, and samples the resident memory of the driver's JVM and of all
Python workers together from /proc. The peak of each third of the run is printed: a run that keeps what it has
read would grow from one to the next. `ahead` is how far, at most, one stream was read ahead of another.
"""

from __future__ import annotations

import argparse
import itertools
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from watersmeet import Session
from watersmeet.spark.jobs.job import Job, RunOptions
from watersmeet.spark.metrics.progress import Progress

PARTS = {"s1": 3, "s2": 2, "s3": 1}  # of the rows
EVENT_ROWS_PER_S = 20_000  # of all streams together
WINDOW = "10 SECONDS"
KEYS = 200_000
FILE_ROWS = 50_000
PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Sample:
    """The memory of one moment, in bytes."""

    at_s: float
    driver: int
    workers: int


@dataclass
class Memory:
    """Samples the processes below this one until it is stopped."""

    every_s: float = 0.25
    samples: list[Sample] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        while not self._stop.wait(self.every_s):
            below = list(_descendants(os.getpid()))
            java = sum(_resident(pid) for pid in below if _command(pid).endswith("java"))
            others = sum(_resident(pid) for pid in below if not _command(pid).endswith("java"))
            self.samples.append(Sample(time.monotonic(), java + _resident(os.getpid()), others))

    def stop(self) -> None:
        self._stop.set()


def main() -> None:
    """Makes the files, runs over them, prints what it took."""
    options = _arguments()
    folder = options.folder or Path(tempfile.mkdtemp(prefix="backlog-"))
    try:
        _make_files(folder, options.rows)
        _run(folder, options)
    finally:
        if options.folder is None:
            shutil.rmtree(folder)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=5_000_000, help="of all streams together")
    parser.add_argument("--batch-bytes", help="spark.watersmeet.batchBytes [default: the engine's]")
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--folder", type=Path, help="keeps the files here, and takes those that are there")
    return parser.parse_args()


def _make_files(folder: Path, rows: int) -> None:
    """Parquet files in order of event time, and of modification: files of one time are of one instant."""
    seconds = rows / EVENT_ROWS_PER_S
    rng = np.random.default_rng(7)
    for name, part in PARTS.items():
        own = rows * part // sum(PARTS.values())
        (folder / name).mkdir(parents=True, exist_ok=True)
        for start in range(0, own, FILE_ROWS):
            file = folder / name / f"{start:012d}.parquet"
            if file.exists():
                continue
            numbers = np.arange(start, min(start + FILE_ROWS, own))
            times = (numbers * (seconds * 1e6 / own)).astype(np.int64)
            columns = {
                "dest": pa.array(rng.integers(0, KEYS, len(numbers))),
                "size": pa.array(rng.integers(0, 1500, len(numbers))),
                "ts": pa.array(times, pa.timestamp("us", "UTC")),
            }
            pq.write_table(pa.table(columns), file)
            modified = 1_700_000_000 + times[0] / 1e6
            os.utime(file, (modified, modified))


def _run(folder: Path, options: argparse.Namespace) -> None:
    pipeline = folder / "pipeline.sql"
    streams = "\n".join(
        f"CREATE STREAM {name} (dest BIGINT, size BIGINT, ts TIMESTAMP) WITH (format = 'parquet', "
        f"path = '{name}', event_time = 'ts', lateness = '1 second');"
        for name in PARTS
    )
    pipeline.write_text(
        f"{streams}\nCREATE SINK nowhere WITH (format = 'noop');\nINSERT INTO nowhere "
        f"SELECT a.dest, a.size, b.size AS size_b, c.size AS size_c FROM s1 [RANGE {WINDOW}] AS a, "
        f"s2 [RANGE {WINDOW}] AS b, s3 [RANGE {WINDOW}] AS c WHERE a.dest = b.dest AND b.dest = c.dest;\n"
    )
    conf = {} if options.batch_bytes is None else {"spark.watersmeet.batchBytes": options.batch_bytes}
    checkpoint = Path(tempfile.mkdtemp(prefix="backlog-checkpoint-"))
    session = Session(master=options.master, conf=conf)
    memory, batches = Memory(), list[Progress]()
    sampler = threading.Thread(target=memory.run, daemon=True)
    sampler.start()
    started = time.monotonic()

    first: list[float] = []  # when the first batch was done: until then everything is being loaded

    def follow(_: Job, progress: Progress) -> None:
        batches.append(progress)
        first[:] = first or [time.monotonic()]

    try:
        session.run(
            pipeline, checkpoint=checkpoint, options=RunOptions(available_now=True), on_progress=follow
        )
        took_s = time.monotonic() - started
    finally:
        memory.stop()
        sampler.join()
        session.spark.stop()
        shutil.rmtree(checkpoint)
    _report(batches, memory.samples, first[0], started, took_s)


def _report(
    batches: list[Progress], samples: list[Sample], first: float, started: float, took_s: float
) -> None:
    rows = sum(batch.rows for batch in batches)
    steady = batches[len(batches) // 3 :]
    busy_s = sum(batch.batch_ms for batch in steady) / 1000
    print(f"{rows:,} rows in {len(batches)} batches, {took_s:.1f} s: {rows / took_s:,.0f} rows/s in all,")
    print(f"{sum(batch.rows for batch in steady) / max(busy_s, 0.001):,.0f} rows/s in the last two thirds")
    print(f"late {sum(batch.late for batch in batches)}, answers {sum(batch.answers for batch in batches):,}")
    print(f"largest batch: {max(batch.rows for batch in batches):,} rows, ahead {_ahead_s(batches):.1f} s")
    state = max(batch.memory_bytes for batch in batches) / 1e6
    print(f"largest state: {state:,.0f} MB")
    for number, (low, high) in enumerate(itertools.pairwise(np.linspace(first, started + took_s, 4)), 1):
        own = [sample for sample in samples if low <= sample.at_s < high]
        driver = max((sample.driver for sample in own), default=0) / 1e6
        workers = max((sample.workers for sample in own), default=0) / 1e6
        print(f"third {number}: driver {driver:,.0f} MB, workers {workers:,.0f} MB")


def _ahead_s(batches: list[Progress]) -> float:
    """How far one stream was ahead of another after a batch, while both had more to come."""
    last = {item.alias: item.max_ts_us for item in batches[-1].inputs}
    ahead = [0.0]
    for batch in batches:
        times = [
            item.max_ts_us
            for item in batch.inputs
            if item.max_ts_us is not None and item.max_ts_us != last[item.alias]
        ]
        if len(times) == len(batch.inputs):
            ahead.append((max(times) - min(times)) / 1e6)
    return max(ahead)


def _descendants(pid: int) -> Iterator[int]:
    try:
        children = Path(f"/proc/{pid}/task").glob("*/children")
        found = [int(child) for file in children for child in file.read_text().split()]
    except OSError:
        return
    for child in found:
        yield child
        yield from _descendants(child)


def _resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE
    except (OSError, IndexError):
        return 0


def _command(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/exe")
    except OSError:
        return ""


if __name__ == "__main__":
    if sys.platform != "linux":
        sys.exit("memory is read from /proc, which only Linux has")
    main()

"""What the worst input does to memory: each case runs through Spark in a process of its own.

    python benchmarks/adversary.py                          # every case at its full size
    python benchmarks/adversary.py --quick                  # every case in seconds
    python benchmarks/adversary.py "hot key" --size 20000

For each case a row of a table: the peak memory of the driver (its JVM and its Python) and of the largest
Python worker, both above what they take once a query of a few tuples has run; the state at its largest, which
is what the windows must hold; rows of the files and answers a second; and whether the counts are right and
each worker has kept within the bound above its state. A case is a pipeline file and the files its streams
read: to add one, write a function that makes them, and name it in `CASES`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from watersmeet.session import Session
from watersmeet.spark.jobs.job import Job, RunOptions
from watersmeet.spark.metrics.progress import Progress

BOUND = 512 << 20  # of a worker, above its state and what it takes when idle
MEGABYTE = 1 << 20
SECOND_US = 1_000_000
HOT_ROWS = 5_000  # of a file of a hot key: what is done is counted batch by batch
PAGE = os.sysconf("SC_PAGE_SIZE")

STREAM = """
CREATE STREAM {name} (k BIGINT, v BIGINT, note STRING, ts TIMESTAMP)
  WITH (format = 'parquet', path = '{name}', event_time = 'ts'{options});
"""
JOIN = """
CREATE SINK out WITH (format = 'noop');
INSERT INTO out SELECT {select} FROM a [RANGE 1 MINUTE], b [RANGE 1 MINUTE] WHERE a.k = b.k;
"""
PAIRS = "a.k, a.v AS va, b.v AS vb"


@dataclass(frozen=True)
class Expected:
    """What must come of a case; tuples without a key do not come as far as the join."""

    rows: int
    answers: int
    late: int = 0
    without_key: int = 0


@dataclass(frozen=True)
class Case:
    """A worst case: `make` writes a pipeline of a size into a folder and says what must come of it."""

    name: str
    make: Callable[[Path, int], Expected]
    size: int
    quick: int


@dataclass
class Outcome:
    """What was measured of a case; memory in bytes above idle."""

    seconds: float = 0.0
    rows: int = 0  # that came as far as the join
    without_key: int = 0
    answers: int = 0
    late: int = 0
    driver: int = 0
    worker: int = 0
    state: int = 0
    problems: list[str] = field(default_factory=list)


def tuples(
    keys: np.ndarray, *, start: int = 0, at_us: int = 0, notes: Sequence[str] | None = None
) -> pa.Table:
    """Tuples with these keys, a microsecond apart; NULL where a key is below zero."""
    numbers = np.arange(start, start + len(keys))
    return pa.table(
        {
            "k": pa.array(keys, pa.int64(), mask=keys < 0),
            "v": pa.array(numbers),
            "note": pa.array(notes if notes is not None else [None] * len(keys), pa.string()),
            "ts": pa.array(at_us + numbers, pa.timestamp("us", "UTC")),
        }
    )


def write(folder: Path, name: str, *files: pa.Table) -> None:
    """The files of a stream, in order of their time of change."""
    (folder / name).mkdir(exist_ok=True)
    for number, table in enumerate(files):
        path = folder / name / f"{number:07}.parquet"
        pq.write_table(table, path)
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))


def pipeline(folder: Path, select: str = PAIRS, options: str = "") -> None:
    streams = "".join(STREAM.format(name=name, options=options) for name in "ab")
    (folder / "pipeline.sql").write_text(streams + JOIN.format(select=select))


def hot_key(folder: Path, size: int) -> Expected:
    """So many tuples of each stream, all of one value, in batches of a few thousand."""
    pipeline(folder, options=", 'option.maxFilesPerTrigger' = '1'")
    parts = np.array_split(np.full(size, 7), -(-size // HOT_ROWS))
    for name in "ab":
        write(folder, name, *(tuples(part, start=HOT_ROWS * n) for n, part in enumerate(parts)))
    return Expected(2 * size, size * size)


def small_fan_outs(folder: Path, size: int) -> Expected:
    """The ordinary case to compare with: each tuple meets one."""
    pipeline(folder)
    for name in "ab":
        write(folder, name, tuples(np.random.default_rng(1).permutation(size)))
    return Expected(2 * size, size)


def wide_rows(folder: Path, size: int) -> Expected:
    """So many tuples of 10 MB each in one stream, of one value, and three that they meet in the other."""
    pipeline(folder, "a.k, length(a.note) AS width, b.v AS vb")
    write(folder, "a", *(tuples(np.zeros(1), start=n, notes=["x" * 10_000_000]) for n in range(size)))
    write(folder, "b", tuples(np.zeros(3)))
    return Expected(size + 3, 3 * size)


def empty_files(folder: Path, size: int) -> Expected:
    """So many files without a tuple, and one tuple in each stream."""
    pipeline(folder)
    for name in "ab":
        write(folder, name, *[tuples(np.empty(0, np.int64))] * (size // 2), tuples(np.ones(1)))
    return Expected(2, 1)


def tiny_files(folder: Path, size: int) -> Expected:
    """So many files of one tuple, each a copy of one with its own numbers in it: a million in minutes."""
    pipeline(folder)
    # Numbers whose bytes are nowhere else in the file, neither in its pages nor in its footer.
    placed = np.array([0x1A2B3C4D5E6F7081, 0x2D4E6F8091A2B3C4, 0x3948576675849302])
    one = tuples(placed[:1]).set_column(1, "v", pa.array(placed[1:2]))
    one = one.set_column(3, "ts", pa.array(placed[2:], pa.timestamp("us", "UTC")))
    sink = pa.BufferOutputStream()
    pq.write_table(one, sink, use_dictionary=False, compression="none", store_schema=False)
    template = sink.getvalue().to_pybytes()
    for name in "ab":
        (folder / name).mkdir()
        for number in range(size // 2):
            text = template
            for place in placed.tolist():
                text = text.replace(place.to_bytes(8, "little"), number.to_bytes(8, "little"))
            path = folder / name / f"{number:07}.parquet"
            path.write_bytes(text)
            os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))
    return Expected(size // 2 * 2, size // 2)


def distinct_keys(folder: Path, size: int) -> Expected:
    """Every key once, so nothing meets and all is kept."""
    pipeline(folder)
    write(folder, "a", tuples(np.arange(size)))
    write(folder, "b", tuples(np.arange(size, 2 * size)))
    return Expected(2 * size, 0)


def null_keys(folder: Path, size: int) -> Expected:
    """No tuple has a key: none can meet another, and the join gets none."""
    pipeline(folder)
    for name in "ab":
        write(folder, name, tuples(np.full(size, -1)))
    return Expected(0, 0, without_key=2 * size)


def all_late(folder: Path, size: int) -> Expected:
    """The first file of each stream is an hour ahead of all others."""
    pipeline(folder, options=", 'option.maxFilesPerTrigger' = '1'")
    for name in "ab":
        ahead, late = tuples(np.zeros(1), at_us=3600 * SECOND_US), tuples(np.full(size, 7))
        write(folder, name, ahead, late)
    return Expected(2 * size + 2, 1, 2 * size)


def silent_stream(folder: Path, size: int) -> Expected:
    """One stream has a single tuple, the other goes on for so many, hours of event time."""
    pipeline(folder, options=", 'option.maxFilesPerTrigger' = '1'")
    parts = np.array_split(np.arange(size), 10)
    write(
        folder,
        "a",
        *(tuples(part, start=int(part[0]), at_us=600 * SECOND_US * n) for n, part in enumerate(parts)),
    )
    write(folder, "b", tuples(np.zeros(1)))
    return Expected(size + 1, 1)


CASES = (
    Case("hot key", hot_key, 100_000, 3_000),
    Case("small fan-outs", small_fan_outs, 4_000_000, 200_000),
    Case("wide rows", wide_rows, 30, 4),
    Case("empty files", empty_files, 1_000, 40),
    Case("tiny files", tiny_files, 1_000_000, 100),
    Case("keys all distinct", distinct_keys, 5_000_000, 100_000),
    Case("keys all NULL", null_keys, 5_000_000, 100_000),
    Case("all late", all_late, 5_000_000, 100_000),
    Case("one stream silent", silent_stream, 5_000_000, 100_000),
)


class MemoryWatch:
    """Follows the memory of this process, its JVM and its Python workers."""

    def __init__(self, every_s: float = 0.05) -> None:
        self.peaks = {"driver": 0, "worker": 0}
        self._every_s = every_s

    def now(self) -> dict[str, int]:
        """Bytes of the driver, with its JVM, and of the largest worker."""
        processes = dict(_descendants(os.getpid()))
        # There is one JVM; while it starts a process, it looks like two.
        machines = [_resident(p) for p, words in processes.items() if b"java" in words[0]]
        driver = _resident(os.getpid()) + max(machines, default=0)
        workers = [
            _resident(p) for p, words in processes.items() if words[2:3] and words[2].endswith(b"daemon")
        ]
        return {"driver": driver, "worker": max(workers, default=0)}

    @contextmanager
    def watching(self) -> Iterator[None]:
        """While open, keeps the peaks."""
        over = threading.Event()

        def watch() -> None:
            while not over.wait(self._every_s):
                for name, size in self.now().items():
                    self.peaks[name] = max(self.peaks[name], size)

        thread = threading.Thread(target=watch, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()


def _descendants(process: int) -> Iterator[tuple[int, list[bytes]]]:
    """The processes that came of one, with the words of their commands."""
    try:
        children = [
            int(child)
            for task in Path(f"/proc/{process}/task").iterdir()
            for child in (task / "children").read_text().split()
        ]
    except OSError:
        return
    for child in children:
        try:
            words = Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        yield child, words
        yield from _descendants(child)


def _resident(process: int) -> int:
    try:
        return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * PAGE
    except (OSError, IndexError):
        return 0


def measure(case: Case, size: int, seconds: float, routing: str | None) -> Outcome:
    """Runs a case in this process, after a small one that makes all that is idle resident."""
    outcome, watch = Outcome(), MemoryWatch()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for part, own in (("warm-up", small_fan_outs), ("case", case.make)):
            (folder / part).mkdir()
            expected = own(folder / part, 1000 if part == "warm-up" else size)
        session = Session(master="local[2]", log=folder / "spark.log")
        options = RunOptions(available_now=True, routing=routing)
        try:
            session.start(folder / "warm-up" / "pipeline.sql", options=options).follow()
            idle, began = watch.now(), time.monotonic()
            with watch.watching():
                run = session.start(folder / "case" / "pipeline.sql", options=options)
                done = list[float]()  # when each batch was

                def follow(_: Job, progress: Progress) -> None:
                    done.append(time.monotonic() - began)
                    outcome.state = max(outcome.state, progress.memory_bytes)

                run.follow(follow, until=lambda: time.monotonic() > began + seconds)
            over, outcome.seconds = not run.is_running(), max(done, default=seconds)
            run.stop()
            totals = [progress.totals for progress in run.progress.values()]
        finally:
            session.spark.stop()
    if not over:
        outcome.problems.append(f"not done after {seconds:.0f} s")
    for each in totals:
        outcome.rows, outcome.answers, outcome.late = each.rows, each.answers, each.late
    outcome.driver, outcome.worker = (watch.peaks[one] - idle[one] for one in ("driver", "worker"))
    outcome.without_key = expected.without_key
    found = Expected(outcome.rows, outcome.answers, outcome.late, outcome.without_key)
    if over and found != expected:
        outcome.problems.append(f"{found} where {expected} was due")
    if outcome.worker > BOUND + outcome.state:
        outcome.problems.append(f"a worker took more than its state and {BOUND // MEGABYTE} MB")
    return outcome


def run_apart(case: Case, size: int, seconds: float, routing: str | None) -> Outcome:
    """Runs a case in a process of its own."""
    command = [sys.executable, __file__, case.name, "--size", str(size), "--seconds", str(seconds), "--here"]
    command += ["--routing", routing] if routing else []
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return Outcome(problems=[(done.stderr.strip().splitlines() or ["it died"])[-1]])
    return Outcome(**json.loads(done.stdout.splitlines()[-1]))


def row(case: Case, size: int, outcome: Outcome) -> str:
    rate = max(outcome.seconds, 1e-9)
    cells = (
        f"{case.name}, {size:,}",
        f"{outcome.driver / MEGABYTE:,.0f} MB",
        f"{outcome.worker / MEGABYTE:,.0f} MB",
        f"{outcome.state / MEGABYTE:,.0f} MB",
        f"{(outcome.rows + outcome.without_key) / rate:,.0f}",
        f"{outcome.answers / rate:,.0f}",
        "; ".join(outcome.problems) or "as due",
    )
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("cases", nargs="*", metavar="CASE", help=", ".join(case.name for case in CASES))
    parser.add_argument("--size", type=int, help="of the cases named")
    parser.add_argument("--tiny-files", type=int, help="how many there are in the case of that name")
    parser.add_argument("--quick", action="store_true", help="small sizes")
    parser.add_argument("--seconds", type=float, default=600, help="a case that takes longer is stopped")
    parser.add_argument("--routing", help="shares, pipeline or rewrite")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    unknown = set(arguments.cases) - {case.name for case in CASES}
    if unknown:
        parser.error(f"no case is named {', '.join(sorted(unknown))}")
    chosen = [case for case in CASES if not arguments.cases or case.name in arguments.cases]
    if not arguments.here:
        print("| case | driver | worker | state | rows/s | answers/s | verdict |")
        print("| --- | ---: | ---: | ---: | ---: | ---: | --- |")
    for case in chosen:
        size = arguments.size or (case.quick if arguments.quick else case.size)
        if case.make is tiny_files:
            size = arguments.tiny_files or size
        if arguments.here:
            print(json.dumps(asdict(measure(case, size, arguments.seconds, arguments.routing))))
        else:
            print(row(case, size, run_apart(case, size, arguments.seconds, arguments.routing)), flush=True)


if __name__ == "__main__":
    main()

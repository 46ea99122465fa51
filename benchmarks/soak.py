"""A served dataflow whose queries come, go, fail and are resumed while its workers are killed: does it grow?

    python benchmarks/soak.py --minutes 30

Runs `watersmeet serve` over made-up streams. All the time queries are submitted, replaced and dropped; some
fail, before the joins or in their answers, and are resumed or dropped; and a Python worker is killed now and
then. Prints memory (what processes share is divided among them), open descriptors, threads and files at the
start, in the middle and at the end, as medians of the thirds of the run, and fails if the last third has
more than the middle one by more than the stated tolerance. The files of answers are counted too, but they are
meant to grow.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from watersmeet.serve.registry.folder import RegistryFolder
from watersmeet.serve.registry.listing import list_queries
from watersmeet.serve.registry.requests import REPLIES, Drop, Reply, Request, Resume, Submit, send

STREAM = """
CREATE STREAM {name} (k BIGINT, payload BINARY, ts TIMESTAMP) WITH (format = 'watersmeet-generator',
  event_time = 'ts', stream = '{name}', rate = '{rate}', keys = '200', payload = '100');
"""
SINK = "CREATE SINK out WITH (format = 'parquet', path = 'out', answers = 'json');\n"
FROM = "FROM a [RANGE 5 SECONDS], b [RANGE 5 SECONDS] WHERE"
GOOD = "INSERT INTO out SELECT a.k, length(b.payload) AS n {} a.k = b.k AND a.k % 20 = {}"
BAD = "INSERT INTO out SELECT CAST(concat('x', a.k) AS BIGINT) AS x {} a.k = b.k AND a.k % 50 = {}"
EARLY = "INSERT INTO out SELECT a.k {} CAST(concat('x', a.k + {}) AS BIGINT) = b.k"
STEP_S = 2.0
KILL_EVERY_S = 30.0
MOST_QUERIES = 12
DAEMON = b"\0-m\0watersmeet.spark.daemon"
TOLERANCE = {  # by how much the last third may be above the middle one: a share, and so many beside
    "jvm MB": (0.15, 64),
    "driver MB": (0.10, 16),
    "workers MB": (0.20, 64),
    "jvm fds": (0.10, 20),
    "jvm threads": (0.10, 20),
    "driver fds": (0.10, 10),
    "driver threads": (0.10, 5),
    "checkpoint files": (0.20, 60),
    "registry files": (0.20, 10),
    "staging files": (0.20, 10),
    "scratch files": (0.20, 60),
}


def processes() -> dict[int, tuple[int, bytes]]:
    """The parent and the command of every process."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rsplit(")", 1)[1].split()
            found[int(folder.name)] = (int(fields[1]), (folder / "cmdline").read_bytes())
        except OSError:
            continue
    return found


def below(root: int, known: dict[int, tuple[int, bytes]]) -> list[int]:
    """The processes that a process has started, and those that they have."""
    own = [process for process, (parent, _) in known.items() if parent == root]
    return own + [further for process in own for further in below(process, known)]


def memory_mb(process: int) -> float:
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("Pss:")), 0.0)


def descriptors(process: int) -> int:
    try:
        return len(os.listdir(f"/proc/{process}/fd"))
    except OSError:
        return 0


def threads(process: int) -> int:
    """The threads of a process, but for two pools of Spark's, of at most a hundred each."""
    names = []
    for task in Path(f"/proc/{process}/task").glob("*"):
        with suppress(OSError):
            names.append((task / "comm").read_text())
    return sum(not name.startswith("block-manager-") for name in names)


def files(*folders: Path) -> int:
    return sum(len(names) for folder in folders for _, _, names in os.walk(folder))


@dataclass
class Soak:
    """A server, what it is asked, and what it takes."""

    folder: Path
    random: random.Random
    process: subprocess.Popen[bytes]
    open: dict[str, str] = field(default_factory=dict)  # requests without a reply, and what they ask
    names: int = 0
    done: Counter[str] = field(default_factory=Counter)
    samples: list[dict[str, float]] = field(default_factory=list)

    @property
    def registry(self) -> RegistryFolder:
        return RegistryFolder(self.folder / "flow")

    def ask(self, what: str, request: Request) -> None:
        self.open[send(self.registry, request)] = what

    def read_replies(self) -> None:
        for request, what in [*self.open.items()]:
            text = self.registry.read(f"{REPLIES}/{request}.json")
            if text is not None:
                refused = msgspec.json.decode(text, type=Reply).refusal is not None
                self.done[f"{what} refused" if refused else what] += 1
                self.registry.remove(f"{REPLIES}/{request}.json")
                del self.open[request]

    def churn(self) -> None:
        """One more request, of whatever kind."""
        queries = list_queries(self.registry).queries
        failed = [query.name for query in queries if query.failure is not None]
        well = [query.name for query in queries if query.failure is None]
        self.names += 1
        texts = self.random.choices([GOOD, BAD, EARLY], [6, 1, 1])[0]
        text = texts.format(FROM, self.random.randrange(20))
        if failed and self.random.random() < 0.5:
            name = self.random.choice(failed)
            kind = self.random.choice([Resume, Drop])
            self.ask(kind.__name__.lower(), kind((name,)))
        elif well and len(queries) >= self.random.randrange(4, MOST_QUERIES):
            self.ask("drop", Drop((self.random.choice(well),)))
        elif well and self.random.random() < 0.3:
            self.ask("replace", Submit(((self.random.choice(well), text),), replace=True))
        else:
            self.ask("submit", Submit(((f"q{self.names}", text),)))

    def kill_worker(self) -> None:
        known = processes()
        own = {process for process in below(self.process.pid, known) if DAEMON in known[process][1]}
        workers = [process for process in own if known[process][0] in own]
        if workers:
            os.kill(self.random.choice(workers), signal.SIGKILL)
            self.done["worker killed"] += 1

    def sample(self, began: float) -> None:
        known, server = processes(), self.process.pid
        own = below(server, known)
        jvm = next((process for process in own if b"java" in known[process][1].split(b"\0")[0]), 0)
        workers = [process for process in own if DAEMON in known[process][1]]
        flow, out = self.folder / "flow", self.folder / "out"
        self.samples.append(
            {
                "second": time.monotonic() - began,
                "jvm MB": memory_mb(jvm),
                "driver MB": memory_mb(server),
                "workers MB": sum(map(memory_mb, workers)),
                "jvm fds": descriptors(jvm),
                "jvm threads": threads(jvm),
                "driver fds": descriptors(server),
                "driver threads": threads(server),
                "checkpoint files": files(flow / "spark"),
                "registry files": files(flow) - files(flow / "spark"),
                "staging files": files(out / "_watersmeet"),
                "scratch files": files(self.folder / "scratch"),
                "answer files": files(out) - files(out / "_watersmeet"),
            }
        )

    def run(self, seconds: float) -> None:
        began = killed_at = time.monotonic()
        while time.monotonic() - began < seconds:
            if self.process.poll() is not None:
                raise SystemExit(f"the server has ended, and left {self.folder}:\n{self.last_words()}")
            self.read_replies()
            if len(self.open) < 4:
                self.churn()
            if time.monotonic() - killed_at > KILL_EVERY_S:
                killed_at = time.monotonic()
                self.kill_worker()
            self.sample(began)
            time.sleep(STEP_S)

    def last_words(self) -> str:
        """The newest events, and the end of what the server said."""
        events = (self.folder / "events").read_text().splitlines()[-20:]
        return "\n".join([*(event[:500] for event in events), (self.folder / "said").read_text()[-1000:]])

    def report(self) -> bool:
        """Prints the table; whether everything is flat."""
        events = [json.loads(line) for line in (self.folder / "events").read_text().splitlines()]
        self.done["query failed"] = sum(event.get("event") == "query failed" for event in events)
        self.done["change"] = sum(event.get("event") == "change" for event in events)
        batches = [event["batch_id"] for event in events if "batch_id" in event]
        print(f"{len(self.samples)} samples, batch {max(batches, default=-1)}; {dict(self.done)}")
        third = len(self.samples) // 3
        parts = [self.samples[:third], self.samples[third : 2 * third], self.samples[2 * third :]]
        print(f"{'':>18}{'start':>10}{'middle':>10}{'end':>10}")
        is_flat = True
        for name in list(self.samples[0])[1:]:
            start, middle, end = (statistics.median(sample[name] for sample in part) for part in parts)
            share, beside = TOLERANCE.get(name, (float("inf"), 0))
            grows = end > middle * (1 + share) + beside
            is_flat = is_flat and not grows
            print(f"{name:>18}{start:>10.0f}{middle:>10.0f}{end:>10.0f}{'  GROWS' if grows else ''}")
        return is_flat


def start_server(folder: Path, rate: int) -> subprocess.Popen[bytes]:
    (folder / "streams.sql").write_text("".join(STREAM.format(name=n, rate=rate) for n in "ab") + SINK)
    (folder / "scratch").mkdir()
    arguments = [
        "serve",
        "flow",
        "--streams",
        "streams.sql",
        "--levels",
        "1",
        "--json",
        "--trigger",
        "1 second",
    ]
    settings = ["spark.driver.memory=700m", "spark.sql.shuffle.partitions=2"]
    settings.append(f"spark.local.dir={folder / 'scratch'}")
    conf = [word for setting in settings for word in ("--conf", setting)]
    command = [sys.executable, "-m", "watersmeet", *arguments, "--master", "local[2]", *conf]
    with (folder / "events").open("wb") as out, (folder / "said").open("wb") as said:
        return subprocess.Popen(command, cwd=folder, stdout=out, stderr=said)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--rate", type=int, default=300, help="tuples a second of each stream")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(143))  # the server is to end in any case
    folder = Path(tempfile.mkdtemp(prefix="watersmeet-soak-"))
    process = start_server(folder, arguments.rate)
    is_over = False
    try:
        soak = Soak(folder, random.Random(arguments.seed), process)
        while not (folder / "flow" / "status.json").exists():
            if process.poll() is not None:
                raise SystemExit((folder / "said").read_text())
            time.sleep(0.5)
        soak.run(60 * arguments.minutes)
        is_flat, is_over = soak.report(), True
    finally:
        process.terminate()
        process.wait()
        if is_over:
            shutil.rmtree(folder, ignore_errors=True)
    if not is_flat:
        raise SystemExit("something grows")


if __name__ == "__main__":
    main()

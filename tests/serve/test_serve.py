"""A shared dataflow served in its own process: queries come and go, it is killed, and answers stay exact."""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest

from tests.spark.pipelines import QUERIES, Case, arrive, pipeline_text, random_batches
from tests.spark.processes import jvm, kill
from watersmeet.oracle import oracle
from watersmeet.oracle.oracle import MicroBatch
from watersmeet.query import NEVER
from watersmeet.serve.registry.folder import RegistryFolder
from watersmeet.serve.registry.listing import list_queries
from watersmeet.serve.registry.requests import REPLIES, Drop, Reply, Request, Submit, send
from watersmeet.sql import parse_pipeline

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SMALL = (
    "--master",
    "local[2]",
    "--conf",
    "spark.driver.memory=600m",
    "--conf",
    "spark.sql.streaming.minBatchesToRetain=1000",  # the oracle is told what each batch took by Spark's log
    "--conf",
    "spark.sql.shuffle.partitions=3",
)
PATIENCE_S = 240  # on a busy machine
PAIRS = "FROM s1 [RANGE 4 SECONDS] AS a, s2 [RANGE 3 SECONDS] AS b WHERE a.k = b.k"
SELECTS = {
    "chain": QUERIES["chain"],  # the first reads all streams, as `arrive` goes by it
    "pairs": f"SELECT a.k, a.v AS va, b.v AS vb, answer_time {PAIRS} AND a.v > 3",
    "sums": f"SELECT a.k, a.v + b.v AS total {PAIRS}",
    "plain": QUERIES["plain"],
    "late": f"SELECT b.k, b.v * 10 AS tens {PAIRS}",
    "totals": f"SELECT a.k, sum(b.v) AS total, count(*) AS n {PAIRS} GROUP BY a.k EMIT EVERY 1 SECOND",
    "values": f"SELECT DISTINCT a.k, b.v {PAIRS}",
}


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "watersmeet", *arguments]


def wait_until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, f"waited in vain until {what}"
        time.sleep(0.1)


@dataclass
class ServedDataflow:
    """A dataflow over files that arrive one by one; `inserts` are statements for it, by name."""

    case: Case
    inserts: dict[str, str]
    process: subprocess.Popen[bytes] | None = None
    arrived: int = 0
    sent: dict[str, str] = field(default_factory=dict)  # ids of requests

    @property
    def folder(self) -> RegistryFolder:
        return RegistryFolder(self.case.folder / "flow")

    def serve(self, *first: str) -> None:
        with (self.case.folder / "events").open("ab") as out, (self.case.folder / "said").open("ab") as said:
            self.process = subprocess.Popen(
                command("serve", "flow", *first, "--json", *SMALL),
                cwd=self.case.folder, stdout=out, stderr=said,
            )  # fmt: skip

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command(*arguments), cwd=self.case.folder, capture_output=True, text=True, timeout=PATIENCE_S,
            check=False,
        )  # fmt: skip

    @property
    def said(self) -> str:
        return (self.case.folder / "said").read_text()

    def check_alive(self) -> None:
        assert self.process is not None
        assert self.process.poll() is None, self.said

    def arrive(self, count: int) -> None:
        arrive(self.case, range(self.arrived, self.arrived + count))
        self.arrived += count

    def await_all(self) -> None:
        """Waits until all that has arrived is answered."""

        def is_done() -> bool:
            self.check_alive()
            offsets, commits = (self._numbers(log) for log in ("offsets", "commits"))
            return (
                bool(offsets)
                and offsets[-1:] == commits[-1:]
                and set(self._offsets(offsets[-1])) == {self.arrived - 1}
            )

        wait_until(is_done, f"{self.arrived} files were taken: {self.said}")

    def stop(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(PATIENCE_S) == 143, self.said

    def kill(self, rng: random.Random) -> None:
        """Kills the server alone, whose JVM goes on for a moment, or both."""
        assert self.process is not None
        self.check_alive()
        victims = rng.choice([[self.process.pid], [jvm(self.process.pid), self.process.pid]])
        for victim in victims:
            if victim is not None:
                kill(victim)
        self.process.wait(PATIENCE_S)

    def send(self, key: str, request: Request) -> None:
        self.sent[key] = send(self.folder, request)

    def reply(self, key: str) -> int:
        """The batch from which a request holds."""
        reply = self.await_reply(key)
        assert reply.refusal is None
        assert reply.batch is not None
        return reply.batch

    def await_reply(self, key: str) -> Reply:
        """The reply to a request, which is left there to be read again."""
        name = f"{REPLIES}/{self.sent[key]}.json"
        wait_until(lambda: self.folder.read(name) is not None, f"{key} was handled: {self.said}")
        return msgspec.json.decode(self.folder.read(name) or "", type=Reply)

    def _numbers(self, log: str) -> list[int]:
        found = (self.folder.path / "spark" / log).glob("[0-9]*")
        return sorted(int(path.name) for path in found if path.name.isdecimal())

    def _offsets(self, batch: int) -> list[int]:
        """The newest file of each stream in a batch: every file has a place of its own in Spark's log."""
        try:
            lines = (self.folder.path / "spark" / "offsets" / str(batch)).read_text().splitlines()[2:]
        except FileNotFoundError:
            return []
        return [-1 if line == "-" else int(json.loads(line)["logOffset"]) for line in lines]

    def tuples(self, since: int, until: int) -> list[MicroBatch]:
        """What the batches from `since` to before `until` brought."""
        streams = [stream.name for stream in parse_pipeline(self.case.file.read_text()).streams]
        found = []
        before = [-1] * len(streams)
        for batch in self._numbers("offsets"):
            now = self._offsets(batch)
            if since <= batch < until:
                brought = {
                    stream: [
                        row
                        for number in range(before[place] + 1, now[place] + 1)
                        for row in self.case.batches[number].get(stream, ())
                    ]
                    for place, stream in enumerate(streams)
                }
                found.append(brought)
            before = now
        return found

    def check(self, name: str, *periods: tuple[int, int]) -> None:
        """A query's sink holds what the oracle says of the tuples it was there for, each answer once."""
        query = self.case.queries[list(SELECTS).index(name)]
        expected: Counter[Any] = Counter()
        for since, until in periods:
            brought, waits = self.tuples(since, until), query.is_delayed
            expected += oracle.bag(oracle.run(query, brought, flush=not waits).rows)
        assert expected, "a query without answers proves nothing"
        files = (self.case.folder / str(query.sink)).glob("*.parquet")
        rows = [row for file in files for row in pq.read_table(file, partitioning=None).to_pylist()]
        assert {row["query"] for row in rows} == {name}
        found = [tuple(row[output.name] for output in query.select) for row in rows]
        assert oracle.bag(found) == expected, name


def new_dataflow(folder: Path, batches: Sequence[MicroBatch], first: str) -> ServedDataflow:
    """A dataflow whose pipeline file has one of the queries."""
    everything = pipeline_text(list(SELECTS.values()))
    statements = [text.strip() for text in everything.split(";") if text.strip()]
    declared = [text for text in statements if text.startswith("CREATE")]
    inserts = dict(zip(SELECTS, (t for t in statements if t.startswith("INSERT")), strict=True))
    text = ";\n".join([*declared, f"-- name: {first}\n{inserts[first]};\n"])
    (folder / "pipeline.sql").write_text(text)
    for name in ("s1", "s2", "s3"):
        (folder / name).mkdir()
    return ServedDataflow(Case(folder, parse_pipeline(everything).queries, list(batches)), inserts)


@pytest.fixture
def dataflows(tmp_path: Path) -> Any:
    """Makes dataflows whose servers do not outlive the test."""
    made: list[ServedDataflow] = []

    def make(seed: int, count: int, first: str) -> ServedDataflow:
        made.append(new_dataflow(tmp_path, random_batches(seed, count, rows=30, keys=12), first))
        return made[-1]

    yield make
    for dataflow in made:
        if dataflow.process is not None and dataflow.process.poll() is None:
            os.kill(dataflow.process.pid, signal.SIGKILL)
            dataflow.process.wait(PATIENCE_S)


def submit_and_tail(dataflow: ServedDataflow) -> int:
    """Submits a query and follows its answers, beside one that is refused; the batch it begins with."""
    (dataflow.case.folder / "chain.sql").write_text(dataflow.inserts["chain"])
    said = dataflow.run("submit", "flow", "chain", "chain.sql")
    assert said.returncode == 0, said.stderr
    dataflow.send("bad", Submit((("bad", f"SELECT date_add(a.k, 1, 2) AS x {PAIRS}"),)))
    refusal = dataflow.await_reply("bad").refusal
    assert refusal is not None
    assert refusal.startswith("query bad: Spark refuses it: ")
    assert "date_add" in refusal
    assert "WRONG_NUM_ARGS" not in dataflow.said, "PySpark's own words stay out of ours"

    tail = subprocess.Popen(
        command("tail", "flow", "chain", "--count", "3"),
        cwd=dataflow.case.folder,
        stdout=subprocess.PIPE,
        text=True,
    )
    wait_until(lambda: (dataflow.folder.path / "tails" / "chain.want").exists(), "tail waits")
    dataflow.arrive(2)
    dataflow.await_all()
    answers = [json.loads(line) for line in tail.communicate(timeout=PATIENCE_S)[0].splitlines()]
    assert [set(answer) for answer in answers] == [{"va", "vb", "vc"}] * 3
    return int(said.stdout.split()[3])


def requests_of(dataflow: ServedDataflow, number: int) -> dict[str, Request]:
    """What is asked for in a round, by a key of its own; from the third on `late` comes and goes."""
    if number == 0:
        several = tuple((name, dataflow.inserts[name]) for name in ("sums", "plain", "totals", "values"))
        return {"sums": Submit(several), "drop pairs": Drop(("pairs",))}
    if number == 1:
        return {"drop chain": Drop(("chain",))}
    submit = Submit((("late", dataflow.inserts["late"]),))
    return {f"late {number}": Drop(("late",)) if number % 2 else submit}


def test_queries_come_and_go_while_tuples_flow_and_servers_are_killed(
    dataflows: Any, long_mode: bool
) -> None:
    rounds = 20 if long_mode else 3
    dataflow: ServedDataflow = dataflows(seed=31, count=2 * rounds + 6, first="pairs")
    dataflow.arrive(2)
    dataflow.serve("--streams", "pipeline.sql", "--levels", "2")
    dataflow.await_all()
    chain = submit_and_tail(dataflow)

    rng = random.Random(31)
    for number in range(rounds):
        dataflow.arrive(2)
        requests = requests_of(dataflow, number)
        for key, request in requests.items():
            dataflow.send(key, request)
        time.sleep(rng.uniform(0, 4))  # while the change is planned, or the Spark query stops and starts
        dataflow.kill(rng)
        dataflow.serve()
        if long_mode and number % 2:
            time.sleep(rng.uniform(0, 10))  # while the next server starts, too
            dataflow.kill(rng)
            dataflow.serve()
        for key in requests:
            dataflow.reply(key)
        if long_mode and not number % 2:
            dataflow.await_all()  # what came in this round answers before the next takes it away

    dataflow.arrive(2)
    dataflow.await_all()
    came = [dataflow.reply(f"late {number}") for number in range(2, rounds, 2)]
    went = [dataflow.reply(f"late {number}") for number in range(3, rounds, 2)]
    listed = list_queries(dataflow.folder)
    staying = ["sums", "plain", "totals", "values", *(["late"] if len(went) < len(came) else [])]
    assert [query.name for query in listed.queries] == staying
    assert listed.is_served
    dataflow.stop()
    dataflow.check("pairs", (0, dataflow.reply("drop pairs")))
    dataflow.check("chain", (chain, dataflow.reply("drop chain")))
    for name in ("sums", "plain", "totals", "values"):
        dataflow.check(name, (dataflow.reply("sums"), NEVER))
    dataflow.check("late", *itertools.zip_longest(came, went, fillvalue=NEVER))

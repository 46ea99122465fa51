"""Queries beside a served dataflow whose server is killed: each goes on from its own checkpoint, exactly."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.serve.test_serve import ServedDataflow, dataflows, wait_until
from tests.spark.beside import STREAMS, offsets, own_batches
from watersmeet.oracle import oracle
from watersmeet.serve.registry.listing import list_queries
from watersmeet.serve.registry.record import Registration, require_record
from watersmeet.serve.registry.requests import Drop, Submit

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.variant]
assert dataflows, "a fixture of another file"

QUERIES = {
    "rows": "SELECT a.k, a.v AS va, b.v AS vb FROM s1 [ROWS 15] AS a, s2 [RANGE 3 SECONDS] AS b "
    "WHERE a.k = b.k",
    "left": "SELECT a.k, a.v AS va, b.v AS vb FROM s1 [RANGE 2 SECONDS] AS a "
    "LEFT JOIN s3 [RANGE 1 SECOND] AS b ON a.k = b.k AND b.v > 6",
    "view": "SELECT a.k, a.v AS va, b.v AS vb FROM big [RANGE 4 SECONDS] AS a, s2 [RANGE 4 SECONDS] AS b "
    "WHERE a.k = b.k",
}
DECLARED = """
CREATE VIEW big AS SELECT k, v * 10 AS v, ts FROM s1 WHERE v > 3;
CREATE SINK beside WITH (format = 'parquet', path = 'beside-out');
"""


def insert(name: str) -> str:
    return f"INSERT INTO beside {QUERIES[name]}"


def await_own(dataflow: ServedDataflow, query: Registration) -> None:
    """Waits until a query has done all that has arrived."""
    bound = require_record(dataflow.folder).bind(query.sql, query.name)
    checkpoint = dataflow.folder.path / "beside" / str(query.number)
    names = [reading.stream.name for reading in bound.readings]

    def is_done() -> bool:
        dataflow.check_alive()
        logs = [
            sorted(int(path.name) for path in (checkpoint / "spark" / log).glob("[0-9]*"))
            for log in ("offsets", "commits")
        ]
        if not logs[0] or logs[0][-1:] != logs[1][-1:]:
            return False
        seen = offsets(dataflow.folder.path, query.since - 1) if query.since else [0] * len(STREAMS)
        before = dict(zip(STREAMS, seen, strict=True))
        own = zip(names, offsets(checkpoint, logs[0][-1]), strict=False)
        return all(each + before[name] == dataflow.arrived - 1 for name, each in own)

    wait_until(is_done, f"{query.name} has taken everything: {dataflow.said}")


def check(dataflow: ServedDataflow, query: Registration) -> None:
    bound = require_record(dataflow.folder).bind(query.sql, query.name)
    brought = own_batches(dataflow.case, dataflow.folder.path, query.number, query.since, bound)
    expected = oracle.bag(oracle.run(bound, brought).rows)
    assert expected, "a query without answers proves nothing"
    files = (dataflow.case.folder / "beside-out").glob("*.parquet")
    rows = [row for file in files for row in pq.read_table(file, partitioning=None).to_pylist()]
    found = [(row["k"], row["va"], row["vb"]) for row in rows if row["query"] == query.name]
    assert oracle.bag(found) == expected, query.name


def test_killed_servers_lose_and_repeat_nothing_of_what_runs_beside(dataflows: Any) -> None:
    rounds = 2
    dataflow: ServedDataflow = dataflows(seed=47, count=2 * rounds + 6, first="plain")
    text = dataflow.case.file.read_text()
    dataflow.case.file.write_text(f"{text}{DECLARED}-- name: rows\n{insert('rows')};\n")
    dataflow.arrive(2)
    dataflow.serve("--streams", "pipeline.sql", "--levels", "2")
    dataflow.await_all()
    dataflow.send("left", Submit((("left", insert("left")), ("gone", insert("view")))))
    assert dataflow.reply("left") > 0
    rng = random.Random(47)
    for number in range(rounds):
        dataflow.arrive(2)
        if number == 1:
            dataflow.send("view", Submit((("view", insert("view")),)))
            dataflow.send("drop", Drop(("gone",)))
        time.sleep(rng.uniform(0, 15))
        dataflow.kill(rng)
        dataflow.serve()
    dataflow.reply("view")
    dataflow.arrive(4)
    dataflow.await_all()
    record = require_record(dataflow.folder)
    assert record.failed == {}
    queries = list(record.beside.values())
    assert [query.name for query in queries] == ["rows", "left", "view"]
    for query in queries:
        await_own(dataflow, query)
    wait_until(lambda: all(q.progress for q in list_queries(dataflow.folder).queries if q.beside), "progress")
    dataflow.stop()
    kept = {path.name for path in (dataflow.folder.path / "beside").iterdir()}
    assert kept == {str(query.number) for query in queries}
    for query in queries:
        check(dataflow, query)
    events = [json.loads(line) for line in Path(dataflow.case.folder / "events").read_text().splitlines()]
    assert {event.get("query") for event in events if event["event"] == "progress"} >= {None, "rows", "left"}

"""One query's failure is its own: it is found, left out, and the others have all their answers, once."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.multiquery.test_shared_dataflow import QUERIES, A, B, expected
from tests.spark.multiquery.test_shared_sinks import answers_of
from tests.spark.pipelines import random_batches, write_case
from watersmeet import Session, oracle
from watersmeet.errors import DataError
from watersmeet.serve.registry.changes import ChangePlanner
from watersmeet.serve.registry.folder import RegistryFolder
from watersmeet.serve.registry.record import RegistryRecord, require_record, write_record
from watersmeet.serve.registry.requests import Submit, send
from watersmeet.serve.registry.tail_files import TailWriter
from watersmeet.serve.server import Server
from watersmeet.serve.spark_engine import AnswerCheck, SparkEngine
from watersmeet.spark.jobs.job import RunOptions
from watersmeet.spark.jobs.run_lock import held_checkpoint
from watersmeet.spark.multiquery import fill
from watersmeet.spark.multiquery.check import SparkCheck
from watersmeet.spark.sinks import formats
from watersmeet.spark.sinks.target import Batch
from watersmeet.sql import bind_query, parse_pipeline

SINKS = """
CREATE SINK common WITH (format = 'parquet', path = 'common', answers = 'json');
CREATE SINK picky WITH (format = 'picky', answers = 'json');
CREATE SINK full WITH (format = 'full', answers = 'json');
"""
PAIRS = f"FROM {A} AS a, {B} AS b WHERE"
BAD = "CAST(concat('x', a.v) AS BIGINT)"
GOOD = {
    "same": ("common", QUERIES["same"]),
    "sums": ("common", QUERIES["chain_of_sums"]),  # it computes what it joins by, as `early` does
    "evaluated": ("common", QUERIES["evaluated"]),
    "taken": ("picky", QUERIES["pair"]),
    "totals": ("common", f"SELECT a.k, sum(a.v) AS total {PAIRS} a.k = b.k GROUP BY a.k HAVING count(*) > 1"),
}
FAILING = {
    "cast": ("common", f"SELECT CASE WHEN a.v = 5 THEN {BAD} ELSE a.v END AS x {PAIRS} a.k = b.k"),
    "total": ("common", f"SELECT sum({BAD}) AS x {PAIRS} a.k = b.k"),
    "early": ("common", f"SELECT a.v {PAIRS} {BAD} = b.k"),
    "refused": ("picky", QUERIES["self"]),
    "lost": ("full", QUERIES["self"]),
}

REASONS = {"refused": "a value is too long", "lost": "the disk is full"}
REASONS |= dict.fromkeys(("cast", "total", "early"), "cannot be cast to")


@dataclass
class PickySink:
    """A sink that does not take the answers of some queries; it has each batch once."""

    unwanted: str
    got: dict[tuple[int, str], Counter[str]] = field(default_factory=dict)

    def check(self, columns: list[str]) -> None: ...

    def write(self, batch: Batch) -> None:
        due = frozenset(number for number in batch.queries if (batch.number, number) not in self.got)
        rows = batch.answers(due) if due else None
        found = [] if rows is None else rows.collect()
        if any(row["query"] == self.unwanted or not self.unwanted for row in found):
            raise DataError("a value is too long" if self.unwanted else "the disk is full")
        for number in due:
            self.got[batch.number, number] = Counter(f"{row['query']} {row['answer']}" for row in found)
            found = []


def serve_to_end(spark: SparkSession, folder: RegistryFolder) -> None:
    record = require_record(folder)
    planner = ChangePlanner(AnswerCheck(SparkCheck(spark)))
    with held_checkpoint(spark, record.checkpoint) as lock:
        options = RunOptions(available_now=True)
        engine = SparkEngine(Session(spark), record, TailWriter(folder), options, lock)
        Server(folder=folder, record=record, engine=engine, planner=planner).serve(until=lambda: False)


@pytest.mark.parametrize(
    ("failing", "good"),
    [
        (["cast"], ["same", "totals"]),
        pytest.param(["cast", "total", "early", "refused", "lost"], list(GOOD), marks=pytest.mark.variant),
    ],
    ids=["in its answers", "in every way"],
)
def test_queries_that_fail_leave_the_others_whole(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: list[str], good: list[str]
) -> None:
    picky = PickySink("refused")
    monkeypatch.setitem(formats.FORMATS, "picky", lambda target: picky)  # type: ignore[call-overload]
    monkeypatch.setitem(formats.FORMATS, "full", lambda target: PickySink(""))  # type: ignore[call-overload]
    monkeypatch.setattr(fill, "SINK_PATIENCE_S", 0.0)
    case = write_case(tmp_path, QUERIES["same"], random_batches(5, count=2))
    declared = parse_pipeline(case.file.read_text())
    statements = case.file.read_text().split(";")
    streams = ";".join(text for text in statements if "CREATE STREAM" in text) + ";"
    folder = RegistryFolder(tmp_path / "flow")
    write_record(
        folder,
        RegistryRecord(
            id="0123abcd", file=str(case.file), declarations=streams + SINKS, levels=2, partitions=2,
            checkpoint=str(folder.path),
        ),
    )  # fmt: skip
    asked = {name: (GOOD | FAILING)[name] for name in (*good, *failing)}
    send(folder, Submit(tuple((n, f"INSERT INTO {sink} {text}") for n, (sink, text) in asked.items())))
    serve_to_end(spark, folder)

    failed = require_record(folder).failed
    assert set(failed) == set(failing)
    for name, outage in failed.items():
        assert REASONS[name] in outage.reason
        assert outage.is_apart == (name == "early")
    common = spark.read.parquet(str(tmp_path / "common"))
    for name in good:
        want = expected(bind_query(GOOD[name][1], declared.streams), case.batches)
        assert want, f"{name} without answers proves nothing"
        if name == "taken":
            got: Counter[str] = sum(picky.got.values(), Counter())
            assert sum(got.values()) == sum(want.values())
        else:
            assert oracle.bag(answers_of(common, name)) == want, name

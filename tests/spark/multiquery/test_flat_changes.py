"""A change of queries starts the Spark query anew; what a start takes, it gives back."""

from __future__ import annotations

import gc
import os
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

import pytest
from py4j.java_gateway import get_field  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from tests.spark.processes import jvm
from watersmeet import Session
from watersmeet.serve.registry.changes import ChangePlanner
from watersmeet.serve.registry.folder import RegistryFolder
from watersmeet.serve.registry.record import RegistryRecord, require_record, write_record
from watersmeet.serve.registry.requests import Drop, Request, Submit, send
from watersmeet.serve.registry.tail_files import TailWriter
from watersmeet.serve.server import Change, Server
from watersmeet.serve.spark_engine import AnswerCheck, SparkEngine
from watersmeet.spark.jobs.job import RunOptions
from watersmeet.spark.jobs.run_lock import held_checkpoint
from watersmeet.spark.jobs.shared_job import SharedJob
from watersmeet.spark.multiquery.check import SparkCheck
from watersmeet.spark.session import leftovers

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="descriptors are counted in /proc")

STREAM = """CREATE STREAM s (k BIGINT, payload BINARY, ts TIMESTAMP) WITH (format = 'watersmeet-generator',
  event_time = 'ts', stream = 's', rate = '20', keys = '5', payload = '4');"""
SINK = "CREATE SINK out WITH (format = 'memory', rows = '100');"
QUERY = "INSERT INTO out SELECT a.k FROM s [RANGE 1 SECOND] AS a, s [RANGE 1 SECOND] AS b WHERE a.k = b.k"
SETTLED = 2  # changes, before which a session still opens what it keeps
NOISE = 3  # descriptors that happen to be open: a batch is running


@dataclass(frozen=True)
class Held:
    """What this process and its JVM hold: descriptors but files, and threads that nobody needs."""

    jvm: int
    driver: int
    monitors: int
    threads: int


def hold(spark: SparkSession) -> Held:
    """Files are those of state stores, which Spark's maintenance closes a minute later."""
    gateway = spark.sparkContext._gateway
    monitors = leftovers._threads(gateway, gateway.jvm, leftovers.MONITOR)  # type: ignore[union-attr]
    without_pool = [each for each in monitors if not get_field(each, "$outer").useDaemonEnabled()]
    processes = (jvm(os.getpid()), os.getpid())
    return Held(*map(_channels, processes), len(without_pool), threading.active_count())


def _channels(process: int) -> int:
    opened = leftovers._opened(Path(f"/proc/{process}")).values()
    return sum(what.startswith(("socket:", "anon_inode:")) for what in opened)


def test_changes_leave_neither_descriptors_nor_threads(spark: SparkSession, tmp_path: Path) -> None:
    folder = RegistryFolder(tmp_path / "flow")
    record = RegistryRecord(
        id="0123abcd",
        file=str(tmp_path / "streams.sql"),
        declarations=STREAM + SINK,
        levels=1,
        partitions=1,
        checkpoint=str(folder.path),
    )
    write_record(folder, record)
    held, jobs = list[Held](), living_jobs()

    def follow(change: Change) -> None:
        held.append(hold(spark))
        ask: Request = Submit((("late", QUERY),)) if "late" not in change.added else Drop(("late",))
        send(folder, ask)

    send(folder, Submit((("first", QUERY),)))
    planner = ChangePlanner(AnswerCheck(SparkCheck(spark)))
    with held_checkpoint(spark, record.checkpoint) as lock:
        engine = SparkEngine(Session(spark), record, TailWriter(folder), RunOptions(), lock)
        server = Server(folder=folder, record=require_record(folder), engine=engine, planner=planner)
        server.on_change = follow
        server.serve(until=lambda: len(held) > 2 * SETTLED + 1)

    before, after = held[SETTLED + 1], held[2 * SETTLED + 1]
    assert after.monitors <= before.monitors
    assert after.threads < before.threads + SETTLED, "one of each change; one more may be at work just then"
    assert after.jvm <= before.jvm + NOISE
    assert after.driver <= before.driver + NOISE
    assert living_jobs() <= jobs + 1, "the last one is still held here"


def living_jobs() -> int:
    gc.collect()
    return sum(type(each) is SharedJob for each in gc.get_objects())

"""Kafka through the worst: the broker stopped and started, the run killed and resumed.

With --long the three topics hold a million packets.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.spark.kafka.broker import Broker, jars_setting
from tests.spark.kafka.packets import SELECT, Packets, answers_in_topic, as_selected
from tests.spark.processes import descendants, kill
from tests.spark.sinks.postgres_server import NoServerError, Server, running_server

pytestmark = [pytest.mark.connectors, pytest.mark.slow, pytest.mark.spark]

SLICES = 10
SINKS = ("files", "tables", "topic")


def command(file: Path, *more: str) -> list[str]:
    jars = [f"{key}={value}" for key, value in jars_setting().items()]
    settings = ["spark.driver.memory=1g", *jars]
    words = [sys.executable, "-m", "watersmeet", "run", str(file), "--json", "--master", "local[2]", *more]
    return [*words, *(word for setting in settings for word in ("--conf", setting))]


def await_rows(process: subprocess.Popen[str], rows: int) -> None:
    """Returns when every query has taken more than so many rows in this run."""
    assert process.stdout is not None
    taken: dict[str, int] = {}
    for line in process.stdout:
        event = json.loads(line)
        if event["event"] == "progress":
            taken[event["query"]] = event["total_rows"]
        if sum(found > rows for found in taken.values()) == len(SINKS):
            return
    raise AssertionError(f"it ended before: {process.communicate()[1]}")


def pipeline(packets: Packets, url: str, topic: str) -> str:
    """The same query into files, a table and a topic."""
    where = f"bootstrap = '{packets.broker.bootstrap}', topic = '{topic}'"
    return "\n".join(
        [
            packets.streams(f", maxOffsetsPerTrigger = '{packets.rows // 6}'"),
            "CREATE SINK files WITH (format = 'parquet', path = 'files');",
            "CREATE SINK tables "
            f"WITH (format = 'postgres', table = 'answers', user = 'watersmeet', url = '{url}');",
            f"CREATE SINK topic WITH (format = 'kafka', {where});",
            *(f"INSERT INTO {name} {SELECT};" for name in SINKS),
        ]
    )


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Server]:
    try:
        with running_server(tmp_path / "postgres") as server:
            yield server
    except NoServerError as error:
        pytest.skip(str(error))


@pytest.mark.variant  # a million messages and two kills take minutes
def test_a_stopped_broker_and_a_killed_run_cost_nothing(
    spark: SparkSession, database: Server, broker: Broker, tmp_path: Path
) -> None:
    rows = 334_000
    topic = f"killed-{rows}"
    packets = Packets(spark, broker, tmp_path / "sent", rows, SLICES, f"kill-{rows}")
    file = tmp_path / "pipeline.sql"
    file.write_text(pipeline(packets, database.url, topic))

    _send(packets, range(4))
    with _killed_at_the_end(file) as process:
        await_rows(process, 0)
        broker.stop()
        broker.start()
        _send(packets, range(4, 6))
        await_rows(process, 3 * rows * 4 // SLICES)
    _send(packets, range(6, SLICES))
    with _killed_at_the_end(file) as process:
        await_rows(process, 0)
    last = subprocess.run(
        command(file, "--available-now", "--flush"), cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert last.returncode == 0, last.stderr
    assert sum(json.loads(line).get("late", 0) for line in last.stdout.splitlines()) == 0

    count = packets.check(as_selected(spark.read.parquet(str(tmp_path / "files"))).toArrow())
    tables = spark.read.format("jdbc").options(url=database.url, dbtable="answers", user="watersmeet")
    loaded = tables.option("driver", "org.postgresql.Driver").load()
    assert packets.check(as_selected(loaded).toArrow()) == count
    sent = answers_in_topic(spark, broker, topic).cache()
    assert packets.check(as_selected(without_repeats(sent)).toArrow()) == count
    print(f"{3 * rows} packets, {count} answers, {sent.count() - count} repeats in the topic")


def without_repeats(answers: DataFrame) -> DataFrame:
    """What a reader of the topic keeps: one message for each id. Those of one id are the same in all."""
    once = answers.dropDuplicates(["answer_id"])
    assert once.count() == answers.distinct().count()
    return once


def _send(packets: Packets, numbers: range) -> None:
    for number in numbers:
        packets.send(number)


@contextmanager
def _killed_at_the_end(file: Path) -> Iterator[subprocess.Popen[str]]:
    """The pipeline running, killed with all its processes, in whatever batch it is, when the block ends."""
    process = subprocess.Popen(
        command(file), cwd=file.parent, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        yield process
        assert process.poll() is None, "it ended by itself"
    finally:
        below = [each.pid for each in descendants(process.pid)]
        for pid in [process.pid, *below]:
            kill(pid)
        process.communicate(timeout=120)

"""Answers in PostgreSQL, once each."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.spark.kafka.broker import jars_setting
from tests.spark.pipelines import QUERIES, Case, random_batches, write_case
from tests.spark.run_pipeline import Request
from tests.spark.sinks.postgres_server import NoServerError, Server, running_server
from watersmeet.errors import ConfigurationError, DataError
from watersmeet.oracle import oracle
from watersmeet.query import Connector, Sink
from watersmeet.session import Session
from watersmeet.spark.generator.generator import FORMAT
from watersmeet.spark.jobs.job import RunOptions
from watersmeet.spark.session.failures import explain_failure
from watersmeet.spark.sinks.answer_ids import Origin
from watersmeet.spark.sinks.postgres import PostgresSink, open_postgres
from watersmeet.spark.sinks.postgres_database import Database, Transaction
from watersmeet.spark.sinks.target import Batch, Target
from watersmeet.spark.sinks.write_stream import write_stream

pytestmark = [pytest.mark.connectors, pytest.mark.slow]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    try:
        with running_server(tmp_path_factory.mktemp("postgres")) as started:
            yield started
    except NoServerError as error:
        pytest.skip(str(error))


def sink(server: Server, table: str, **options: str) -> Sink:
    settings = {"url": server.url, "table": table, "user": "watersmeet", **options}
    return Sink("out", Connector("postgres", tuple(settings.items())))


def write(frame: DataFrame, target: Sink, folder: Path) -> None:
    write_stream(
        frame, target, name="out", checkpoint=folder / "c", available_now=True, base=folder
    ).awaitTermination()


def test_a_batch_done_again_adds_nothing_and_equal_answers_stay_apart(
    spark: SparkSession, server: Server, tmp_path: Path
) -> None:
    made = spark.readStream.format(FORMAT).options(rows="100", rows_per_batch="60", keys="5").load()
    answers = made.selectExpr(
        "dest",
        "size % 3 AS third",
        "ts",
        "array(size, NULL) AS sizes",
        "CAST(NULL AS DECIMAL(10, 2)) AS price",
    )
    write(answers.select("dest", "third"), sink(server, "few"), tmp_path / "few")
    # Fifteen different answers at most, each of them many times.
    assert server.ask("SELECT count(*), count(DISTINCT (dest, third)) <= 15 FROM few") == [["100", "t"]]
    for _ in range(2):
        write(answers, sink(server, "public.many"), tmp_path / "many")
        # As if the driver had died after the last batch was in the table and before the checkpoint knew.
        (tmp_path / "many" / "c" / "commits" / "1").unlink()
        (tmp_path / "many" / "c" / "commits" / ".1.crc").unlink()
    facts = "count(*), count(DISTINCT answer_id), min(ts AT TIME ZONE 'UTC'), min(jsonb_array_length(sizes))"
    assert server.ask(f"SELECT {facts} FROM many") == [["100", "100", "2025-01-01 00:00:00", "2"]]
    assert server.ask("SELECT count(*) FROM pg_tables WHERE tablename LIKE 'watersmeet_stage%'") == [["0"]]


def test_a_table_that_is_there_may_have_more_and_must_know_answer_ids(
    spark: SparkSession, server: Server, tmp_path: Path
) -> None:
    made = spark.readStream.format(FORMAT).options(rows="10").load().select("dest", "size")
    server.ask("CREATE TABLE mine (answer_id TEXT UNIQUE, dest TEXT, size INT, at TIMESTAMPTZ DEFAULT now())")
    write(made, sink(server, "mine"), tmp_path / "mine")
    assert server.ask("SELECT count(at) FROM mine") == [["10"]]
    server.ask("CREATE TABLE other (answer_id TEXT, dest TEXT, size BIGINT)")
    with pytest.raises(Exception, match="PostgreSQL says") as failure:
        write(made, sink(server, "other"), tmp_path / "other")
    error = explain_failure(failure.value)
    assert isinstance(error, DataError)
    assert str(error) == (
        "sink out (table other): PostgreSQL says: ERROR: there is no unique or exclusion constraint matching "
        "the ON CONFLICT specification"
    )


def test_a_database_that_cannot_be_reached_is_reported_at_the_start(
    spark: SparkSession, server: Server, tmp_path: Path
) -> None:
    made = spark.readStream.format(FORMAT).options(rows="10").load()
    with pytest.raises(
        DataError, match=r"sink out \(table t\): PostgreSQL says: FATAL: role \"nobody\" does not"
    ):
        write(made, sink(server, "t", user="nobody"), tmp_path)
    with pytest.raises(ConfigurationError, match="its url is not one of PostgreSQL: write 'jdbc:postgresql:"):
        write(made, sink(server, "t", url="jdbc:mysql://h/d"), tmp_path)
    named = made.withColumnRenamed("dest", "answer_id")
    with pytest.raises(ConfigurationError, match="gives every answer an answer_id: call the query's column"):
        write(named, sink(server, "t"), tmp_path)


@pytest.mark.variant  # test_foreach_batch.py shows that a batch done again has the same answers
def test_a_batch_of_a_join_done_again_gives_its_answers_the_same_ids(
    spark: SparkSession, server: Server, tmp_path: Path
) -> None:
    case = _joined(server, "joined", tmp_path)
    commits = case.checkpoint / "out" / "spark" / "commits"
    for _ in range(2):
        Session(spark).run(case.file, checkpoint=case.checkpoint, options=RunOptions(available_now=True))
        rows = server.ask("SELECT answer_id, k, va, vb, vc FROM joined ORDER BY 1")
        expected = oracle.run(case.query, case.batches, flush=False).rows
        assert Counter(tuple(map(int, row[1:])) for row in rows) == Counter(row[:4] for row in expected)
        assert len(rows) > len({tuple(row[1:]) for row in rows}), "equal answers are the hard case"
        # As if the driver had died when the last batch was in the table and the checkpoint did not know it.
        for file in commits.glob("*1*"):
            file.unlink()


def test_a_query_that_takes_the_name_of_one_that_failed_has_each_of_its_own_answers_once(
    spark: SparkSession, server: Server, tmp_path: Path
) -> None:
    """Query 1 is dropped for a batch that failed after the table had got it; query 2 begins with that batch.

    Under one name an answer of both is one row, as if query 1 had not been there; the rest of 1 stays.
    """
    target = Target(
        spark=spark, sink=sink(server, "renamed"), base=tmp_path, checkpoint=str(tmp_path), name="out"
    )
    first = spark.createDataFrame([("q", 1), ("q", 1), ("q", 2)], "query string, v int").coalesce(1)
    second = spark.createDataFrame([("q", 2), ("q", 2), ("q", 3)], "query string, v int").coalesce(1)
    for _ in range(2):
        for number, answers in (("1", first), ("2", second)):
            open_postgres(target).write(
                Batch(
                    number=7,
                    plan="at noon",
                    origin=Origin("0123abcd", 7, buckets=1),
                    queries=frozenset({number}),
                    answers=lambda _, answers=answers: answers,
                )
            )
    rows = server.ask("SELECT v, count(*) FROM renamed GROUP BY v ORDER BY v")
    assert rows == [["1", "2"], ["2", "2"], ["3", "1"]]


STAGED, MOVED, ALL = 10, 14, 15  # statements of a batch before which it is: staged, moved; and all of them


def test_a_server_killed_at_any_statement_gets_every_answer_once_after_its_recovery(
    spark: SparkSession, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, long_mode: bool
) -> None:
    for step in range(ALL) if long_mode else (STAGED, MOVED):
        made = spark.readStream.format(FORMAT).options(rows="50", rows_per_batch="30", keys="5").load()
        answers, table, folder = made.select("dest"), f"killed{step}", tmp_path / str(step)
        with monkeypatch.context() as patch:
            statements = _count_statements(patch, lambda number, step=step: number == step and server.kill())
            with pytest.raises(Exception, match=r"PostgreSQL says|Connection|connection"):
                write(answers, sink(server, table), folder)
        assert len(statements) == step + 1, "the next statement must have failed"
        server.start()
        write(answers, sink(server, table), folder)
        assert server.ask(f"SELECT count(*), count(DISTINCT answer_id) FROM {table}") == [["50", "50"]]
        marks = server.ask(f"SELECT writer, batch FROM watersmeet_batches WHERE target = '{table}'")
        [[writer, batch]] = marks
        assert batch == "1"
        assert _stages(server, writer) == []


@pytest.mark.variant
def test_a_driver_killed_at_any_statement_loses_and_repeats_nothing(
    spark: SparkSession, server: Server, tmp_path: Path
) -> None:
    """Statement 0 looks whether the database is there; those of the first batch follow."""
    for step in range(ALL + 2):
        folder = tmp_path / str(step)
        folder.mkdir()
        case = _joined(server, f"driver{step}", folder)
        request = Request(
            str(case.file), str(case.checkpoint), str(folder / "log"), flush=False, conf=jars_setting()
        )
        die = [sys.executable, "-m", "tests.spark.sinks.run_and_die", "postgres", str(step)]
        killed = subprocess.run(
            [*die, request.command[-1]], capture_output=True, text=True, timeout=300, check=False
        )
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        Session(spark).run(case.file, checkpoint=case.checkpoint, options=RunOptions(available_now=True))
        rows = server.ask(f"SELECT answer_id, k, va, vb, vc FROM driver{step}")
        expected = oracle.run(case.query, case.batches, flush=False).rows
        assert Counter(tuple(map(int, row[1:])) for row in rows) == Counter(row[:4] for row in expected), step
        assert len({row[0] for row in rows}) == len(rows)


def _joined(server: Server, table: str, folder: Path) -> Case:
    """A join whose answers go to a table."""
    case = write_case(folder, QUERIES["plain"], random_batches(seed=5, count=2, rows=60, keys=8))
    own = f"(format = 'postgres', url = '{server.url}', table = '{table}', user = 'watersmeet')"
    case.file.write_text(case.file.read_text().replace("(format = 'parquet', path = 'out')", own))
    return case


def _stages(server: Server, writer: str = "") -> list[str]:
    """The staging tables of a writer, or of all."""
    found = server.ask(f"SELECT tablename FROM pg_tables WHERE tablename LIKE 'watersmeet_stage_{writer}%'")
    return [row[0] for row in found]


def _count_statements(patch: pytest.MonkeyPatch, before: Callable[[int], object]) -> list[str]:
    """The statements of a sink's batches, growing as they are made; `before` gets the number of each."""
    made: list[str] = []

    def counted(act: Callable[..., Any]) -> Callable[..., Any]:
        def counting(self: object, *arguments: Any) -> Any:
            made.append(str(arguments[-1]))
            before(len(made) - 1)
            return act(self, *arguments)

        return counting

    for owner, name in ((Transaction, "run"), (Transaction, "ask"), (Database, "fill")):
        patch.setattr(owner, name, counted(getattr(owner, name)))
    patch.setattr(PostgresSink, "check", lambda *_: None)
    return made


def test_of_two_runs_on_one_checkpoint_the_second_to_move_a_batch_adds_nothing(
    spark: SparkSession, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other run does the same batch while this one has its answers staged."""
    made = spark.readStream.format(FORMAT).options(rows="50", keys="5").load().select("dest")

    before = _stages(server)

    def meanwhile(number: int) -> None:
        if number == STAGED:
            [stage] = set(_stages(server)).difference(before)
            writer = stage.split("_")[2]
            server.ask(f"INSERT INTO watersmeet_batches VALUES ('{writer}', 'raced', 0, '{writer}', '')")

    with monkeypatch.context() as patch:
        _count_statements(patch, meanwhile)
        with pytest.raises(Exception, match="has been written by another run of the same checkpoint"):
            write(made, sink(server, "raced"), tmp_path)
    assert server.ask("SELECT count(*) FROM raced") == [["0"]]

"""Kafka in, Kafka out, against a broker."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.paths import ROOT
from tests.spark.kafka.broker import Broker, jars_setting
from tests.spark.kafka.packets import SELECT, Packets, answers_in_topic, as_selected, read_topic
from watersmeet.query import Connector, Sink
from watersmeet.session import Session
from watersmeet.spark.generator.generator import FORMAT
from watersmeet.spark.jobs.job import RunOptions
from watersmeet.spark.sinks.write_stream import write_stream
from watersmeet.spark.sources.open_stream import read_batch

pytestmark = [pytest.mark.connectors, pytest.mark.slow]

EXAMPLE = ROOT / "examples" / "kafka"
NOW = RunOptions(available_now=True, flush=True)


def test_three_topics_into_one_and_what_is_malformed_into_another(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    packets = Packets(spark, broker, tmp_path / "sent", rows=700, slices=1, prefix="plain")
    packets.send(0)
    sinks = "\n".join(
        f"CREATE SINK {name} "
        f"WITH (format = 'kafka', bootstrap = '{broker.bootstrap}', topic = 'plain-{name}');"
        for name in ("answers", "letters")
    )
    more = ", dead_letters = 'letters', maxOffsetsPerTrigger = '250'"
    file = tmp_path / "pipeline.sql"
    file.write_text(f"{packets.streams(more)}\n{sinks}\nINSERT INTO answers {SELECT};\n")
    session = Session(spark)
    [job] = session.run(file, options=NOW).jobs
    assert job.progress is not None
    assert (job.progress.totals.rows, job.progress.totals.late) == (3 * packets.rows, 0)
    assert job.progress.totals.batches > 2
    assert job.progress.totals.malformed == packets.bad()

    found = answers_in_topic(spark, broker, "plain-answers").cache()
    assert packets.check(as_selected(found).toArrow()) == found.select("answer_id").distinct().count()
    keys = read_topic(spark, broker, "plain-answers").selectExpr(
        "key = get_json_object(value, '$.answer_id')"
    )
    assert keys.distinct().collect() == [(True,)]

    letters = read_topic(spark, broker, "plain-letters")
    assert letters.count() == packets.bad()
    where = letters.selectExpr(
        "value", "transform(headers, h -> h.key) AS names", "CAST(headers[2].value AS STRING)"
    )
    assert where.select("value", "names").distinct().collect() == [
        ('{"dest": ', ["watersmeet-stream", "watersmeet-reason", "watersmeet-from"])
    ]
    assert where.distinct().count() == packets.bad()
    # What is measured for planning is what a topic holds, wherever a query would start.
    stream = session.read(file).streams[0]
    assert read_batch(spark, stream, tmp_path).count() == packets.rows


@pytest.mark.variant  # dead letters are in the first test, sinks that are files in tests/spark/sinks
def test_dead_letters_in_files_come_once_and_from_the_first_message_on(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    def send(*values: str) -> None:
        frame = spark.createDataFrame([(value,) for value in values], "value string")
        writer = frame.write.format("kafka").option("kafka.bootstrap.servers", broker.bootstrap)
        writer.option("topic", "from-now").save()

    send("before the start")
    declared = f"(k BIGINT) WITH (format = 'kafka', bootstrap = '{broker.bootstrap}', topic = 'from-now'"
    file = tmp_path / "pipeline.sql"
    file.write_text(
        f"CREATE STREAM s {declared}, dead_letters = 'BAD');\n"
        "CREATE SINK bad WITH (format = 'parquet', path = 'bad');\n"
        "CREATE SINK shown WITH (format = 'memory');\n"
        "INSERT INTO shown SELECT a.k FROM s [RANGE 1 HOUR] AS a, s [RANGE 1 HOUR] AS b WHERE a.k = b.k;"
    )
    second = tmp_path / "second" / "pipeline.sql"
    second.parent.mkdir()
    own_names = (
        file.read_text()
        .replace("shown", "shown_too")
        .replace("'BAD'", "'own'")
        .replace("SINK bad", "SINK own")
    )
    second.write_text(own_names)  # a streaming query's name is its own in a session
    session = Session(spark)
    run = session.start(file)
    other = session.start(second)  # in the same session, with dead letters of its own
    [job], [letters] = run.jobs, run.dead_letters
    try:
        letters._query.processAllAvailable()  # type: ignore[union-attr]
        job._query.processAllAvailable()  # type: ignore[union-attr]
        send('{"k": 1}', "bad", '{"k": 1, "more": 2}')
        letters._query.processAllAvailable()  # type: ignore[union-attr]
        job._query.processAllAvailable()  # type: ignore[union-attr]
        reported = job.poll()
        run.stop()
        assert not letters.is_running()
        assert other.dead_letters[0].is_running()
    finally:
        run.stop()
        other.stop()
    assert not other.is_running()
    assert spark.table("shown").count() == 4
    # The query reads the stream twice; a message is malformed once.
    assert reported[-1].totals.malformed == 1
    send("worse")
    session.run(file, options=RunOptions(available_now=True))
    found = spark.read.parquet(str(tmp_path / "bad"))
    assert sorted(bytes(row.value).decode() for row in found.collect()) == ["bad", "worse"]


def test_a_batch_done_again_sends_its_answers_again_under_the_same_ids(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    """So whoever drops repeated ids has every answer once, equal ones among them."""
    made = spark.readStream.format(FORMAT).options(rows="100", rows_per_batch="60", keys="5").load()
    answers = made.selectExpr("dest", "size % 3 AS third")
    options = {"bootstrap": broker.bootstrap, "topic": "again"}
    target = Sink("out", Connector("kafka", tuple(options.items())))
    for _ in range(2):
        write_stream(
            answers, target, name="out", checkpoint=tmp_path / "c", available_now=True, base=tmp_path
        ).awaitTermination()
        # As if the driver had died after the last batch was sent and before the checkpoint knew.
        for file in (tmp_path / "c" / "commits").glob("*1*"):
            file.unlink()
    sent = read_topic(spark, broker, "again").select("key", "value")
    assert (sent.count(), sent.distinct().count()) == (140, 100)
    assert sent.select("key").distinct().count() == 100


@pytest.mark.variant  # three topics are joined in another test
def test_the_example_as_it_stands(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    text = (EXAMPLE / "pipeline.sql").read_text().replace("localhost:9092", broker.bootstrap)
    (tmp_path / "pipeline.sql").write_text(text)
    jars = [word for setting in jars_setting().items() for word in ("--conf", "=".join(setting))]
    words = [str(EXAMPLE / "producer.py"), "--bootstrap", broker.bootstrap, "--rows", "2000", *jars]
    sent = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False)
    assert sent.returncode == 0, sent.stderr
    [job] = Session(spark).run(tmp_path / "pipeline.sql", options=NOW).jobs
    assert job.progress is not None
    answers = read_topic(spark, broker, "common")
    assert answers.count() == job.progress.totals.answers > 100
    assert answers.where("key = get_json_object(value, '$.dest')").count() == answers.count()
    assert spark.read.json(str(tmp_path / "letters")).count() == job.progress.totals.malformed > 10
    topics = [read_topic(spark, broker, f"packets-{router}").count() for router in ("r1", "r2", "r3")]
    assert min(topics) >= 2000  # Spark sends again what a broker under load has not confirmed
    assert job.progress.totals.rows + job.progress.totals.malformed == sum(topics)
    assert job.progress.totals.late == 0

"""Dead letters across sites: each site keeps its own, in sinks of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.sites.test_run_site import follow_all
from tests.sites.two_sites import PLAN, SITES, assert_answers, write_pipeline
from tests.spark.kafka.broker import Broker
from watersmeet.errors import ConfigurationError
from watersmeet.query import Pipeline
from watersmeet.session import Session
from watersmeet.sites.letters_of_site import letters_of_site
from watersmeet.sites.run_site import SiteRequest, start_site
from watersmeet.spark.jobs.job import RunOptions
from watersmeet.sql import parse_pipeline

NO_SPARK: Any = None


def pipeline(*letters: tuple[str, str, str]) -> Pipeline:
    """Streams with their sites, and the sinks of their dead letters."""
    streams = "".join(
        f"CREATE STREAM {name} (k BIGINT, ts TIMESTAMP) WITH (format = 'kafka', "
        f"bootstrap = 'localhost:9092', topic = '{name}', event_time = 'ts', site = '{site}', "
        f"dead_letters = '{sink}');\n"
        for name, site, sink in letters
    )
    sinks = {sink.lower(): sink for _, _, sink in letters}.values()
    return parse_pipeline(
        streams
        + "".join(f"CREATE SINK {sink} WITH (format = 'parquet', path = '{sink}');\n" for sink in sinks)
        + "SELECT a.k FROM a [RANGE 1 S], b [RANGE 1 S] WHERE a.k = b.k;"
    )


def test_a_site_keeps_those_of_its_own_streams(tmp_path: Path) -> None:
    found = pipeline(("a", "paris", "bad_a"), ("b", "oslo", "bad_b"))
    (letters,) = letters_of_site(NO_SPARK, found, {"a"}, "/root/sites/paris", tmp_path, RunOptions())
    assert [stream.name for stream in letters.streams] == ["a"]
    assert letters.checkpoint == "/root/sites/paris/dead-letters-bad_a"


def test_one_sink_for_two_sites_is_refused(tmp_path: Path) -> None:
    found = pipeline(("a", "paris", "bad"), ("b", "oslo", "BAD"))
    with pytest.raises(ConfigurationError, match="streams a and b are at different sites, and both have"):
        letters_of_site(NO_SPARK, found, {"a"}, "/root/sites/paris", tmp_path, RunOptions())
    together = letters_of_site(NO_SPARK, found, {"a", "b"}, "/root/sites/paris", tmp_path, RunOptions())
    assert [len(letters.streams) for letters in together] == [2]


@pytest.mark.spark
@pytest.mark.connectors
@pytest.mark.variant
def test_they_are_kept_while_answers_are_found_elsewhere(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    """Tuples come to paris by Kafka, one message is none; all is joined at oslo."""
    file = write_pipeline(tmp_path)
    topic = f"""format = 'kafka', bootstrap = '{broker.bootstrap}', topic = 'letters',
      startingOffsets = 'earliest', dead_letters = 'bad', event_time"""
    text = file.read_text().replace("format = 'parquet', path = 'a', event_time", topic)
    assert topic in text
    file.write_text(f"{text}CREATE SINK bad WITH (format = 'parquet', path = 'bad');\n")
    tuples = spark.read.parquet(str(tmp_path / "a")).selectExpr("to_json(struct(*)) AS value")
    messages = tuples.union(spark.createDataFrame([("no tuple",)], "value string"))
    writer = messages.write.format("kafka").option("kafka.bootstrap.servers", broker.bootstrap)
    writer.option("topic", "letters").save()
    session = Session(spark)
    finite = RunOptions(available_now=True, flush=True)
    requests = [SiteRequest(file=file, site=site, plan=PLAN) for site in SITES.values()]
    follow_all([start_site(session, request, finite) for request in requests])
    assert_answers(tmp_path)
    (row,) = spark.read.parquet(str(tmp_path / "bad")).collect()
    assert (row.stream, bytes(row.value)) == ("a", b"no tuple")

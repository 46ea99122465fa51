"""Tuples sampled from sources for a simulation: Spark computes filters and join values."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.analyze.test_analyze import reader, write
from watersmeet.errors import ConfigurationError
from watersmeet.lab.wan.advice.advice import simulate_advice
from watersmeet.lab.wan.advice.sample import taken_sample
from watersmeet.plan.sites.advice import advise_sites
from watersmeet.spark.analyze.analyze import analyze
from watersmeet.spark.analyze.sample import sample_inputs
from watersmeet.sql import parse_pipeline

SQL = """
CREATE STREAM r (k BIGINT, name STRING, tags ARRAY<STRING>, unused STRING, ts TIMESTAMP)
  WITH (format = 'parquet', path = 'r', event_time = 'ts', site = 'paris');
CREATE STREAM s (k BIGINT, name STRING, tags ARRAY<STRING>, unused STRING, ts TIMESTAMP)
  WITH (format = 'parquet', path = 's', event_time = 'ts', site = 'oslo');
SELECT a.name, answer_time FROM r [RANGE 5 SECONDS] AS a, s [RANGE 5 SECONDS] AS b
WHERE a.k = b.k AND array_sort(a.tags) = array_sort(b.tags) AND a.name = 'yy';
"""

pytestmark = pytest.mark.spark


def test_sampled_tuples_are_filtered_keyed_and_simulated(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path / "r", [n % 4 if n % 8 else None for n in range(200)], apart_us=100_000)
    write(tmp_path / "s", [n % 4 for n in range(400)], apart_us=50_000)
    pipeline = parse_pipeline(SQL)
    (query,) = pipeline.queries
    left, right = sample_inputs(query, reader(spark, tmp_path), 1000)
    # Names go x, yy, NULL, yy; every eighth k is NULL, which never falls on a yy.
    assert [ts for ts, _ in left] == [n * 100_000 for n in range(200)]
    assert [values for _, values in left[:4]] == [None, (1, "[a, b]"), None, (3, "[a, b]")]
    assert [values for _, values in right[:3]] == [(0, "[c]"), (1, "[a, b]"), (2, "[c]")]
    statistics = analyze(spark, pipeline, reader(spark, tmp_path))
    found = simulate_advice(advise_sites(query, statistics), statistics, taken_sample([left, right]), 10.0)
    assert found.origin == "tuples of the sources"
    assert (found.seconds, found.filled_s) == (10.0, 5.0)
    simple = found.options[-1]
    assert sum(simple.crossed.values()) == pytest.approx(simple.option.bytes_per_s * 10, rel=0.03)


def test_a_stream_stamped_on_arrival_cannot_be_sampled(spark: SparkSession, tmp_path: Path) -> None:
    (query,) = parse_pipeline(SQL.replace("event_time = 'ts', ", "")).queries
    with pytest.raises(ConfigurationError, match="stream r declares no event_time"):
        sample_inputs(query, reader(spark, tmp_path), 10)

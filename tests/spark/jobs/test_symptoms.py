"""A run of which nothing comes out says why, and answers are counted as they are written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from watersmeet.session import Session
from watersmeet.spark.jobs.job import RunOptions

ONCE = RunOptions(available_now=True)
PIPELINE = """
CREATE STREAM s1 (id BIGINT, {} BIGINT, v BIGINT, ts TIMESTAMP)
  WITH (format = 'json', path = 's1', event_time = 'ts', latness = '5 seconds');
CREATE STREAM s2 (k BIGINT, v BIGINT, ts TIMESTAMP) WITH (format = 'json', path = 's2', event_time = 'ts');
CREATE SINK out WITH (format = 'json', path = 'out');
INSERT INTO out
SELECT a.v, b.v AS w FROM s1 [RANGE 1 MINUTE] AS a, s2 [RANGE 1 MINUTE] AS b WHERE a.{} = b.k AND a.v > b.v
"""


def run(spark: SparkSession, folder: Path, key: str) -> tuple[list[str], int]:
    """The warnings of a run over two small streams, and how many answers it says it has written."""
    folder.mkdir()
    for name in ("s1", "s2"):
        (folder / name).mkdir()
        times = [f"2026-01-01T00:00:{n:02}Z" for n in range(30)]
        rows = [{"id": n, "k": n % 5, "v": n % 7, "ts": ts} for n, ts in enumerate(times)]
        (folder / name / "a.json").write_text("\n".join(map(json.dumps, rows)))
    (folder / "pipeline.sql").write_text(PIPELINE.format(key, key))
    warned: list[str] = []
    ended = Session(spark).run(
        folder / "pipeline.sql", options=ONCE, on_warning=lambda _, text: warned.append(text)
    )
    (progress,) = ended.progress.values()
    written = sum(len(file.read_text().splitlines()) for file in (folder / "out").glob("*.json"))
    assert written == progress.totals.answers <= progress.totals.combinations
    return warned, written


def test_a_run_says_why_nothing_comes_out(spark: SparkSession, tmp_path: Path) -> None:
    misspelt, null_key, account = run(spark, tmp_path / "wrong", "customer")[0]
    assert "latness is no option of json, which passes over it. Did you mean lateness?" in misspelt
    assert null_key.startswith("no tuple of a can join: a.customer is NULL in all 30 of them")
    assert account == (
        "there is no answer. a: 30 rows, of these 30 with a NULL in the join; b: 30 rows; "
        "no values were equal within 1 min"
    )


@pytest.mark.variant
def test_answers_are_counted_after_all_conditions(spark: SparkSession, tmp_path: Path) -> None:
    warned, written = run(spark, tmp_path / "right", "k")
    assert len(warned) == 1
    assert written == sum(n % 5 == m % 5 and n % 7 > m % 7 for n in range(30) for m in range(30))

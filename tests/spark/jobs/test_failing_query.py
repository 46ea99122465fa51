"""A query that fails leaves the others running, and `--flush` is repeated until all have ended."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.pipelines import random_batches, write_case
from watersmeet.errors import ConfigurationError, DataError
from watersmeet.oracle import oracle
from watersmeet.session import Session
from watersmeet.spark.jobs.job import RunOptions

ONCE = RunOptions(available_now=True)
TO_THE_END = RunOptions(available_now=True, flush=True)
PAIRS = "SELECT DISTINCT a.k, b.v FROM s1 [RANGE 4 SECONDS] AS a, s2 [RANGE 3 SECONDS] AS b WHERE a.k = b.k"
BAD = """\
CREATE STREAM j (k BIGINT, ts TIMESTAMP) WITH (format = 'json', path = 'j', event_time = 'ts');
CREATE SINK kept WITH (format = 'parquet', path = 'kept');
-- name: Bad
INSERT INTO kept SELECT k FROM j;
"""


def test_a_flush_that_failed_for_one_query_is_completed_by_the_same_command(
    spark: SparkSession, tmp_path: Path
) -> None:
    case = write_case(tmp_path, PAIRS, random_batches(seed=40, count=2, streams=("s1", "s2")))
    text = case.file.read_text()
    case.file.write_text(BAD + text)  # the one that fails starts first
    (tmp_path / "j").mkdir()
    (tmp_path / "j" / "0.json").write_text('{"k": 1, "ts": "2025-01-01 00:00:00"}\n{"k": "one"}\n')
    session = Session(spark)

    def run(options: RunOptions = TO_THE_END) -> tuple[str, ...]:
        return session.run(case.file, checkpoint=case.checkpoint, options=options).ended

    with pytest.raises(DataError, match=r"^query Bad: file:\S+/j/0.json holds a record that does not match"):
        run()
    case.check(spark)  # the other has had its end, with the answers that waited for it
    (tmp_path / "j" / "0.json").write_text('{"k": 1, "ts": "2025-01-01 00:00:00"}\n{"k": 2}\n')
    assert run() == ("out",)
    assert oracle.bag([(row.k,) for row in spark.read.parquet(str(tmp_path / "kept")).collect()]) == {(1,): 1}
    assert run() == ("Bad", "out")
    case.check(spark)
    with pytest.raises(ConfigurationError, match=r"^query Bad: the input of \S+/bad was ended by --flush"):
        run(ONCE)
    case.file.write_text(BAD + text.replace("RANGE 3 S", "RANGE 30 S"))
    with pytest.raises(ConfigurationError, match=r"^query out: the checkpoint was written by a different"):
        run()

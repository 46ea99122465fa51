"""A user's own sink, through `foreachBatch`: what it can build on."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.spark.pipelines import QUERIES, random_batches, write_case
from watersmeet.oracle import oracle
from watersmeet.session import Session

STREAM = "k BIGINT, v BIGINT, ts TIMESTAMP"


def test_a_batch_done_again_has_the_number_and_the_answers_of_its_first_try(
    spark: SparkSession, tmp_path: Path
) -> None:
    """So a function that replaces what it has under a batch's number holds every answer once."""
    case = write_case(tmp_path, QUERIES["plain"], random_batches(seed=11, count=3))
    session = Session(spark)
    for stream in case.query.streams:
        reader = spark.readStream.schema(STREAM).option("maxFilesPerTrigger", 1)
        files = reader.parquet(str(tmp_path / stream.name))
        session.stream(stream.name, files, event_time="ts", lateness="2 seconds")
    tries: dict[int, list[Counter[tuple[Any, ...]]]] = defaultdict(list)

    def keep(answers: DataFrame, batch: int) -> None:
        rows = answers.selectExpr("k", "va", "vb", "vc", "unix_micros(answer_time)").collect()
        tries[batch].append(Counter(tuple(row) for row in rows))
        if batch == 1 and len(tries[batch]) == 1:
            raise OSError("the user's own database is gone")

    def run() -> None:
        writer = session.sql(QUERIES["plain"]).writeStream.foreachBatch(keep)
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination()

    with pytest.raises(Exception, match="the user's own database is gone"):
        run()
    run()
    first, second = tries[1]
    assert first == second
    assert first, "a batch without answers proves nothing"
    kept = sum((each[-1] for each in tries.values()), Counter())
    assert kept == oracle.bag(oracle.run(case.query, case.batches, flush=False).rows)

"""Python workers that are killed while a sink is being written cost nothing and repeat nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tests.spark.pipelines import QUERIES, Case, random_batches, write_case
from watersmeet.oracle import oracle
from watersmeet.query import Connector, Sink
from watersmeet.session import Session
from watersmeet.spark.session.failures import explain_failure
from watersmeet.spark.sinks.write_stream import write_stream

SHOWN = ("k", "va", "vb", "vc", "unix_micros(answer_time)")


@pytest.mark.variant  # in another test workers are killed while a batch runs
@pytest.mark.parametrize("into", ["files", "foreachBatch"])
def test_workers_killed_while_answers_are_written_lose_and_repeat_nothing(
    into: str, spark: SparkSession, tmp_path: Path
) -> None:
    """All of them, those that hold the join's buckets too, when some answers of a batch are written."""
    case = write_case(tmp_path, QUERIES["plain"], random_batches(seed=11, count=2))
    kept: dict[int, Counter[tuple[Any, ...]]] = {}

    def start() -> StreamingQuery:
        answers = _answers(spark, case).mapInArrow(_kill_once(str(tmp_path)), _answers(spark, case).schema)
        if into == "files":
            out = Sink("out", Connector("parquet", (("path", "out"),)))
            return write_stream(
                answers, out, name="out", checkpoint=tmp_path / "c", available_now=True, base=tmp_path
            )
        writer = answers.writeStream.foreachBatch(_keep_in(kept)).trigger(availableNow=True)
        return writer.option("checkpointLocation", str(tmp_path / "c")).start()

    failures = []
    for _ in range(2):  # where Spark itself does not try a task again, the query fails and is resumed
        try:
            start().awaitTermination()
        except StreamingQueryException as failure:
            failures.append(str(explain_failure(failure)))
    assert all("Python worker" in each for each in failures), failures
    assert (tmp_path / "killed").exists()
    found = sum(kept.values(), Counter())
    if into == "files":
        rows = spark.read.parquet(str(tmp_path / "out")).selectExpr(*SHOWN).collect()
        found = Counter(tuple(row) for row in rows)
    assert found == oracle.bag(oracle.run(case.query, case.batches, flush=False).rows)


def _answers(spark: SparkSession, case: Case) -> DataFrame:
    session = Session(spark)
    for stream in case.query.streams:
        reader = spark.readStream.schema("k BIGINT, v BIGINT, ts TIMESTAMP").option("maxFilesPerTrigger", 1)
        files = reader.parquet(str(case.file.parent / stream.name))
        session.stream(stream.name, files, event_time="ts", lateness="2 seconds")
    return session.sql(QUERIES["plain"])


def _keep_in(kept: dict[int, Counter[tuple[Any, ...]]]) -> Callable[[DataFrame, int], None]:
    def keep(answers: DataFrame, batch: int) -> None:
        kept[batch] = Counter(tuple(row) for row in answers.selectExpr(*SHOWN).collect())

    return keep


def _kill_once(folder: str) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Passes rows on; the first task that has some kills every Python worker of this machine's Spark."""

    def pass_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import os
        import signal
        from contextlib import suppress
        from pathlib import Path

        for rows in batches:
            yield rows[: rows.num_rows // 2]
            if rows.num_rows:
                with suppress(FileExistsError):
                    os.close(os.open(f"{folder}/killed", os.O_CREAT | os.O_EXCL))
                    children = Path(f"/proc/{os.getppid()}/task/{os.getppid()}/children").read_text().split()
                    for pid in sorted(map(int, children), key=lambda pid: pid == os.getpid()):
                        os.kill(pid, signal.SIGKILL)
            yield rows[rows.num_rows // 2 :]

    return pass_on

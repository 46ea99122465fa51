"""The sinks of one dataflow: one that fails does not make the others repeat a batch."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.spark.multiquery.test_shared_dataflow import QUERIES, dataflow_job, expected, midway, run_to_end
from tests.spark.pipelines import arrive, random_batches, write_case
from watersmeet import oracle
from watersmeet.errors import DataError
from watersmeet.query import NEVER
from watersmeet.spark.multiquery import fill
from watersmeet.spark.sinks import formats
from watersmeet.spark.sinks.answer_ids import ANSWER_ID, with_answer_ids
from watersmeet.spark.sinks.files import FileSink
from watersmeet.spark.sinks.target import Batch
from watersmeet.sql import bind_query, parse_pipeline

SINKS = """
CREATE SINK a_first WITH (format = 'parquet', path = 'common', answers = 'json');
CREATE SINK b_held WITH (format = 'memory', answers = 'json');
CREATE SINK c_named WITH (format = 'named', answers = 'json');
CREATE SINK d_last WITH (format = 'parquet', path = 'common', answers = 'json');
"""
INTO = {"same": "a_first", "alone": "a_first", "pair": "b_held", "self": "d_last"}
INTO |= dict.fromkeys(("chain", "evaluated", "range"), "c_named")


@dataclass
class NamedAnswers:
    """A sink that keeps the ids of each batch, try by try."""

    tries: dict[int, list[set[str]]] = field(default_factory=lambda: defaultdict(list))

    def check(self, columns: list[str]) -> None:
        assert columns == ["query", "answer_time", "answer"]

    def write(self, batch: Batch) -> None:
        rows = batch.answers(batch.queries)
        found = [] if rows is None else with_answer_ids(rows, batch.origin).collect()
        names = {f"{row['query']} {row[ANSWER_ID]}" for row in found}
        assert len(names) == len(found), "each answer has an id of its own"
        self.tries[batch.number].append(names)


def test_a_batch_done_again_for_one_sink_and_with_more_queries_adds_what_is_missing_and_nothing_else(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batch 1 fails at its last sink, and is done again with two more queries."""
    named = NamedAnswers()
    monkeypatch.setattr(fill, "SINK_PATIENCE_S", 0.0)
    monkeypatch.setitem(formats.FORMATS, "named", lambda target: named)  # type: ignore[call-overload]
    case = write_case(tmp_path, QUERIES["same"], random_batches(5, count=3), arrived=2)
    first = {name: (QUERIES[name], 0, NEVER) for name in ("same", "pair", "self", "chain", "evaluated")}
    job = dataflow_job(spark, case, first, sinks=SINKS, into=INTO)
    with monkeypatch.context() as patch:
        patch.setattr(FileSink, "write", _fails_once_in_batch_1)
        with pytest.raises(DataError, match="the disk of d_last is gone"):
            run_to_end(job)
    arrive(case, [2])
    second = first | {name: (QUERIES[name], 1, NEVER) for name in ("range", "alone")}
    run_to_end(dataflow_job(spark, case, second, job.dataflow, sinks=SINKS, into=INTO))

    streams = parse_pipeline(case.file.read_text()).streams
    common = spark.read.parquet(str(tmp_path / "common"))
    for name, frame in (
        ("same", common),
        ("self", common),
        ("alone", common),
        ("pair", spark.table("b_held")),
    ):
        text, since, until = second[name]
        want = expected(bind_query(text, streams), midway(case.batches, since, until))
        assert want, f"{name} without answers proves nothing"
        assert oracle.bag(answers_of(frame, name)) == want, name
    before, after = named.tries[1]
    assert {name.split()[0] for name in before} == {"chain", "evaluated"}
    assert before == {name for name in after if name.split()[0] != "range"}
    assert len(after) > len(before)


def _fails_once_in_batch_1(self: FileSink, batch: Batch, write: Any = FileSink.write) -> None:
    if self.name == "d_last" and batch.number == 1:
        raise DataError("the disk of d_last is gone")
    write(self, batch)


def answers_of(frame: DataFrame, query: str) -> list[tuple[Any, ...]]:
    rows = frame.where(f"query = '{query}'").collect()
    return [tuple(json.loads(row["answer"]).values()) for row in rows]

"""The demonstration in small, and its judges, which must see a wrong answer."""

from __future__ import annotations

import io
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from rich.console import Console

from watersmeet.cli.demonstration.demo import WINDOW_MS, Demo
from watersmeet.cli.demonstration.judge import judge_by_duckdb, judge_by_oracle, packets
from watersmeet.cli.demonstration.show_demo import show_demo
from watersmeet.query import Pipeline
from watersmeet.session import Session
from watersmeet.sql import parse_pipeline

SMALL = Demo(seconds=1, rate=800, seed=5)


@pytest.fixture(scope="module")
def pipeline() -> Pipeline:
    return parse_pipeline(SMALL.pipeline())


def test_the_demo_ends_with_the_verdict(spark: SparkSession, tmp_path: Path) -> None:
    out = io.StringIO()
    console = Console(file=out, width=120)
    assert show_demo(SMALL, Session(spark), tmp_path, console, until=lambda: False)
    shown = out.getvalue()
    assert "FROM r1 [RANGE 250 MS] AS a" in shown
    assert "destinations met most often" in shown
    assert "join type 1: a, b, c" in shown
    assert "packets  2,400" in shown
    assert "on the same 2,400 packets" in shown
    assert "late     0" in shown


def test_a_demo_that_is_stopped_gives_no_verdict(spark: SparkSession, tmp_path: Path) -> None:
    out = io.StringIO()
    show_demo(SMALL, Session(spark), tmp_path, Console(file=out), until=lambda: True)
    assert "verdict" not in out.getvalue()


def test_both_judges_see_what_is_missing_and_what_is_too_much(pipeline: Pipeline) -> None:
    streams = packets(SMALL, pipeline)
    none = pa.table(
        {
            "dest": pa.array([], pa.string()),
            **{name: pa.array([], pa.int64()) for name in ("size_1", "size_2", "size_3", "answer_time")},
        }
    )
    expected = answers_by_hand(streams)
    assert expected.num_rows > 10
    twice = pa.concat_tables([expected, expected.slice(0, 1)])
    for by_duckdb in (True, False):

        def judge(answers: pa.Table, by_duckdb: bool = by_duckdb) -> tuple[bool, int, int]:
            found = (
                judge_by_duckdb(streams, answers)
                if by_duckdb
                else judge_by_oracle(pipeline, streams, answers)
            )
            assert found.expected == expected.num_rows
            return found.holds, found.missing, found.extra

        assert judge(expected) == (True, 0, 0)
        assert judge(none) == (False, expected.num_rows, 0)
        assert judge(expected.slice(1)) == (False, 1, 0)
        assert judge(twice) == (False, 0, 1)
    # With fewer destinations the oracle is still exact about those it looks at.
    sampled = judge_by_oracle(pipeline, streams, expected, sample_rows=200)
    assert sampled.holds
    assert 0 < sampled.expected < expected.num_rows


def answers_by_hand(streams: dict[str, pa.Table]) -> pa.Table:
    window_us = WINDOW_MS * 1000
    rows = [
        (a["dest"], a["size"], b["size"], c["size"], max(a["ts"], b["ts"], c["ts"]))
        for a in streams["r1"].to_pylist()
        for b in streams["r2"].to_pylist()
        if a["dest"] == b["dest"] and abs(a["ts"] - b["ts"]) <= window_us
        for c in streams["r3"].to_pylist()
        if a["dest"] == c["dest"] and max(abs(a["ts"] - c["ts"]), abs(b["ts"] - c["ts"])) <= window_us
    ]
    names = ("dest", "size_1", "size_2", "size_3", "answer_time")
    return pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))

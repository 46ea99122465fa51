"""Runs the queries of `tests/spark/pipelines.py` in process, with disturbances between batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tests.spark.pipelines import pipeline_text
from watersmeet.oracle import oracle
from watersmeet.oracle.oracle import MicroBatch, Row
from watersmeet.query import Query
from watersmeet.sql import parse_pipeline
from watersmeet.testing import InProcessEngine, Setup, Step


def bind(select: str, stream_options: str = "") -> Query:
    """A SELECT over the three streams s1, s2, s3 of k, v and ts."""
    return parse_pipeline(pipeline_text(select, stream_options)).queries[0]


def run_batches(
    query: Query,
    batches: Sequence[MicroBatch],
    setup: Setup | None = None,
    *,
    flush: bool = False,
    before: Callable[[InProcessEngine, int], None] = lambda engine, number: None,
) -> list[Step]:
    """The steps of a query; `before` is called before each batch, and before the end."""
    with InProcessEngine(query, setup) as engine:
        steps = []
        for number, batch in enumerate(batches):
            before(engine, number)
            steps.append(engine.step(batch))
        if flush:
            before(engine, len(batches))
            steps.append(engine.end())
    return steps


def rows_of(steps: Sequence[Step]) -> list[Row]:
    return [row for step in steps for row in step.answers]


def check(query: Query, batches: Sequence[MicroBatch], steps: Sequence[Step], *, flush: bool = False) -> None:
    """The answers are the oracle's, and there are some."""
    expected = oracle.run(query, batches, flush=flush)
    assert expected.rows, "a case without answers proves nothing"
    assert oracle.bag(rows_of(steps)) == oracle.bag(expected.rows)

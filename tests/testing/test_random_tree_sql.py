"""Trees of joins as SQL, bound and run in process: answers are the oracle's of the tree as it was drawn."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings

from tests.oracle.test_against_duckdb import assert_share
from tests.sql.binding.joins.test_random_trees import sql
from tests.tree_strategies import tree_cases
from watersmeet.oracle import oracle
from watersmeet.oracle.oracle import MicroBatch
from watersmeet.query import Query
from watersmeet.sql import bind_query
from watersmeet.testing import InProcessEngine, Setup


@pytest.mark.variant
def test_what_is_bound_is_answered() -> None:
    answered: list[bool] = []

    @settings(max_examples=500)
    @given(tree_cases())
    def check(case: tuple[Query, list[MicroBatch]]) -> None:
        drawn, batches = case
        asked = replace(drawn, inputs=tuple(replace(item, filters=()) for item in drawn.inputs))
        with InProcessEngine(bind_query(sql(asked), asked.streams), Setup(partitions=2)) as engine:
            found = [row for batch in batches for row in engine.step(batch).answers]
            found += engine.end().answers
        expected = oracle.run(asked, batches, flush=True).rows
        assert oracle.bag(found) == oracle.bag(expected), sql(asked)
        answered.append(bool(expected))

    check()
    assert_share(answered)

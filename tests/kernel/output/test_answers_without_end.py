"""Aggregates over windows that count rows: an answer is held before it is known when its tuples end."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings

from tests.kernel.answered import answers_in
from tests.kernel.feeding import SMALL, combinations, feed
from tests.kernel.output.test_held_answers import grouped
from tests.strategies import cases
from watersmeet.kernel import Bucket, JoinBucket, NumberingBucket, plan_bucket
from watersmeet.oracle import oracle
from watersmeet.oracle.oracle import MicroBatch
from watersmeet.query import PartitionRowsWindow, Query, RangeWindow, RowsWindow, TumbleRowsWindow

Case = tuple[Query, list[MicroBatch]]
WINDOWS = (PartitionRowsWindow, PartitionRowsWindow, RowsWindow, TumbleRowsWindow, RangeWindow)


@pytest.mark.parametrize("flush", [True, False])
@pytest.mark.parametrize("restores", [False, True])
def test_the_samples_are_those_of_the_oracle(
    flush: bool, restores: bool, examples: Callable[[int], settings]
) -> None:
    with answers_in(0.4) as answered:

        @given(cases(kinds=("aggregate",), windows=WINDOWS, max_inputs=3))
        @examples(10)
        def holds(case: Case) -> None:
            query, batches = case
            plan, bucket, found = plan_bucket(query, tuning=SMALL), Bucket(query, tuning=SMALL), []
            for batch in [*batches, *([None] if flush else [])]:
                found += combinations(query, feed(bucket, batch, flush=batch is None))
                if restores:
                    joins, ranks = bucket.joins, bucket.ranks
                    bucket.joins = JoinBucket.restore(plan, joins.snapshot(), joins.persisted())
                    if ranks is not None:
                        bucket.ranks = NumberingBucket.restore(plan, ranks.snapshot(), ranks.persisted())
            expected = oracle.run(query, batches, flush=flush).rows
            answered.count(expected)
            assert oracle.bag(grouped(query, found)) == oracle.bag(expected)

        holds()

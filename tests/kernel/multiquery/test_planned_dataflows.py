"""Dataflows planned and run in process: each query's bag is the oracle's, while queries come and go."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernel.multiquery.feeding import expected_rows, run_dataflow
from tests.plan.multiquery.query_sets import QuerySetCase, query_sets
from watersmeet.oracle.oracle import bag
from watersmeet.plan.multiquery.plan_dataflow import plan_dataflow
from watersmeet.query.shared_dataflow import SharedDataflow

LEVELS = 4


def dataflows_of(case: QuerySetCase, keeps_ended: bool) -> list[SharedDataflow]:
    """The dataflow of each batch: planned again, around the one before, whenever the queries change."""
    dataflows: list[SharedDataflow] = []
    there: list[int] | None = None
    for batch in range(len(case.batches)):
        now = [q for q in case.queries if q.since <= batch and (keeps_ended or batch < q.until)]
        if there == [q.number for q in now]:
            dataflows.append(dataflows[-1])
            continue
        there = [q.number for q in now]
        dataflows.append(plan_dataflow(now, case.streams, LEVELS, kept=dataflows[-1] if dataflows else None))
    return dataflows


def check(case: QuerySetCase, buckets: int, keeps_ended: bool, restore: bool) -> int:
    """Compares the answers of all queries with the oracle's; how many queries of several inputs had some."""
    dataflows = dataflows_of(case, keeps_ended)
    queries = {each.name: each.query for each in case.queries}
    outcome = run_dataflow(lambda batch: dataflows[batch], queries, case.batches, buckets, restore=restore)
    answered = 0
    for each in case.queries:
        expected = expected_rows(each.query, case.batches, each.since, each.until)
        assert bag(outcome.rows[each.name]) == bag(expected), each.query.pretty()
        answered += bool(expected) and len(each.query.inputs) > 1
    return answered


def test_every_query_of_a_dataflow_gets_its_own_answers(examples: Callable[[int], settings]) -> None:
    answered: list[int] = []

    @examples(15)
    @given(query_sets(max_queries=5), st.integers(1, 3), st.booleans(), st.booleans())
    def every_bag_is_the_oracles(case: QuerySetCase, buckets: int, keeps_ended: bool, restore: bool) -> None:
        answered.append(check(case, buckets, keeps_ended, restore))

    every_bag_is_the_oracles()
    assert sum(map(bool, answered)) > len(answered) / 2, "cases without answers prove nothing"

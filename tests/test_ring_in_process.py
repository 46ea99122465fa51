"""Whole rings, planned and run in process: each query's bag is the oracle's, while queries come and go."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernel.ring_feeding import expected_rows, run_ring
from tests.ring_cases import RingCase, ring_cases
from watersmeet.oracle import bag
from watersmeet.plan.ring import plan_ring
from watersmeet.query.ring import Ring

LEVELS = 4


def rings_of(case: RingCase, keeps_ended: bool) -> list[Ring]:
    """The ring of each batch: planned anew, around the one before, whenever the queries change."""
    rings: list[Ring] = []
    there: list[int] | None = None
    for batch in range(len(case.batches)):
        now = [q for q in case.queries if q.since <= batch and (keeps_ended or batch < q.until)]
        if there == [q.number for q in now]:
            rings.append(rings[-1])
            continue
        there = [q.number for q in now]
        rings.append(plan_ring(now, case.streams, LEVELS, kept=rings[-1] if rings else None))
    return rings


def check(case: RingCase, buckets: int, keeps_ended: bool, restore: bool) -> None:
    rings = rings_of(case, keeps_ended)
    queries = {each.name: each.query for each in case.queries}
    outcome = run_ring(lambda batch: rings[batch], queries, case.batches, buckets, restore=restore)
    for each in case.queries:
        expected = expected_rows(each.query, case.batches, each.since, each.until)
        assert bag(outcome.rows[each.name]) == bag(expected), each.query.pretty()


def test_every_query_of_a_ring_gets_its_own_answers(examples: Callable[[int], settings]) -> None:
    @examples(40)
    @given(ring_cases(max_queries=5), st.integers(1, 3), st.booleans(), st.booleans())
    def every_bag_is_the_oracles(case: RingCase, buckets: int, keeps_ended: bool, restore: bool) -> None:
        check(case, buckets, keeps_ended, restore)

    every_bag_is_the_oracles()

"""Random queries with `[PARTITION BY k ROWS n]`, in process: answers are exactly the oracle's."""

from __future__ import annotations

import pytest

from tests.testing.random_cases import draw_case
from tests.testing.test_random_cases import check_case
from watersmeet.errors import WatersmeetError
from watersmeet.kernel import StateLimit
from watersmeet.testing import declare, run_query

pytestmark = pytest.mark.slow

CASES = 24
WITH_ANSWERS = 0.7


@pytest.mark.parametrize(
    "variant", ["partitioned", "partitioned files", "partitioned aggregate", "partitioned distinct"]
)
def test_answers_are_the_oracles(variant: str, long_mode: bool) -> None:
    """Counted in the join's buckets or in copies, beside windows of all kinds, whatever fails and moves.

    Aggregates sample answers whose tuples end later; values of such answers are distinct.
    """
    outcomes, copied = [], 0
    for seed in range(CASES // 2 * (20 if long_mode else 1)):
        case = draw_case(seed, variant=variant)
        outcomes.append(check_case(case))
        routed = [case.query.routing_classes(item.alias) for item in case.query.inputs]
        own = [case.query.graph.classes_of(item.alias) for item in case.query.inputs]
        copied += routed != own
    answered = sum(any(outcome.expected.values()) for outcome in outcomes)
    assert answered >= WITH_ANSWERS * len(outcomes)
    assert 0 < copied < len(outcomes)


@pytest.mark.parametrize(
    ("select", "window"),
    [
        ("DISTINCT a.k", "[ROWS 5]"),
        ("a.k", "[PARTITION BY k ROWS 1]"),
        ("count(*) AS n", "[ROWS 5]"),
        ("count(*) AS n", "[TUMBLE 5 ROWS]"),
    ],
)
def test_a_limit_of_memory_is_refused_in_words(select: str, window: str) -> None:
    streams = [declare(name, "k BIGINT, ts TIMESTAMP", event_time="ts") for name in ("a", "b")]
    emit = " EMIT EVERY 1 SECOND" if "count" in select else ""
    sql = f"SELECT {select} FROM a [RANGE 5 SECONDS], b {window} WHERE a.k = b.k{emit}"
    with pytest.raises(WatersmeetError, match="a limit of memory does not go with"):
        run_query(sql, [], streams=streams, state_limit=StateLimit(10**9))

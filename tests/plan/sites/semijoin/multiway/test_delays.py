"""The delays of a semijoin plan's steps (Tran and Lee 2010, section 2.2)."""

from __future__ import annotations

import random

from tests.lab.wan.semijoin.plans import model_of, random_plan
from tests.plan.joins import join_graph
from watersmeet.plan.sites.semijoin.cost import Method
from watersmeet.plan.sites.semijoin.multiway.delays import plan_delays


def test_delays_accumulate_along_a_sequence_and_not_within_a_site() -> None:
    """Section 2.2: the delay at the last stream is that of all shipments before it."""
    graph = join_graph("rst", [("r", "s"), ("s", "t")])
    apart = model_of(graph, ("n1", "n2", "n3"), 10)
    by = {
        method: [
            delay.output_us
            for delay in plan_delays(random_plan(apart, random.Random(0), "linear", [method]), 7)
        ]
        for method in (Method.SP_S, Method.SP_D, Method.SM_S1, Method.SM_S2, Method.SM_D1, Method.SM_D2)
    }
    assert [row[:2] for row in by.values()] == [[7, 7], [7, 14], [14, 28], [21, 35], [14, 21], [21, 42]]
    together = model_of(graph, ("n1", "n1", "n1"), 10)
    plan = random_plan(together, random.Random(1), "tree")
    assert {delay.output_us for delay in plan_delays(plan, 7)} == {0}

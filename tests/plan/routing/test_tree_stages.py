"""Trees without one key for all joins, cut into stages: what each goes by, and which trees are not cut."""

from __future__ import annotations

import pytest

from tests.testing.outer_queries import condition, leaf, node, query
from watersmeet.errors import ConfigurationError
from watersmeet.plan.physical import plan_physical
from watersmeet.plan.routing.routing import Shares, TreePipeline
from watersmeet.plan.routing.tree_stages import StagedTree, cut_tree
from watersmeet.query import UNBOUNDED, JoinKind, JoinNode, Window, rows

A, B, C, D, E = map(leaf, "abcde")
INNER, LEFT, FULL, SEMI, ANTI = JoinKind
AB = node(LEFT, A, B, ("a.k", "b.k"))
TWO_KEYS = node(LEFT, AB, C, ("a.v", "c.v"))


def _lines(tree: JoinNode) -> list[str]:
    staged = cut_tree(query(tree))
    assert isinstance(staged, StagedTree), staged
    return staged.pretty().split("\n")


def test_one_key_is_one_stage() -> None:
    assert _lines(node(FULL, AB, C, ("b.k", "c.k"))) == ["stage 1: a, b, c by a.k = b.k = c.k"]


def test_each_further_key_is_a_stage_more() -> None:
    tree = node(ANTI, node(LEFT, TWO_KEYS, D, ("c.v", "d.v")), E, ("d.k", "e.k"))
    assert _lines(tree) == [
        "stage 1: a, b by a.k = b.k",
        "stage 2: results of stage 1, c, d by a.v = c.v = d.v",
        "stage 3: results of stage 2, e by d.k = e.k",
    ]


def test_of_several_equalities_those_are_taken_that_need_fewer_stages() -> None:
    lower = node(LEFT, A, B, ("a.k", "b.k"), ("a.v", "b.v"))
    tree = node(LEFT, lower, C, ("a.v", "c.v"))
    assert _lines(tree) == ["stage 1: a, b, c by a.v = b.v = c.v"]


def test_results_meet_from_both_sides() -> None:
    right = node(FULL, C, D, ("c.k", "d.k"))
    assert _lines(node(FULL, AB, right, ("b.v", "c.v"))) == [
        "stage 1: a, b by a.k = b.k",
        "stage 2: c, d by c.k = d.k",
        "stage 3: results of stage 1, results of stage 2 by b.v = c.v",
    ]


def test_results_go_by_one_column_in_a_stage() -> None:
    """c meets b.v and d meets a.v: two values of one result, so two stages."""
    tree = node(LEFT, node(LEFT, AB, C, ("b.v", "c.v")), D, ("a.v", "d.v"))
    assert len(_lines(tree)) == 3


@pytest.mark.parametrize(
    ("tree", "windows", "why"),
    [
        (TWO_KEYS, {"b": rows(3)}, r"b \[ROWS 3\] counts rows"),
        (TWO_KEYS, {"a": UNBOUNDED}, "no bound to how late a row of a, b may be known to have no match"),
        (
            node(ANTI, TWO_KEYS, D, on=[condition("(a.k = d.k) IS NOT FALSE", "a.k", "d.k")]),
            {},
            "the anti join of d has no equality",
        ),
    ],
)
def test_what_is_not_cut_runs_in_one_bucket(tree: JoinNode, windows: dict[str, Window], why: str) -> None:
    asked = query(tree, windows)
    routing = plan_physical(asked, 4, routing=None).routing
    assert isinstance(routing, Shares)
    assert routing.hypercube.buckets_used == 1
    assert routing.reason.startswith(
        "no key is in every join of the tree, so all tuples meet in one bucket: "
    )
    with pytest.raises(ConfigurationError, match=f"do not run as a pipeline: .*{why}"):
        plan_physical(asked, 4, routing="pipeline")


def test_an_input_without_an_end_is_no_trouble_in_the_last_stage() -> None:
    assert isinstance(cut_tree(query(TWO_KEYS, {"c": UNBOUNDED, "b": UNBOUNDED})), StagedTree)


def test_the_planner_takes_stages_where_there_is_more_than_one_bucket_and_no_key() -> None:
    asked = query(TWO_KEYS)
    assert isinstance(plan_physical(asked, 2, routing=None).routing, TreePipeline)
    assert isinstance(plan_physical(asked, 1, routing=None).routing, Shares)
    assert isinstance(plan_physical(asked, 2, routing="shares").routing, Shares)
    assert isinstance(plan_physical(query(AB), 2, routing=None).routing, Shares)
    with pytest.raises(ConfigurationError, match="not by rewrite"):
        plan_physical(asked, 2, routing="rewrite")

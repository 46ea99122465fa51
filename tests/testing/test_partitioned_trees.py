"""Outer, semi and anti joins under `[PARTITION BY k ROWS n]`: answers are exactly the oracle's."""

from __future__ import annotations

import random
from collections.abc import Collection
from dataclasses import dataclass, replace

import pytest

from tests.testing.outer_queries import query, random_batches, random_tree
from tests.testing.random_cases import DISTURBANCES, SMALL
from tests.testing.test_random_trees import check
from watersmeet.oracle.oracle import MicroBatch
from watersmeet.query import (
    UNBOUNDED,
    Attribute,
    AttributeClass,
    Block,
    ColumnRef,
    Equality,
    Expr,
    JoinGraph,
    JoinKind,
    JoinNode,
    Query,
    Tree,
    Window,
    column_expr,
    last_of_each,
    range_us,
    rows,
    tumble_us,
)
from watersmeet.query.join_tree import has_end, nodes
from watersmeet.spark.tuning import DEFAULT
from watersmeet.testing import Setup, declare, run_query

pytestmark = pytest.mark.slow

CASES = 8


@dataclass(frozen=True)
class Case:
    """A query with some input under PARTITION BY, and how it is run."""

    asked: Query
    batches: list[MicroBatch]
    setup: Setup
    disturbance: str
    flush: bool


def draw_case(seed: int) -> Case:
    """The case of a seed: in one bucket, or in several if one key is in all joins and in PARTITION BY."""
    rng = random.Random(seed)
    while True:
        aliases = "abcd"[: rng.choice([2, 2, 3, 3, 4])]
        windows = {alias: _window(rng) for alias in aliases}
        windows[rng.choice(aliases)] = _last(rng)
        tree = random_tree(rng, list(aliases))
        tree = _on_one_key(tree) if rng.random() < 0.6 else tree
        if rng.random() < 0.3:
            tree = _with_block(tree)
        if isinstance(tree, JoinNode) and _ends(tree, windows):
            break
    asked = query(tree, windows, rng.choice([0, 2, 5]))
    if rng.random() < 0.3:
        asked = _filtered(asked, rng.choice(aliases))
    setup = Setup(
        partitions=rng.choice([2, 3]),
        workers=rng.choice([1, 2]),
        routing=None,
        direct_files=rng.random() < 0.3,
        map_tasks=rng.choice([1, 2]),
        seed=seed,
        tuning=rng.choice([SMALL, DEFAULT]),
    )
    batches = random_batches(asked, seed, rng.choice([2, 3, 4]), {2: 12, 3: 10, 4: 6}[len(aliases)])
    return Case(asked, batches, setup, rng.choice(DISTURBANCES), rng.random() < 0.8)


def _window(rng: random.Random) -> Window:
    size = rng.randint(3, 20)
    kinds = [range_us(size), range_us(size), tumble_us(size), rows(rng.randint(1, 5)), UNBOUNDED, _last(rng)]
    return rng.choice(kinds)


def _last(rng: random.Random) -> Window:
    return last_of_each(rng.choice([("k",), ("k",), ("v",), ("v", "k")]), rng.choice([1, 1, 2, 3]))


def _on_one_key(tree: Tree) -> Tree:
    """The tree with all equalities on k."""
    if isinstance(tree, Block):
        return tree
    pairs = [(each.left.aliases[0], each.right.aliases[0]) for each in tree.equalities]
    on_k = (Equality(*(column_expr(each, "k", "bigint") for each in pair), "bigint") for pair in pairs)
    equalities = tuple(dict.fromkeys(on_k))
    return replace(tree, left=_on_one_key(tree.left), right=_on_one_key(tree.right), equalities=equalities)


def _with_block(tree: Tree) -> Tree:
    """The tree, its leftmost join of two inputs as a block of inner joins."""
    if isinstance(tree, Block):
        return tree
    if isinstance(tree.left, JoinNode):
        return replace(tree, left=_with_block(tree.left))
    if not isinstance(tree.right, Block) or len(tree.aliases) > 2:
        return tree
    pairs = [(each.left, each.right) for each in tree.equalities[:1]]
    classes = [
        AttributeClass(tuple(Attribute(each.aliases[0], each) for each in pair), "bigint") for pair in pairs
    ]
    return Block(JoinGraph(tree.aliases, tuple(classes)), tree.residual)


def _ends(tree: JoinNode, windows: dict[str, Window]) -> bool:
    """Whether each side that is kept for want of a match has an end."""
    left = all(has_end(each.left, windows) for each in nodes(tree) if each.kind.preserves_left)
    return left and all(has_end(each.right, windows) for each in nodes(tree) if each.kind is JoinKind.FULL)


def _filtered(asked: Query, alias: str) -> Query:
    condition = Expr(f"{alias}.v > 1", (ColumnRef(alias, "v"),), "boolean")
    inputs = (replace(each, filters=(condition,)) if each.alias == alias else each for each in asked.inputs)
    return replace(asked, inputs=tuple(inputs))


def test_answers_are_the_oracles(long_mode: bool, pytestconfig: pytest.Config) -> None:
    chosen = pytestconfig.getoption("--case-seed")
    seeds: Collection[int] = range(40 * CASES if long_mode else CASES) if chosen is None else [chosen]
    counts = []
    for seed in seeds:
        case = draw_case(seed)
        try:
            counts.append(check(case.asked, case.batches, case.setup, case.disturbance, flush=case.flush))
        except Exception as error:
            pytest.fail(f"--case-seed {seed}: {type(error).__name__}: {error}\n{case.asked.pretty()}")
    assert sum(count > 0 for count in counts) >= 0.7 * len(counts)


def test_an_order_without_a_rate_is_answered_once_the_watermark_is_past_it() -> None:
    streams = [
        declare("orders", "id BIGINT, currency STRING, ts TIMESTAMP", event_time="ts"),
        declare("rates", "currency STRING, factor DOUBLE, ts TIMESTAMP", event_time="ts"),
    ]
    sql = (
        "SELECT o.id, r.factor FROM orders AS o LEFT JOIN rates [PARTITION BY currency ROWS 1] AS r "
        "ON o.currency = r.currency AND r.ts <= o.ts"
    )
    batches = [
        {
            "orders": [(1, "eur", "12:00:05"), (2, "usd", "12:00:01"), (3, "gbp", "12:00:08")],
            "rates": [("eur", 1.0, "12:00:00"), ("eur", 1.1, "12:00:04"), ("usd", 2.0, "12:00:02")],
        },
        {"orders": [(4, "eur", "12:00:20"), (5, None, "12:00:21")], "rates": [("eur", 1.2, "12:00:06")]},
        {"orders": [(6, "eur", "12:00:40")], "rates": [("gbp", 3.0, "12:00:40")]},
    ]
    found = run_query(sql, batches, streams=streams, routing=None)
    assert [sorted(step.answers) for step in found.steps] == [
        [(2, None)],
        [(1, 1.1)],
        [(3, None), (4, 1.2), (5, None)],
    ]
    assert run_query(sql, batches, streams=streams, flush=True).matches_oracle()

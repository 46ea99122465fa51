"""Trees of joins: the oracle against DuckDB's own outer, semi and anti joins.

DuckDB's SQL is written from the table of windows, without lifetimes: tuples overlap in time if all of them
are inside their windows at the latest of their event times. That is a condition of every join.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import duckdb
import pytest
from hypothesis import given, settings

from tests.oracle.test_against_duckdb import ask, assert_share, inside, load, merged, outputs
from tests.tree_strategies import tree_cases
from watersmeet.oracle.oracle import MicroBatch, bag, emitted
from watersmeet.query import Block, JoinKind, JoinNode, Query, Tree
from watersmeet.query.join_tree import nodes, visible_aliases


@pytest.fixture(scope="module")
def database() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(config={"threads": 1}) as connection:
        yield connection


def test_trees_of_joins_answer_as_duckdb_says(database: duckdb.DuckDBPyConnection, long_mode: bool) -> None:
    answered: list[bool] = []
    seen: set[JoinKind] = set()

    @settings(max_examples=4000 if long_mode else 100)
    @given(tree_cases())
    def check(case: tuple[Query, list[MicroBatch]]) -> None:
        answered.append(assert_same_answers(database, *case))
        assert case[0].tree is not None
        if answered[-1]:
            seen.update(node.kind for node in nodes(case[0].tree))

    check()
    assert_share(answered)
    assert seen == set(JoinKind)


def assert_same_answers(
    database: duckdb.DuckDBPyConnection, query: Query, batches: Sequence[MicroBatch]
) -> bool:
    """DuckDB and the oracle agree; whether there were any answers."""
    assert query.tree is not None
    streams = merged(query, batches)
    load(database, query, streams)
    where = " AND ".join(expr.sql for expr in query.residual) or "true"
    largest = latest(visible_aliases(query.tree))
    found = ask(
        database,
        f"SELECT {outputs(query)} FROM {from_tree(query, query.tree)}, "
        f"LATERAL (SELECT {largest} AS answer_time) WHERE {where}",
    )
    assert found == bag(emitted(query, streams))
    return bool(found)


def from_tree(query: Query, tree: Tree) -> str:
    """A tree as a table of DuckDB's."""
    if isinstance(tree, Block):
        joined, *others = (from_input(query, alias) for alias in tree.aliases)
        for number, other in enumerate(others):
            conditions = in_block(query, tree) if number == len(others) - 1 else "true"
            joined = f"({joined} JOIN {other} ON {conditions})"
        return joined
    left, right = from_tree(query, tree.left), from_tree(query, tree.right)
    return f"({left} {tree.kind.name} JOIN {right} ON {in_node(query, tree)})"


def from_input(query: Query, alias: str) -> str:
    """The tuples of an input that are inside of its window at least when they come."""
    item = query.input(alias)
    conditions = [inside(item).replace("answer_time", f"{alias}.ts"), *(expr.sql for expr in item.filters)]
    return f"(SELECT * FROM {item.stream.name} AS {alias} WHERE {' AND '.join(conditions)}) AS {alias}"


def in_block(query: Query, block: Block) -> str:
    equal = [
        f"{cls.attributes[0].expr.sql} = {other.expr.sql}"
        for cls in block.graph.classes
        for other in cls.attributes[1:]
    ]
    return " AND ".join([*equal, *(expr.sql for expr in block.residual), *overlap(query, block.aliases)])


def in_node(query: Query, node: JoinNode) -> str:
    equal = [f"{each.left.sql} = {each.right.sql}" for each in node.equalities]
    aliases = (*visible_aliases(node.left), *visible_aliases(node.right))
    return " AND ".join([*equal, *(expr.sql for expr in node.residual), *overlap(query, aliases)])


def overlap(query: Query, aliases: Sequence[str]) -> list[str]:
    """That all tuples that are there are inside of their windows at the latest of their event times."""
    return [
        f"({alias}.ts IS NULL OR {inside(query.input(alias)).replace('answer_time', latest(aliases))})"
        for alias in aliases
    ]


def latest(aliases: Sequence[str]) -> str:
    return f"greatest({', '.join(f'{alias}.ts' for alias in aliases)})"

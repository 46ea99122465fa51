"""A tree of joins written as SQL and bound means the same, wherever its conditions moved to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from hypothesis import given, settings

from tests.oracle.test_against_duckdb import assert_share, merged
from tests.tree_strategies import tree_cases
from watersmeet.oracle.oracle import MicroBatch, bag, emitted
from watersmeet.query import Block, JoinKind, JoinNode, Query, Tree
from watersmeet.query.join_tree import nodes
from watersmeet.sql import bind_query


def test_a_tree_bound_from_its_text_answers_the_same(long_mode: bool) -> None:
    answered: list[bool] = []
    plainer: list[bool] = []

    @settings(max_examples=3000 if long_mode else 40)
    @given(tree_cases())
    def check(case: tuple[Query, list[MicroBatch]]) -> None:
        drawn, batches = case
        asked = replace(drawn, inputs=tuple(replace(item, filters=()) for item in drawn.inputs))
        streams = merged(asked, batches)
        bound = bind_query(sql(asked), asked.streams)
        rows = emitted(asked, streams)
        assert bag(emitted(bound, streams)) == bag(rows), sql(asked)
        answered.append(bool(rows))
        plainer.append(count(bound) < count(asked))

    check()
    assert_share(answered)
    assert sum(plainer) >= 0.05 * len(plainer)


def count(query: Query) -> int:
    """How many joins of a query are not inner."""
    return 0 if query.tree is None else sum(node.kind is not JoinKind.INNER for node in nodes(query.tree))


def sql(query: Query) -> str:
    """The text of a query with a tree: nested as the tree is, or with EXISTS where that says the same."""
    assert query.tree is not None
    tree: Tree = query.tree
    where = [expr.sql for expr in query.residual]
    while isinstance(tree, JoinNode) and tree.kind.hides_right and _is_plain(tree.right):
        negated = "NOT " if tree.kind is JoinKind.ANTI else ""
        inside = " AND ".join(_on(tree))
        where.append(f"{negated}EXISTS (SELECT 1 FROM {_table(query, tree.right)} WHERE {inside})")
        tree = tree.left
    outputs = ", ".join(f"{output.expr.sql} AS {output.name}" for output in query.select)
    text = f"SELECT {outputs} FROM {_table(query, tree)}"
    return f"{text} WHERE {' AND '.join(where)}" if where else text


def _is_plain(tree: Tree) -> bool:
    return isinstance(tree, Block) and len(tree.aliases) == 1


def _on(node: JoinNode) -> Iterator[str]:
    for each in node.equalities:
        yield f"{each.left.sql} = {each.right.sql}"
    for condition in node.residual:
        yield condition.sql


def _table(query: Query, tree: Tree) -> str:
    if isinstance(tree, Block):
        return _block(query, tree)
    left, right = (_parenthesised(query, side) for side in (tree.left, tree.right))
    on = " AND ".join(_on(tree))
    if tree.kind is JoinKind.LEFT and min(tree.right.aliases) < min(tree.left.aliases):
        return f"{right} RIGHT JOIN {left} ON {on}"
    kind = {JoinKind.SEMI: "LEFT SEMI", JoinKind.ANTI: "LEFT ANTI"}.get(tree.kind, tree.kind.name)
    return f"{left} {kind} JOIN {right} ON {on}"


def _parenthesised(query: Query, tree: Tree) -> str:
    text = _table(query, tree)
    return text if _is_plain(tree) else f"({text})"


def _block(query: Query, block: Block) -> str:
    """Inner joins, each with the conditions whose inputs are there."""
    text = _input(query, block.aliases[0])
    conditions = [
        ((one.alias, other.alias), f"{one.expr.sql} = {other.expr.sql}")
        for cls in block.graph.classes
        for one, other in zip(cls.attributes, cls.attributes[1:], strict=False)
    ]
    conditions += [(expr.aliases, expr.sql) for expr in block.residual]  # type: ignore[misc]
    for number, alias in enumerate(block.aliases[1:], 2):
        present = set(block.aliases[:number])
        here = [text_ for aliases, text_ in conditions if alias in aliases and set(aliases) <= present]
        text += f" JOIN {_input(query, alias)} ON {' AND '.join(here) or 'true'}"
    return text


def _input(query: Query, alias: str) -> str:
    item = query.input(alias)
    return f"{item.stream.name} {item.window.pretty()} AS {alias}"

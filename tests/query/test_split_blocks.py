"""Blocks that no key holds together become nodes of blocks that one does; the answers stay the same."""

from __future__ import annotations

from dataclasses import replace

from tests.testing.outer_queries import condition, leaf, node, query, random_batches
from watersmeet.oracle import oracle
from watersmeet.query import Attribute, AttributeClass, Block, JoinGraph, JoinKind, column_expr
from watersmeet.query.join_tree import blocks
from watersmeet.query.split_blocks import covers, split_blocks

LESS = condition("a.v <= d.v", "a.v", "d.v")


def _equal(*columns: str) -> AttributeClass:
    attributes = []
    for name in columns:
        alias, column = name.split(".")
        attributes.append(Attribute(alias, column_expr(alias, column, "bigint")))
    return AttributeClass(tuple(attributes), "bigint")


def _block(*classes: AttributeClass) -> Block:
    aliases = tuple(dict.fromkeys(alias for cls in classes for alias in cls.aliases))
    return Block(JoinGraph(aliases, classes))


def test_a_block_with_a_key_for_all_of_it_stays() -> None:
    block = _block(_equal("a.v", "b.v"), _equal("a.k", "b.k", "c.k"))
    assert split_blocks(block) is block
    assert split_blocks(leaf("a")) == leaf("a")


def test_a_chain_is_cut_where_its_key_ends() -> None:
    block = replace(
        _block(_equal("a.k", "b.k", "c.k"), _equal("b.v", "c.v", "d.v")),
        residual=(LESS,),
    )
    expected = node(
        JoinKind.INNER,
        _block(_equal("a.k", "b.k", "c.k"), _equal("b.v", "c.v")),
        leaf("d"),
        ("b.v", "d.v"),
        on=[LESS],
    )
    assert split_blocks(block) == expected


def test_every_equality_between_two_parts_is_kept() -> None:
    triangle = _block(_equal("a.k", "b.k"), _equal("b.v", "c.v"), _equal("a.v", "c.k"))
    found = split_blocks(node(JoinKind.LEFT, triangle, leaf("d"), ("a.k", "d.k")))
    inner = node(JoinKind.INNER, _block(_equal("a.k", "b.k")), leaf("c"), ("b.v", "c.v"), ("a.v", "c.k"))
    assert found == node(JoinKind.LEFT, inner, leaf("d"), ("a.k", "d.k"))


def test_what_no_equality_connects_stays() -> None:
    block = Block(JoinGraph(("a", "b", "c"), (_equal("a.k", "b.k"),)))
    assert split_blocks(block) is block


def test_the_answers_stay_the_same() -> None:
    block = replace(
        _block(_equal("a.k", "b.k"), _equal("b.v", "c.v"), _equal("c.k", "d.k")), residual=(LESS,)
    )
    asked = query(node(JoinKind.LEFT, leaf("e"), block, ("e.v", "b.v")), lateness_us=3)
    assert asked.tree is not None
    split = split_blocks(asked.tree)
    assert all(
        len(each.aliases) == 1 or any(covers(cls, each) for cls in each.graph.classes)
        for each in blocks(split)
    )
    batches = random_batches(asked, seed=1, batches=2, tuples=12)
    expected = oracle.run(asked, batches, flush=True).rows
    found = oracle.run(replace(asked, tree=split), batches, flush=True).rows
    assert oracle.bag(found) == oracle.bag(expected)
    assert any(row[0] is not None for row in expected)

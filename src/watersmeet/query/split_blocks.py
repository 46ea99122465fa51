"""Blocks of inner joins in parts, with nodes between them.

Inner joins may be cut anywhere: lifetimes overlap all together if every two of them do. `split_blocks` cuts
those that no one key holds together, into parts that one does:

    inner join a, b, c on a.x = b.x and b.y = c.y
    becomes (inner join a, b on a.x = b.x) join c on b.y = c.y
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from watersmeet.query.join_graph import AttributeClass, JoinGraph
from watersmeet.query.join_tree import Block, Equality, JoinKind, JoinNode, Tree


def split_blocks(tree: Tree) -> Tree:
    """The tree with the same answers in which a key covers every block, as far as equalities connect it."""
    if isinstance(tree, JoinNode):
        return replace(tree, left=split_blocks(tree.left), right=split_blocks(tree.right))
    return _split(tree)


def covers(cls: AttributeClass, block: Block) -> bool:
    """Whether all inputs of a block agree on a class."""
    return len(cls.attributes) == len(block.aliases)


def single_out(tree: Tree, aliases: Collection[str]) -> Tree:
    """The tree with the same answers in which blocks that hold some of these inputs are single inputs."""
    if isinstance(tree, JoinNode):
        return replace(tree, left=single_out(tree.left, aliases), right=single_out(tree.right, aliases))
    if len(tree.aliases) == 1 or not set(tree.aliases) & set(aliases):
        return tree
    found, joined, rest = _part(tree, tree.aliases[:1]), tree.aliases[:1], list(tree.aliases[1:])
    while rest:
        near = [each for each in rest if set(tree.graph.neighbours(each)) & set(joined)]
        chosen = near[0] if near else rest[0]
        found = _joined(tree, found, joined, (chosen,), tree.graph.classes)
        joined = (*joined, chosen)
        rest.remove(chosen)
    assert isinstance(found, JoinNode)
    return replace(found, residual=tree.residual)


def _split(block: Block) -> Tree:
    classes = block.graph.classes
    if len(block.aliases) == 1 or not classes or any(covers(cls, block) for cls in classes):
        return block
    joined = max(classes, key=lambda cls: len(cls.attributes)).aliases
    found = _part(block, joined)
    while len(joined) < len(block.aliases):
        reached = [(_outside(cls, joined), cls) for cls in classes if set(cls.aliases) & set(joined)]
        rest, widest = max(reached, key=lambda pair: len(pair[0]))
        if not rest:
            return block
        ordered = [widest, *(cls for cls in classes if cls is not widest)]
        found = _joined(block, found, joined, rest, ordered)
        joined = (*joined, *rest)
    assert isinstance(found, JoinNode)
    return replace(found, residual=block.residual)


def _joined(
    block: Block,
    found: Tree,
    joined: tuple[str, ...],
    rest: tuple[str, ...],
    classes: Sequence[AttributeClass],
) -> Tree:
    """What has been joined of a block, with some more inputs of it."""
    equalities = tuple(each for cls in classes for each in _between(cls, joined, rest))
    return JoinNode(JoinKind.INNER, found, _part(block, rest), equalities)


def _outside(cls: AttributeClass, joined: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(alias for alias in cls.aliases if alias not in joined)


def _part(block: Block, aliases: tuple[str, ...]) -> Tree:
    """Some inputs of a block, with what joins them."""
    inside = tuple(alias for alias in block.aliases if alias in aliases)
    classes = []
    for cls in block.graph.classes:
        own = tuple(each for each in cls.attributes if each.alias in inside)
        if len(own) > 1:
            classes.append(AttributeClass(own, cls.type))
    return Block(JoinGraph(inside, tuple(classes)))


def _between(cls: AttributeClass, left: tuple[str, ...], right: tuple[str, ...]) -> list[Equality]:
    """What a class says of two parts: of one input each, as those of a part agree."""
    one = next((each for each in cls.attributes if each.alias in left), None)
    other = next((each for each in cls.attributes if each.alias in right), None)
    return [Equality(one.expr, other.expr, cls.type)] if one is not None and other is not None else []

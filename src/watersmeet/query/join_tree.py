"""The tree of joins of a query that has outer, semi or anti joins.

Leaves are blocks: inputs that inner joins alone put together, which is the multi-way join. Every combination
of tuples has a lifetime: the overlap of those of its tuples. A node joins the combinations x of its left side
with the combinations y of its right side. They match if every condition of the node is true and their
lifetimes overlap. The answers are

    INNER   every match
    LEFT    every match, and each x without any, its right side missing; it has the lifetime of x
    FULL    the same, and each y without a match, its left side missing
    SEMI    each x that has a match, once
    ANTI    each x that has none

    a LEFT JOIN b ON a.k = b.k, a at 0 and b at 7 minutes:
      both [RANGE 10 MINUTES]    (a, b), valid from minute 7 to 10
      both [RANGE 5 MINUTES]     (a, NULL), valid from minute 0 to 5, and b is in no answer

A tuple that is missing has NULL in every column. The columns of the right side of SEMI and ANTI cannot be
seen from outside. A node never changes places with another: with lifetimes the order of joins matters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from watersmeet.query.expression import Expr
from watersmeet.query.join_graph import Attribute, AttributeClass, JoinGraph
from watersmeet.query.window import Window


class JoinKind(Enum):
    """How a node joins its sides. A RIGHT JOIN is a LEFT one with its sides swapped."""

    INNER = "inner"
    LEFT = "left"
    FULL = "full"
    SEMI = "semi"
    ANTI = "anti"

    @property
    def preserves_left(self) -> bool:
        """Whether a combination of the left side is answered, by itself, for want of a match."""
        return self in (JoinKind.LEFT, JoinKind.FULL, JoinKind.ANTI)

    @property
    def hides_right(self) -> bool:
        """Whether the columns of the right side cannot be seen from outside."""
        return self in (JoinKind.SEMI, JoinKind.ANTI)


@dataclass(frozen=True)
class Block:
    """Inputs joined by inner joins, with their conditions over several of them."""

    graph: JoinGraph
    residual: tuple[Expr, ...] = ()

    @property
    def aliases(self) -> tuple[str, ...]:
        return self.graph.aliases

    def pretty(self) -> str:
        inner = self.aliases[0] if len(self.aliases) == 1 else f"inner join {', '.join(self.aliases)}"
        conditions = [
            *(cls.pretty() for cls in self.graph.classes),
            *(expr.pretty() for expr in self.residual),
        ]
        return f"{inner} on {' and '.join(conditions)}" if conditions else inner


@dataclass(frozen=True)
class Equality:
    """Two expressions, one over an input of each side of a node, that are equal in a match.

    They are compared after a cast to `type` (None: unknown).
    """

    left: Expr
    right: Expr
    type: str | None = None

    def pretty(self) -> str:
        return f"{self.left.pretty()} = {self.right.pretty()}"


@dataclass(frozen=True)
class JoinNode:
    """A join of two sides. Its equalities and residual conditions decide which combinations match."""

    kind: JoinKind
    left: Tree
    right: Tree
    equalities: tuple[Equality, ...] = ()
    residual: tuple[Expr, ...] = ()

    @property
    def aliases(self) -> tuple[str, ...]:
        return (*self.left.aliases, *self.right.aliases)

    def pretty(self) -> str:
        conditions = [
            *(each.pretty() for each in self.equalities),
            *(each.pretty() for each in self.residual),
        ]
        on = f" on {' and '.join(conditions)}" if conditions else ""
        sides = [line for side in (self.left, self.right) for line in side.pretty().split("\n")]
        return "\n".join([f"{self.kind.value} join{on}", *(f"  {line}" for line in sides)])


Tree = Block | JoinNode
Widen = Callable[[str, str], str | None]


def nodes(tree: Tree) -> Iterator[JoinNode]:
    """Every node of a tree, each after those below it."""
    if isinstance(tree, JoinNode):
        yield from nodes(tree.left)
        yield from nodes(tree.right)
        yield tree


def blocks(tree: Tree) -> Iterator[Block]:
    """Every block of a tree, from left to right."""
    if isinstance(tree, Block):
        yield tree
    else:
        yield from blocks(tree.left)
        yield from blocks(tree.right)


def visible_aliases(tree: Tree) -> tuple[str, ...]:
    """The inputs whose columns can be seen from outside: all but the right sides of SEMI and ANTI."""
    if isinstance(tree, Block):
        return tree.aliases
    left = visible_aliases(tree.left)
    return left if tree.kind.hides_right else (*left, *visible_aliases(tree.right))


def nullable_aliases(tree: Tree) -> frozenset[str]:
    """The inputs of which an answer may have no tuple, so that their columns are NULL."""
    if isinstance(tree, Block):
        return frozenset()
    below = nullable_aliases(tree.left)
    if tree.kind.hides_right:
        return below
    below |= nullable_aliases(tree.right)
    missing = {JoinKind.LEFT: tree.right.aliases, JoinKind.FULL: tree.aliases}.get(tree.kind, ())
    return below | frozenset(missing)


def has_end(tree: Tree, windows: Mapping[str, Window]) -> bool:
    """Whether every combination of a tree leaves it one day, under these windows of its inputs."""
    if isinstance(tree, Block):
        return any(windows[alias].is_bounded for alias in tree.aliases)
    left, right = has_end(tree.left, windows), has_end(tree.right, windows)
    match tree.kind:
        case JoinKind.INNER:
            return left or right
        case JoinKind.FULL:
            return left and right
    return left


def longest_us(tree: Tree, windows: Mapping[str, Window]) -> int | None:
    """The longest that a combination of a tree is valid after its event time, where time alone bounds it."""
    if isinstance(tree, Block):
        return _least([windows[alias].duration_us for alias in tree.aliases])
    left, right = longest_us(tree.left, windows), longest_us(tree.right, windows)
    match tree.kind:
        case JoinKind.INNER:
            return _least([left, right])
        case JoinKind.FULL:
            return None if left is None or right is None else max(left, right)
    return left


def latest_us(tree: Tree, windows: Mapping[str, Window]) -> int | None:
    """How far the watermark may be past the event time of a combination before it is certain, at most."""
    if isinstance(tree, Block):
        return 0
    left, right = latest_us(tree.left, windows), latest_us(tree.right, windows)
    if left is None or right is None:
        return None
    waits = [left, right]
    if tree.kind is not JoinKind.INNER:
        longest = longest_us(tree.left, windows)
        if longest is None:
            return None
        waits.append(longest + right)  # as long as a partner may come, and be late itself
    if tree.kind is JoinKind.FULL:
        longest = longest_us(tree.right, windows)
        if longest is None:
            return None
        waits.append(longest + left)
    return max(waits)


def _least(lengths: Iterable[int | None]) -> int | None:
    return min((length for length in lengths if length is not None), default=None)


def expressions(tree: Tree) -> Iterator[Expr]:
    """The conditions of a tree that are not equalities of classes: what its blocks and nodes evaluate."""
    for block in blocks(tree):
        yield from block.residual
    for node in nodes(tree):
        yield from node.residual


def _same_type(one: str, other: str) -> str | None:
    return one if one == other else None


def key_graph(aliases: tuple[str, ...], tree: Tree, widen: Widen = _same_type) -> JoinGraph:
    """The classes of attributes that agree wherever tuples meet, for routing: one attribute an input.

    Equalities of all blocks and nodes are put together, those of the deepest first, except where a class
    would get two attributes of one input: with tuples missing, these may differ in an answer. `widen` gives
    the type in which values of two types can be compared.
    """
    classes = [cls for block in blocks(tree) for cls in block.graph.classes]
    for equality in (each for node in nodes(tree) for each in node.equalities):
        sides = [Attribute(each.aliases[0], each) for each in (equality.left, equality.right)]
        held = [cls for cls in classes if not set(sides).isdisjoint(cls.attributes)]
        members = set(sides).union(*(cls.attributes for cls in held))
        types = list(dict.fromkeys([*(cls.type for cls in held), equality.type]))
        common = _widest(types, widen)
        are_comparable = common is not None or types == [None]
        if are_comparable and len({each.alias for each in members}) == len(members):
            ordered = tuple(sorted(members, key=lambda each: aliases.index(each.alias)))
            classes = [cls for cls in classes if cls not in held] + [AttributeClass(ordered, common)]
    return JoinGraph(aliases, tuple(classes))


def _widest(types: Iterable[str | None], widen: Widen) -> str | None:
    """The type in which values of all of these can be compared; None if there is none, or none known."""
    common, *others = types
    for other in others:
        if common is None or other is None:
            return None
        common = widen(common, other)
    return common


def meeting_class(graph: JoinGraph, tree: Tree) -> AttributeClass | None:
    """A class that decides locally: tuples that can be in one answer, or keep one from it, agree on it."""
    for cls in graph.classes:
        inside = {each.expr for each in cls.attributes}
        in_blocks = all(
            set(block.aliases) <= set(cls.aliases) and _is_inside(block, inside) for block in blocks(tree)
        )
        in_nodes = all(
            any({each.left, each.right} <= inside for each in node.equalities) for node in nodes(tree)
        )
        if in_blocks and in_nodes:
            return cls
    return None


def _is_inside(block: Block, inside: set[Expr]) -> bool:
    """Whether one class of a block, all of it in the given expressions, covers the block."""
    if len(block.aliases) == 1:
        return True
    return any(
        len(cls.attributes) == len(block.aliases) and {each.expr for each in cls.attributes} <= inside
        for cls in block.graph.classes
    )

"""A tree of joins as the kernel runs it: columns in place of expressions.

Columns are named `alias.column`, as in answers. A node keeps of each side the columns that something above it
needs, and those by which it finds matches.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from watersmeet.kernel.layout import POSITION, InputLayout
from watersmeet.kernel.outer.condition import Condition, columns_of
from watersmeet.query.join_tree import JoinKind


@dataclass(frozen=True)
class BlockLayout:
    """Inputs joined by inner joins; their layouts have the keys by which these are made."""

    inputs: tuple[InputLayout, ...]
    condition: Condition | None = None

    @property
    def aliases(self) -> tuple[str, ...]:
        return tuple(item.alias for item in self.inputs)

    @property
    def longest_us(self) -> int | None:
        """The longest lifetime of a combination, if that is known beforehand."""
        known = [item.window.duration_us for item in self.inputs]
        return min((us + 1 for us in known if us is not None), default=None)


@dataclass(frozen=True)
class NodeLayout:
    """A join of two sides: matches agree on all pairs of key columns, and meet the condition."""

    kind: JoinKind
    left: TreeLayout
    right: TreeLayout
    keys: tuple[tuple[str, str], ...] = ()
    condition: Condition | None = None

    @property
    def aliases(self) -> tuple[str, ...]:
        return (*self.left.aliases, *self.right.aliases)

    @property
    def longest_us(self) -> int | None:
        left, right = self.left.longest_us, self.right.longest_us
        if self.kind is JoinKind.FULL:
            return None if left is None or right is None else max(left, right)
        if self.kind is JoinKind.INNER:
            return min((us for us in (left, right) if us is not None), default=None)
        return left

    @property
    def read(self) -> tuple[str, ...]:
        """The columns by which matches are found."""
        condition = columns_of(self.condition) if self.condition else ()
        return tuple(dict.fromkeys([*(name for pair in self.keys for name in pair), *condition]))


@dataclass(frozen=True)
class ReceivedLayout:
    """A part of a tree that another stage joins: its combinations come from there, under a number."""

    number: int
    tree: BlockLayout | NodeLayout

    @property
    def aliases(self) -> tuple[str, ...]:
        return self.tree.aliases

    @property
    def longest_us(self) -> int | None:
        return self.tree.longest_us


TreeLayout = BlockLayout | NodeLayout | ReceivedLayout


@dataclass(frozen=True)
class OuterLayout:
    """A tree with the columns its answers have, and the types of columns as far as they are known."""

    root: BlockLayout | NodeLayout
    answers: tuple[str, ...]
    types: Mapping[str, pa.DataType] = field(default_factory=dict)


def delay_us(tree: TreeLayout) -> int | None:
    """How far behind the watermark the t of a combination yet to come may be; None if there is no bound.

    A block finds a combination with its last tuple, so its t is not behind. A node finds a match with the
    later of its two combinations. It lets go of x without one when nothing from the other side can overlap x
    any more, which is the delay of that side after the end of x; the t of x is older by the lifetime of x.
    """
    if isinstance(tree, BlockLayout):
        return 0
    if isinstance(tree, ReceivedLayout):
        return delay_us(tree.tree)
    left, right = delay_us(tree.left), delay_us(tree.right)
    if left is None or right is None:
        return None
    delays = [left, right]
    if tree.kind is not JoinKind.INNER:
        if tree.left.longest_us is None:
            return None
        delays.append(right + tree.left.longest_us)
    if tree.kind is JoinKind.FULL:
        if tree.right.longest_us is None:
            return None
        delays.append(left + tree.right.longest_us)
    return max(delays)


def walk(tree: TreeLayout) -> Iterator[TreeLayout]:
    """Everything in a tree, each node after its sides; what is received is one thing."""
    if isinstance(tree, NodeLayout):
        yield from walk(tree.left)
        yield from walk(tree.right)
    yield tree


def inputs_of(tree: TreeLayout) -> Iterator[InputLayout]:
    """The inputs of a tree, from left to right, those of what is received too."""
    for part in walk(tree):
        if isinstance(part, BlockLayout):
            yield from part.inputs
        elif isinstance(part, ReceivedLayout):
            yield from inputs_of(part.tree)


def visible(tree: TreeLayout) -> tuple[str, ...]:
    """The inputs whose columns leave a tree."""
    if isinstance(tree, BlockLayout):
        return tree.aliases
    if isinstance(tree, ReceivedLayout):
        return visible(tree.tree)
    left = visible(tree.left)
    return left if tree.kind in (JoinKind.SEMI, JoinKind.ANTI) else (*left, *visible(tree.right))


def position_columns(tree: TreeLayout) -> tuple[str, ...]:
    """Where a tree's combinations have the row positions of their tuples, which decide when they end."""
    counted = {item.alias for item in inputs_of(tree) if item.window.counts_rows}
    return tuple(f"{alias}.{POSITION}" for alias in visible(tree) if alias in counted)


def columns_of_inputs(tree: TreeLayout) -> dict[str, str]:
    """Every column of the inputs of a tree, as answers name it, and the alias it is of."""
    return {f"{item.alias}.{name}": item.alias for item in inputs_of(tree) for name in item.columns}


def kept_columns(node: NodeLayout, side: TreeLayout, needed: Sequence[str]) -> tuple[str, ...]:
    """The columns that a node keeps of a side: what is needed above, and that by which it finds matches."""
    own = columns_of_inputs(side)
    wanted = (*needed, *node.read)
    return tuple(dict.fromkeys([*(name for name in wanted if name in own), *position_columns(side)]))


def received_columns(tree: OuterLayout) -> dict[int, tuple[str, ...]]:
    """By number, the columns with which combinations have to come that a tree receives."""
    found: dict[int, tuple[str, ...]] = {}

    def descend(part: TreeLayout, needed: Sequence[str]) -> None:
        if isinstance(part, ReceivedLayout):
            found[part.number] = tuple(needed)
        elif isinstance(part, NodeLayout):
            for side in (part.left, part.right):
                descend(side, kept_columns(part, side, needed))

    descend(tree.root, tree.answers)
    return found

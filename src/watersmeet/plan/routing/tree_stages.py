"""A tree of outer, semi and anti joins cut into stages, for want of a key that every join of it has.

A stage answers a part of the tree, and goes by one key: every join of the part has an equality on it. So do
the results that it takes from other stages, which travel by it too. Whatever decides about each other meets
in one bucket of the stage, as it does where one key is in the whole tree (`meeting_class`).

    (a left join b on a.x = b.x) left join c on a.y = c.y
        stage 1   a and b by a.x = b.x
        stage 2   its results by a.y, c by c.y

Guarantee: as few stages as can be had, and each after those whose results it takes; the whole tree is the
last one's. A tree runs so if every join of it has an equality, if no window counts rows, and if there is a
bound to how late the results of a stage can be (`latest_us`).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from watersmeet.query import Attribute, AttributeClass, Block, Query, Tree, Window
from watersmeet.query.join_tree import latest_us, nodes
from watersmeet.query.split_blocks import covers, split_blocks


@dataclass(frozen=True)
class TreeStage:
    """A part of a tree, by what its rows meet, and the stages whose results it takes.

    The key has an attribute of each input that is joined here, and one of each result that is taken.
    """

    tree: Tree
    key: AttributeClass
    takes: tuple[int, ...] = ()  # positions of stages

    def pretty(self, stages: Sequence[TreeStage]) -> str:
        """The stage among all of them: what comes to it, and by what."""
        names = {each.alias: each.alias for each in self.key.attributes}
        for number in self.takes:
            taken = stages[number].tree
            names |= {alias: f"results of stage {number + 1}" for alias in names if alias in taken.aliases}
        members = ", ".join(names.values())
        return f"{members} by {self.key.pretty()}"


@dataclass(frozen=True)
class StagedTree:
    """A tree as a chain of stages; `tree` has the query's answers."""

    tree: Tree
    stages: tuple[TreeStage, ...]

    @property
    def stage_of(self) -> Mapping[str, int]:
        """The stage in which each input is joined."""
        found: dict[str, int] = {}
        for number, stage in enumerate(self.stages):
            for alias in stage.tree.aliases:
                found.setdefault(alias, number)
        return found

    def pretty(self) -> str:
        """A line for every stage."""
        return "\n".join(
            f"stage {number}: {stage.pretty(self.stages)}" for number, stage in enumerate(self.stages, 1)
        )

    @property
    def goes_to(self) -> Mapping[int, int]:
        """By stage, the one that takes its results; the last has none."""
        return {taken: number for number, stage in enumerate(self.stages) for taken in stage.takes}


def cut_tree(query: Query) -> StagedTree | str:
    """The stages of a query's tree, or why there are none."""
    assert query.tree is not None
    tree = split_blocks(query.tree)
    for item in query.inputs:
        if item.window.counts_rows:
            return f"{item.pretty()} counts rows"
    without = next((node for node in nodes(tree) if not node.equalities), None)
    if without is not None:
        return f"the {without.kind.value} join of {' and '.join(without.right.aliases)} has no equality"
    ways = list(_ways(tree))
    if not ways:
        return "no equality joins all inputs of an inner join"
    stages = _numbered(_closed(tree, ways))
    windows: dict[str, Window] = {item.alias: item.window for item in query.inputs}
    for stage in stages[:-1]:
        if latest_us(stage.tree, windows) is None:
            names = ", ".join(stage.tree.aliases)
            return f"there is no bound to how late a row of {names} may be known to have no match"
    return StagedTree(tree, stages)


@dataclass(frozen=True)
class _Way:
    """A way to run a part of a tree: the stages that are complete, and the one that may take in more."""

    attributes: tuple[Attribute, ...]  # that agree in the stage that is open
    type: str | None
    takes: tuple[Tree, ...] = ()
    complete: tuple[_Stage, ...] = ()


@dataclass(frozen=True)
class _Stage:
    tree: Tree
    key: AttributeClass
    takes: tuple[Tree, ...]


def _ways(tree: Tree) -> Iterator[_Way]:
    """The ways to run a part, the one with the fewest complete stages of each key."""
    if isinstance(tree, Block):
        for cls in tree.graph.classes:
            if covers(cls, tree):
                yield _Way(cls.attributes, cls.type)
        return
    below = [(side, list(_ways(side))) for side in (tree.left, tree.right)]
    fewest: dict[tuple[frozenset[Attribute], str | None], _Way] = {}
    for equality in tree.equalities:
        sides = [
            list(_sides(side, ways, Attribute(own.aliases[0], own), equality.type))
            for (side, ways), own in zip(below, (equality.left, equality.right), strict=True)
        ]
        for left, right in itertools.product(*sides):
            way = _Way(
                (*left.attributes, *right.attributes),
                equality.type,
                (*left.takes, *right.takes),
                (*left.complete, *right.complete),
            )
            known = fewest.get(key := (frozenset(way.attributes), way.type))
            if known is None or len(way.complete) < len(known.complete):
                fewest[key] = way
    yield from fewest.values()


def _sides(tree: Tree, ways: Sequence[_Way], own: Attribute, type_: str | None) -> Iterator[_Way]:
    """The ways to have a side of a node in the stage that goes by this attribute of it."""
    if isinstance(tree, Block) and len(tree.aliases) == 1:
        yield _Way((own,), type_)
        return
    inside = [way for way in ways if own in way.attributes and way.type == type_]
    yield from inside
    if ways:
        complete = _closed(tree, ways)
        if all(len(way.complete) > len(complete) for way in inside):
            yield _Way((own,), type_, (tree,), complete)


def _closed(tree: Tree, ways: Sequence[_Way]) -> tuple[_Stage, ...]:
    """The stages of a part as a whole, the fewest there are."""
    way = min(ways, key=lambda each: len(each.complete))
    ordered = sorted(way.attributes, key=lambda each: tree.aliases.index(each.alias))
    return (*way.complete, _Stage(tree, AttributeClass(tuple(ordered), way.type), way.takes))


def _numbered(stages: Sequence[_Stage]) -> tuple[TreeStage, ...]:
    position = {stage.tree: number for number, stage in enumerate(stages)}
    return tuple(
        TreeStage(stage.tree, stage.key, tuple(position[taken] for taken in stage.takes)) for stage in stages
    )

"""Outer, semi and anti joins by definition: every combination of one side beside every one of the other.

    SELECT ... FROM a [RANGE 10 US] LEFT JOIN b [RANGE 5 US] ON a.k = b.k, tuples of one key

    a at 0 has [0, 11)     b at 12 has [12, 18)     a at 14 has [14, 25)

a at 0 is answered with NULLs, for [0, 11), and (a at 14, b at 12) for [14, 18). That a at 0 has no match is
certain once the watermark has reached 11: no later tuple can overlap it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from watersmeet.oracle.arrivals import Tuple
from watersmeet.oracle.cast import cast_value
from watersmeet.oracle.evaluate import Rows, equal, evaluate
from watersmeet.query import BEGINNING, Block, Equality, JoinKind, JoinNode, Tree


@dataclass(frozen=True)
class Combination:
    """Tuples by alias, None where one is missing, valid during [t, end).

    It is certain at a watermark of `certain_at`, whatever comes after it.
    """

    t: int
    end: int
    certain_at: int
    members: Mapping[str, Tuple | None]


@dataclass(frozen=True)
class Joiner:
    """How to join blocks, read the row of a tuple or of none, and whether answers wait for the watermark."""

    join_block: Callable[[Block], list[Combination]]
    row: Callable[[str, Tuple | None], Mapping[str, Any]]
    is_delayed: bool

    def join(self, tree: Tree) -> list[Combination]:
        """Every combination that a tree of joins answers."""
        if isinstance(tree, Block):
            return self.join_block(tree)
        left, right = self.join(tree.left), self.join(tree.right)
        matches = [
            (x, y)
            for x, one in enumerate(left)
            for y, other in enumerate(right)
            if self._match(tree, one, other)
        ]
        together = {(x, y): self._together(left[x], right[y]) for x, y in matches}
        if tree.kind in (JoinKind.SEMI, JoinKind.ANTI):
            return self._judge(tree, left, together)
        found = list(together.values())
        if tree.kind in (JoinKind.LEFT, JoinKind.FULL):
            met = {x for x, _ in matches}
            found += [_alone(one, tree.right.aliases) for x, one in enumerate(left) if x not in met]
        if tree.kind is JoinKind.FULL:
            met = {y for _, y in matches}
            found += [_alone(one, tree.left.aliases) for y, one in enumerate(right) if y not in met]
        return found

    def _match(self, node: JoinNode, one: Combination, other: Combination) -> bool:
        if max(one.t, other.t) >= min(one.end, other.end):
            return False
        rows = {alias: self.row(alias, member) for alias, member in {**one.members, **other.members}.items()}
        return all(_are_equal(each, rows) for each in node.equalities) and all(
            evaluate(condition, rows) is True for condition in node.residual
        )

    def _together(self, one: Combination, other: Combination) -> Combination:
        t = max(one.t, other.t)
        certain_at = max(one.certain_at, other.certain_at, t + 1 if self.is_delayed else BEGINNING)
        return Combination(t, min(one.end, other.end), certain_at, {**one.members, **other.members})

    def _judge(
        self, node: JoinNode, left: Sequence[Combination], together: Mapping[tuple[int, int], Combination]
    ) -> list[Combination]:
        """The left combinations that have a match, from their first on, or those that have none."""
        found = []
        for x, one in enumerate(left):
            matched = [both.certain_at for (of, _), both in together.items() if of == x]
            if node.kind is JoinKind.ANTI and not matched:
                found.append(_alone(one, node.right.aliases))
            if node.kind is JoinKind.SEMI and matched:
                hidden = dict.fromkeys(node.right.aliases)
                found.append(Combination(one.t, one.end, min(matched), {**one.members, **hidden}))
        return found


def _alone(one: Combination, missing: Sequence[str]) -> Combination:
    """A combination that nothing matches, which is certain when its lifetime has ended."""
    members = {**one.members, **dict.fromkeys(missing)}
    return Combination(one.t, one.end, max(one.certain_at, one.end), members)


def _are_equal(equality: Equality, rows: Rows) -> bool:
    values = [evaluate(side, rows) for side in (equality.left, equality.right)]
    if equality.type is not None:
        values = [cast_value(value, equality.type) for value in values]
    return equal(*values) is True

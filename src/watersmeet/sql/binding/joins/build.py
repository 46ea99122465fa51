"""A settled draft into a tree of joins, the filters of its inputs, and what is left for after the joins."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from watersmeet.errors import Span, SqlError
from watersmeet.query import Block, Equality, Expr, JoinGraph, JoinKind, JoinNode, Tree
from watersmeet.sql.binding.conditions import Conditions, build_classes
from watersmeet.sql.binding.conditions import Equality as WrittenEquality
from watersmeet.sql.binding.joins.drafts import Draft, Group, Leaf, Outer, aliases_of
from watersmeet.sql.binding.scope import Scope


@dataclass
class Builder:
    """Collects the filters of inputs, and the conditions that may as well wait for the end of all joins."""

    scope: Scope
    filters: dict[str, list[Expr]] = field(default_factory=dict)
    deferred: list[Expr] = field(default_factory=list)

    def build(self, draft: Draft, may_wait: bool = True) -> Tree:
        """The tree of a draft. Conditions `may_wait` where each answer is part of an answer of the query."""
        match draft:
            case Leaf():
                self.filters.setdefault(draft.alias, []).extend(draft.filters)
                return Block(JoinGraph((draft.alias,)))
            case Group():
                return self._build_group(draft, may_wait)
            case Outer():
                return self._build_outer(draft, may_wait)

    def _build_outer(self, draft: Outer, may_wait: bool) -> JoinNode:
        if not draft.equalities and not draft.is_open:
            raise self._refuse_unjoined(draft.at, draft.left.visible, draft.right.visible)
        left = self.build(draft.left, may_wait and draft.kind is not JoinKind.FULL)
        right = self.build(draft.right, may_wait=False)
        equalities = tuple(_oriented(each, draft.left.visible) for each in draft.equalities)
        return JoinNode(draft.kind, left, right, equalities, tuple(each.expr for each in draft.others))

    def _build_group(self, draft: Group, may_wait: bool) -> Tree:
        """Blocks of the inputs that equalities connect, and these and the other drafts joined one by one."""
        leaves = [unit for unit in draft.units if isinstance(unit, Leaf)]
        parts = _connected(leaves, draft.equalities)
        in_blocks = [each for each in draft.equalities if any(aliases_of(each) <= part for part in parts)]
        between = [each for each in draft.equalities if each not in in_blocks]
        others = [each.expr for each in draft.others]
        if may_wait:
            self.deferred += others
            others = []
        units: list[tuple[frozenset[str], Tree]] = []
        for part in parts:
            inside = [each for each in in_blocks if aliases_of(each) <= part]
            own = [each for each in others if each.aliases and set(each.aliases) <= part]
            others = [each for each in others if each not in own]
            units.append((part, self._build_block(leaves, part, inside, own, may_wait)))
        outer = [unit for unit in draft.units if isinstance(unit, Outer)]
        units += [(unit.visible, self._build_outer(unit, may_wait)) for unit in outer]
        units.sort(key=lambda unit: min(self._position(alias) for alias in unit[0]))
        return self._join_units(draft.at, units, between, others)

    def _build_block(
        self,
        leaves: Iterable[Leaf],
        part: frozenset[str],
        equalities: list[WrittenEquality],
        others: list[Expr],
        may_wait: bool,
    ) -> Block:
        inside = sorted(
            (leaf for leaf in leaves if leaf.alias in part), key=lambda one: self._position(one.alias)
        )
        for leaf in inside:
            self.build(leaf)
        sorted_ = Conditions()
        build_classes(self.scope, sorted_, equalities)
        for alias, filters in sorted_.filters.items():
            self.filters[alias] += filters
        if may_wait:
            self.deferred += sorted_.residual
        else:
            others = [*sorted_.residual, *others]
        graph = JoinGraph(tuple(leaf.alias for leaf in inside), sorted_.classes)
        return Block(graph, tuple(others))

    def _join_units(
        self,
        at: Span,
        units: list[tuple[frozenset[str], Tree]],
        equalities: Sequence[WrittenEquality],
        others: list[Expr],
    ) -> Tree:
        """Inner joins of blocks and other joins, each with what it has an equality with."""
        (joined, tree), *rest = units
        while rest:
            near = [unit for unit in rest if any(_crosses(each, joined, unit[0]) for each in equalities)]
            if not near:
                raise self._refuse_unjoined(at, joined, rest[0][0])
            unit = near[0]
            rest.remove(unit)
            here = [each for each in equalities if _crosses(each, joined, unit[0])]
            both = joined | unit[0]
            now = [each for each in others if set(each.aliases) <= both]
            others = [each for each in others if each not in now]
            tree = JoinNode(
                JoinKind.INNER, tree, unit[1], tuple(_oriented(each, joined) for each in here), tuple(now)
            )
            joined = both
        return tree

    def _position(self, alias: str) -> int:
        return [item.alias for item in self.scope.inputs].index(alias)

    def _refuse_unjoined(self, at: Span, left: Iterable[str], right: Iterable[str]) -> SqlError:
        names = ["{" + ", ".join(sorted(side, key=self._position)) + "}" for side in (left, right)]
        one, other = (min(side, key=self._position) for side in (left, right))
        return self.scope.source.refuse(
            f"nothing joins {names[0]} and {names[1]}",
            at,
            f"Add an equality such as {one}.key = {other}.key, by itself or beside others with AND.",
        )


def _connected(leaves: Iterable[Leaf], equalities: Iterable[WrittenEquality]) -> list[frozenset[str]]:
    """The inputs in parts that equalities connect."""
    parts = [frozenset({leaf.alias}) for leaf in leaves]
    for equality in equalities:
        touched = [part for part in parts if part & aliases_of(equality)]
        if len(touched) == 2:
            parts = [part for part in parts if part not in touched] + [touched[0] | touched[1]]
    return parts


def _crosses(equality: WrittenEquality, one: frozenset[str], other: frozenset[str]) -> bool:
    inside = aliases_of(equality)
    return bool(inside & one) and bool(inside & other)


def _oriented(equality: WrittenEquality, left: frozenset[str]) -> Equality:
    one, other = equality.left.expr, equality.right.expr
    if equality.left.alias not in left:
        one, other = other, one
    return Equality(one, other, equality.type)

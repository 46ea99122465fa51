"""A tree of joins while it is put together: conditions move to where they decide, and joins become plainer.

    a LEFT JOIN b ON a.k = b.k WHERE a.v > 1     a.v > 1 filters a before the join
    a LEFT JOIN b ON a.k = b.k WHERE b.v > 1     an inner join: no answer without b meets the condition
    a LEFT JOIN b ON a.k = b.k AND b.v > 1       b.v > 1 filters b before the join
    a LEFT JOIN b ON a.k = b.k AND a.v > 1       a.v > 1 decides what matches: every a stays

Inner joins beside each other are one group. Its order is free: all of its lifetimes overlap, or they do not.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from watersmeet.errors import Span
from watersmeet.query import Expr, JoinKind
from watersmeet.sql.binding.conditions import Condition, Equality
from watersmeet.sql.binding.joins.nulls import is_null_without, rejected_inputs
from watersmeet.sql.binding.time_conditions.bounds import Bound

Part = Equality | Condition


@dataclass(frozen=True)
class On:
    """The conditions of a join, and the bounds on differences of event times that they imply."""

    parts: tuple[Part, ...] = ()
    bounds: tuple[Bound, ...] = ()


@dataclass
class Leaf:
    """An input with its filters."""

    alias: str
    at: Span
    filters: list[Expr] = field(default_factory=list)

    @property
    def visible(self) -> frozenset[str]:
        return frozenset({self.alias})

    @property
    def nullable(self) -> frozenset[str]:
        return frozenset()


@dataclass
class Group:
    """An inner join of several drafts, none of them a group."""

    units: list[Leaf | Outer]
    at: Span
    equalities: list[Equality] = field(default_factory=list)
    others: list[Condition] = field(default_factory=list)
    bounds: tuple[Bound, ...] = ()

    @property
    def on(self) -> On:
        return On((*self.equalities, *self.others), self.bounds)

    @property
    def visible(self) -> frozenset[str]:
        return frozenset().union(*(unit.visible for unit in self.units))

    @property
    def nullable(self) -> frozenset[str]:
        return frozenset().union(*(unit.nullable for unit in self.units))


@dataclass
class Outer:
    """A join of any other kind. `is_open` if it may do without an equality, as NOT IN must."""

    kind: JoinKind
    left: Draft
    right: Draft
    at: Span
    equalities: list[Equality] = field(default_factory=list)
    others: list[Condition] = field(default_factory=list)
    bounds: tuple[Bound, ...] = ()
    is_open: bool = False

    @property
    def on(self) -> On:
        return On((*self.equalities, *self.others), self.bounds)

    @property
    def visible(self) -> frozenset[str]:
        return self.left.visible if self.kind.hides_right else self.left.visible | self.right.visible

    @property
    def nullable(self) -> frozenset[str]:
        match self.kind:
            case JoinKind.LEFT:
                return self.left.nullable | self.right.visible
            case JoinKind.FULL:
                return self.visible
        return self.left.nullable


Draft = Leaf | Group | Outer


def join(kind: JoinKind, left: Draft, right: Draft, on: On, at: Span, is_open: bool = False) -> Draft:
    """Two drafts joined on these conditions."""
    if kind is JoinKind.INNER:
        return _join_inner([left, right], on, at)
    parts = on.parts
    rejected = _rejected(parts)
    if kind is not JoinKind.FULL:
        right = simplify(right, rejected)
    if kind is JoinKind.SEMI:
        left = simplify(left, rejected)
    made = Outer(kind, left, right, at, bounds=on.bounds, is_open=is_open)
    for part in parts:
        _place(made, part)
    return made


def push(draft: Draft, part: Part) -> bool:
    """Makes a draft answer only what meets a condition, before further joins; False where it cannot."""
    inside = aliases_of(part)
    match draft:
        case Leaf():
            draft.filters.append(_expr(part))
            return True
        case Group():
            for unit in draft.units:
                if inside <= unit.visible:
                    return push(unit, part)
            if isinstance(part, Equality):
                _add(draft, part, draft.nullable)
                return True
            return False
        case Outer():
            is_kept = draft.kind is not JoinKind.FULL and inside <= draft.left.visible
            return is_kept and push(draft.left, part)


def simplify(draft: Draft, rejected: frozenset[str]) -> Draft:
    """The draft where no answer that misses one of these inputs is wanted: some outer joins are inner."""
    match draft:
        case Leaf():
            return draft
        case Group():
            units = [simplify(unit, rejected) for unit in draft.units]
            if all(new is old for new, old in zip(units, draft.units, strict=True)):
                return draft
            return _join_inner(units, draft.on, draft.at)
        case Outer():
            return _simplify_outer(draft, rejected)


def _simplify_outer(draft: Outer, rejected: frozenset[str]) -> Draft:
    needs_left, needs_right = (bool(rejected & side.visible) for side in (draft.left, draft.right))
    match draft.kind:
        case JoinKind.LEFT if needs_right:
            return simplify(_join_inner([draft.left, draft.right], draft.on, draft.at), rejected)
        case JoinKind.FULL if needs_left and needs_right:
            return simplify(_join_inner([draft.left, draft.right], draft.on, draft.at), rejected)
        case JoinKind.FULL if needs_left:
            return simplify(join(JoinKind.LEFT, draft.left, draft.right, draft.on, draft.at), rejected)
        case JoinKind.FULL if needs_right:
            return simplify(join(JoinKind.LEFT, draft.right, draft.left, draft.on, draft.at), rejected)
        case JoinKind.FULL:
            return draft
    draft.left = simplify(draft.left, rejected)
    return draft


def aliases_of(part: Part) -> frozenset[str]:
    """The inputs that a condition reads."""
    if isinstance(part, Equality):
        return frozenset({part.left.alias, part.right.alias})
    return frozenset(part.expr.aliases)


def _join_inner(drafts: Iterable[Draft], on: On, at: Span) -> Group:
    units: list[Leaf | Outer] = []
    inner: list[Part] = []
    bounds = on.bounds
    rejected = _rejected(on.parts)
    for draft in (simplify(each, rejected) for each in drafts):
        if isinstance(draft, Group):
            units += draft.units
            inner += draft.on.parts
            bounds += draft.bounds
        else:
            units.append(draft)
    made = Group(units, at, bounds=bounds)
    for part in [*inner, *on.parts]:
        is_placed = bool(aliases_of(part)) and push(made, part)
        if not is_placed:
            made.others.append(_as_condition(part))
    return made


def _place(made: Outer, part: Part) -> None:
    """Puts a condition of ON where it decides no more than what matches."""
    inside = aliases_of(part)
    decides_alone = isinstance(part, Equality) or len(inside) == 1
    if inside and decides_alone:
        is_of_right = made.kind is not JoinKind.FULL and inside <= made.right.visible
        is_of_left = made.kind is JoinKind.SEMI and inside <= made.left.visible
        if (is_of_right and push(made.right, part)) or (is_of_left and push(made.left, part)):
            return
    crosses = bool(inside & made.left.visible) and bool(inside & made.right.visible)
    if crosses:
        _add(made, part, made.left.nullable | made.right.nullable)
    else:
        made.others.append(_as_condition(part))


def _add(made: Group | Outer, part: Part, nullable: frozenset[str]) -> None:
    """Adds a condition over both sides. The keys of an equality are NULL where their input is missing."""
    if isinstance(part, Equality) and all(
        side.alias not in nullable or is_null_without(side.expr) for side in (part.left, part.right)
    ):
        made.equalities.append(part)
    else:
        made.others.append(_as_condition(part))


def _rejected(parts: Iterable[Part]) -> frozenset[str]:
    return frozenset().union(*(rejected_inputs(_expr(part)) for part in parts))


def _expr(part: Part) -> Expr:
    return part.as_expr() if isinstance(part, Equality) else part.expr


def _as_condition(part: Part) -> Condition:
    return Condition(part.as_expr()) if isinstance(part, Equality) else part

"""A DHTJoin plan as operators on the ring: what meets where, and what is sent on under which attribute.

After Palma, Akbarinia, Pacitti and Valduriez, DHTJoin (extended version), section 3.3. Everything that
reaches a node does so on a *lane*: tuples of one stream, or partial results of one operator, indexed by one
attribute. An operator reads two or more lanes, all keyed by the same attribute class, so equal values meet at
the same node.

Queries share what they have in common: a lane is known by its stream and column alone, and two operators over
the same inputs (alias, stream, window, filters) with the same equalities are one operator, found once and
sent on once for each attribute that some query wants it by.

Example: the plan ((X, Y) at b, Z) at c has the operators X ⋈ Y, reading the lanes X.b and Y.b, and its
result joined with Z, reading the lanes "X ⋈ Y by Y.c" and Z.c. A type-1 query is one operator.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any

from watersmeet.errors import ConfigurationError
from watersmeet.oracle.cast import cast_value
from watersmeet.oracle.evaluate import evaluate
from watersmeet.plan.sites.dhtjoin import DhtJoinPlan
from watersmeet.plan.sites.plan_tree import MJoin, PlanNode, StreamLeaf
from watersmeet.query import Attribute, AttributeClass, Input, Query, RangeWindow
from watersmeet.query.expression import Expr
from watersmeet.query.values import canonical


@dataclass(frozen=True, eq=False, slots=True)
class Published:
    """A tuple as it entered the ring: when, and at which node; two of the same values are two."""

    stream: str
    values: Mapping[str, Any]  # by column, the event time among them where the stream declares one
    ts: int
    published_us: int
    source: int  # the node that inserted it


@dataclass(frozen=True, eq=False, slots=True)
class Partial:
    """Tuples of some inputs that agree, with their lifetime [t, end); `since` is the first insertion."""

    members: Mapping[str, Published]
    t: int
    end: int
    since: int


@dataclass(frozen=True)
class KeyExpr:
    """How a lane's key is read off one tuple: an expression over one input, cast to the type of its class."""

    attribute: Attribute
    type: str | None

    @cached_property
    def column(self) -> str | None:
        """The column's name where the key is one bare column."""
        expr = self.attribute.expr
        return expr.columns[0].column if expr.is_column else None

    @cached_property
    def name(self) -> str:
        """The attribute without its alias where it is a column, so that queries may share a lane."""
        return f"{self.column or self.attribute.expr.sql}:{self.type or '?'}"

    def value(self, tuple_: Published) -> Hashable:
        """The canonical value, or None, which equals nothing."""
        if self.column is not None:
            value = tuple_.values[self.column]
        else:
            value = evaluate(self.attribute.expr, {self.attribute.alias: tuple_.values})
        return canonical(cast_value(value, self.type) if self.type else value)


def key_text(value: Hashable) -> str:
    """The text that the ring hashes for a join value: the same for values that are equal."""
    if isinstance(value, int | float | Decimal):
        return f"number {hash(value)}"  # Python hashes equal numbers alike, whatever their type
    return f"{type(value).__name__} {value!r}"


@dataclass(frozen=True, eq=False)
class Slot:
    """One input of an operator: a stream under its window, or the results of another operator."""

    lane: str
    key: KeyExpr
    leaf: Input | None
    operator: Operator | None

    @property
    def aliases(self) -> tuple[str, ...]:
        return (self.leaf.alias,) if self.leaf else self.operator.aliases  # type: ignore[union-attr]


@dataclass(frozen=True, eq=False)
class Operator:
    """An MJoin keyed by one class; `checks` are the other equalities between different slots."""

    name: str
    slots: tuple[Slot, ...]
    checks: tuple[tuple[KeyExpr | None, ...], ...]  # by class, then by slot: where the slot has a value of it

    @cached_property
    def aliases(self) -> tuple[str, ...]:
        return tuple(alias for slot in self.slots for alias in slot.aliases)

    def descendants(self) -> Iterator[Slot]:
        """Its slots and, below those that are operators, theirs."""
        for slot in self.slots:
            yield slot
            if slot.operator:
                yield from slot.operator.descendants()

    @cached_property
    def leaves(self) -> tuple[Slot, ...]:
        return tuple(slot for slot in self.descendants() if slot.leaf)

    @cached_property
    def operators(self) -> tuple[Operator, ...]:
        """Itself and the operators below it."""
        return (self, *(slot.operator for slot in self.descendants() if slot.operator))


def operator_tree(query: Query, plan: DhtJoinPlan) -> Operator:
    """The root operator of a query under its plan."""
    for item in query.inputs:
        if not isinstance(item.window, RangeWindow):
            raise ConfigurationError(
                f"{item.alias}: DHTJoin runs over sliding time windows, not {item.window.pretty()}"
            )
    if query.tree:
        raise ConfigurationError("DHTJoin evaluates inner joins: write JOIN ... ON")
    if query.distinct or query.aggregate:
        raise ConfigurationError("DHTJoin answers plain SELECT queries, without DISTINCT or GROUP BY")
    return _operator(query, plan.root)


def _operator(query: Query, node: MJoin) -> Operator:
    cls = next((cls for cls in query.graph.classes if f"h({cls.pretty()})" == node.site), None)
    if cls is None:
        raise ConfigurationError(f"the plan joins at {node.site}, which is no attribute class of the query")
    slots = tuple(_slot(query, child, cls) for child in node.inputs)
    checks = []
    for other in query.graph.classes:
        sides = tuple(_key_of(other, slot.aliases) for slot in slots)
        if other is not cls and sum(side is not None for side in sides) > 1:
            checks.append(sides)
    lines = [slot.lane if slot.leaf is None else _leaf_text(slot.leaf, slot.lane) for slot in slots]
    lines += [" = ".join(side.attribute.pretty() for side in sides if side) for sides in checks]
    return Operator(f"({'; '.join(lines)})", slots, tuple(checks))


def _slot(query: Query, child: PlanNode, cls: AttributeClass) -> Slot:
    if isinstance(child, StreamLeaf):
        key = _key_of(cls, (child.name,))
        if key is None:
            raise ConfigurationError(f"the plan indexes {child.name} by {cls.pretty()}, which it is not in")
        item = query.input(child.name)
        return Slot(f"{item.stream.name}.{key.name}", key, item, None)
    assert isinstance(child, MJoin)
    operator = _operator(query, child)
    key = _key_of(cls, operator.aliases)
    if key is None:
        raise ConfigurationError(f"the plan sends {child.name} to {cls.pretty()}, which it has no value of")
    return Slot(f"{operator.name} by {key.attribute.pretty()}:{key.type or '?'}", key, None, operator)


def _key_of(cls: AttributeClass, aliases: tuple[str, ...]) -> KeyExpr | None:
    """How to read a class's value off a combination of these inputs: they agree on it, so any will do."""
    found = next((attribute for attribute in cls.attributes if attribute.alias in aliases), None)
    return KeyExpr(found, cls.type) if found else None


def _leaf_text(item: Input, lane: str) -> str:
    filters = "".join(f" where {expr.sql}" for expr in item.filters)
    return f"{lane} as {item.alias} {item.window.pretty()}{filters}"


def passes_filters(item: Input, tuple_: Published) -> bool:
    """Whether a tuple meets an input's local filters."""
    return all(evaluate(expr, {item.alias: tuple_.values}) is True for expr in item.filters)


def value_of(expr: Expr, members: Mapping[str, Published], t: int) -> Any:
    """An expression over a full combination."""
    if expr.is_column:
        ref = expr.columns[0]
        return members[ref.alias].values[ref.column]
    return evaluate(expr, {alias: member.values for alias, member in members.items()}, t)

"""Conditions, sorted: equalities between inputs make the join graph, the rest are filters or residual.

A conjunct of WHERE or ON is one of

    an equality of two expressions, each over one input, the inputs different   -> attribute classes
    anything over one input                                                     -> a filter of that input
    anything else                                                               -> residual

Classes are the equalities' connected parts (union-find). `X.a = Y.a = Z.a` means both equalities, as the
papers write it, and `(a.x, a.y) = (b.x, b.y)` means one a column. `answer_time` makes a condition residual.

    WHERE a.k = b.k AND b.k = c.k AND a.n > 5 AND a.n < c.n
    classes {a.k, b.k, c.k}   filters a: a.n > 5   residual a.n < c.n
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from sqlglot import exp

from watersmeet.errors import Span
from watersmeet.query import Attribute, AttributeClass, Expr, column_expr
from watersmeet.sql.binding.aggregates import find_aggregates
from watersmeet.sql.binding.expressions import bind_condition, equate, operand, same_text
from watersmeet.sql.binding.scope import Scope
from watersmeet.sql.binding.tables import Using
from watersmeet.sql.syntax.refuse import span_of
from watersmeet.sql.syntax.types import comparison_type, is_exact_cast

Key = tuple[str, str]  # an attribute: its input, its text


@dataclass(frozen=True)
class Equality:
    """A written equality of two attributes; `type` is what it compares as, None where unknown."""

    left: Attribute
    right: Attribute
    type: str | None
    span: Span

    @property
    def keys(self) -> tuple[Key, Key]:
        return _key(self.left), _key(self.right)

    def as_expr(self) -> Expr:
        return equate(self.left.expr, self.right.expr)


@dataclass
class Conditions:
    """The conditions of a query by what they are good for; `trees` keeps those that joined nothing."""

    classes: tuple[AttributeClass, ...] = ()
    filters: dict[str, list[Expr]] = field(default_factory=dict)
    residual: list[Expr] = field(default_factory=list)
    trees: list[exp.Expr] = field(default_factory=list)


@dataclass(frozen=True)
class Condition:
    """A condition that joins nothing by itself, and where it is written."""

    expr: Expr
    tree: exp.Expr | None = None


def sort_conditions(scope: Scope, conditions: Iterable[exp.Expr], using: Iterable[Using]) -> Conditions:
    """The conditions of a query by what they do; refuses equalities of types that cannot be compared."""
    sorted_ = Conditions()
    equalities = [using_equality(scope, item) for item in using]
    for found in read_conditions(scope, conditions):
        if isinstance(found, Equality):
            equalities.append(found)
        else:
            _sort_condition(sorted_, found)
    build_classes(scope, sorted_, equalities)
    return sorted_


def read_conditions(scope: Scope, trees: Iterable[exp.Expr]) -> Iterator[Equality | Condition]:
    """Every condition that AND puts together: equalities of two inputs, and others."""
    for conjunct in (part for tree in trees for part in split_conjunction(tree)):
        for aggregate in find_aggregates(conjunct):
            raise scope.source.refuse(
                "an aggregate cannot stand in WHERE or ON",
                aggregate,
                "Conditions on aggregates go into HAVING.",
            )
        sides = _chain(conjunct)
        if not sides:
            _refuse_inner_chain(scope, conjunct)
            yield Condition(bind_condition(conjunct, scope), conjunct)
        for left, right in pairwise(sides):
            yield from _read_equality(scope, left, right)


def split_conjunction(tree: exp.Expr) -> Iterator[exp.Expr]:
    """The conditions that AND puts together, in order, without the parentheses around them."""
    stack = [tree]
    while stack:
        node = stack.pop().unnest()
        if isinstance(node, exp.And):
            stack += [node.expression, node.this]
        else:
            yield node


def _chain(node: exp.Expr) -> list[exp.Expr]:
    """The terms of `x = y = z`; empty for a condition that is no equality."""
    terms: list[exp.Expr] = []
    while isinstance(node, exp.EQ):
        terms.append(node.expression)
        node = node.this
    return [node, *reversed(terms)] if terms else []


def _refuse_inner_chain(scope: Scope, conjunct: exp.Expr) -> None:
    for node in conjunct.find_all(exp.EQ):
        if isinstance(node.this, exp.EQ):
            raise scope.source.refuse(
                "a chain of equalities must be a condition of its own", node, "Write x = y AND y = z."
            )


def _read_equality(scope: Scope, left: exp.Expr, right: exp.Expr) -> Iterator[Equality | Condition]:
    left_parts, right_parts = left.unnest(), right.unnest()
    if isinstance(left_parts, exp.Tuple) and isinstance(right_parts, exp.Tuple):
        pairs = list(zip(left_parts.expressions, right_parts.expressions, strict=False))
        if len(left_parts.expressions) == len(right_parts.expressions):
            for pair in pairs:
                yield from _read_equality(scope, *pair)
            return
    for side in (left, right):
        _refuse_inner_chain(scope, side)
    equality = equality_of(scope, operand(left, scope), operand(right, scope), _around(left, right))
    if equality is not None:
        yield equality
        return
    assert left.parent is not None
    yield Condition(equate(operand(left, scope), operand(right, scope)), left.parent)


def _around(left: exp.Expr, right: exp.Expr) -> Span:
    return Span(span_of(left).start, span_of(right).end)


def equality_of(scope: Scope, left: Expr, right: Expr, span: Span) -> Equality | None:
    """The joining equality of two terms, or None where they are not over one input each."""
    if any(len(side.aliases) != 1 or side.uses_answer_time for side in (left, right)):
        return None
    if left.aliases == right.aliases:
        return None
    return _checked(scope, Attribute(left.aliases[0], left), Attribute(right.aliases[0], right), span)


def using_equality(scope: Scope, using: Using) -> Equality:
    """The equality that a USING means."""
    attributes = []
    for alias in (using.left, using.right):
        item = scope.input(alias)
        column = item.stream.column(using.name.name) if item else None
        assert column is not None
        attributes.append(Attribute(alias, column_expr(alias, column.name, column.type)))
    return _checked(scope, attributes[0], attributes[1], span_of(using.name))


def _checked(scope: Scope, left: Attribute, right: Attribute, span: Span) -> Equality:
    left_type, right_type = left.expr.type, right.expr.type
    if left_type is None or right_type is None:
        return Equality(left, right, None, span)
    compared = comparison_type(left_type, right_type)
    if compared is None:
        raise scope.source.refuse(
            f"{left.pretty()} is {left_type} and {right.pretty()} is {right_type}: they cannot be compared",
            span,
            _cast_advice(left.expr, right.expr),
        )
    return Equality(left, right, compared, span)


def _cast_advice(left: Expr, right: Expr) -> str:
    if any(side.type and side.type.startswith("map<") for side in (left, right)):
        return "Compare the entries of a map: array_sort(map_entries(m))."
    if any(side.type and "<" in side.type for side in (left, right)):
        return "Arrays and structs compare with those of the same type alone."
    if right.type == "string":
        return f"Cast one side: CAST({left.sql} AS STRING) = {right.sql}."
    if left.type == "string":
        return f"Cast one side: {left.sql} = CAST({right.sql} AS STRING)."
    return "Join on attributes of one type, or CAST one side."


def _sort_condition(sorted_: Conditions, found: Condition) -> None:
    expr = found.expr
    if len(expr.aliases) == 1 and not expr.uses_answer_time:
        sorted_.filters.setdefault(expr.aliases[0], []).append(expr)
    else:
        sorted_.residual.append(expr)
        sorted_.trees += [] if found.tree is None else [found.tree]


def build_classes(scope: Scope, sorted_: Conditions, equalities: list[Equality]) -> None:
    """The classes of a query, and the conditions that these do not say in full."""
    classes = []
    for group in _connected(equalities):
        kept, local = _members(scope, group)
        type_ = _class_type(group)
        classes.append(AttributeClass(tuple(kept.values()), type_))
        for attribute in local:
            both = (_cast(kept[attribute.alias].expr, type_), _cast(attribute.expr, type_))
            sorted_.filters.setdefault(attribute.alias, []).append(equate(*both))
        sorted_.residual += [item.as_expr() for item in group if not _is_kept_by(item, type_, group)]
    sorted_.classes = tuple(classes)


def _connected(equalities: list[Equality]) -> list[list[Equality]]:
    """Equalities in groups that share attributes, in the order of the text."""
    leader: dict[Key, Key] = {}

    def find(key: Key) -> Key:
        while leader.setdefault(key, key) != key:
            key = leader[key]
        return key

    for equality in equalities:
        left, right = (find(key) for key in equality.keys)
        leader[right] = left
    groups: dict[Key, list[Equality]] = {}
    for equality in equalities:
        groups.setdefault(find(equality.keys[0]), []).append(equality)
    return list(groups.values())


def _members(scope: Scope, group: list[Equality]) -> tuple[dict[str, Attribute], list[Attribute]]:
    """A class's attributes, one an input in the order of FROM, and those equal to another of their input."""
    distinct: dict[Key, Attribute] = {}
    for side in (side for item in group for side in (item.left, item.right)):
        distinct.setdefault(_key(side), side)
    kept: dict[str, Attribute] = {}
    for item in scope.inputs:
        for attribute in distinct.values():
            if attribute.alias == item.alias:
                kept.setdefault(item.alias, attribute)
    return kept, [attribute for attribute in distinct.values() if kept[attribute.alias] is not attribute]


def _class_type(group: list[Equality]) -> str | None:
    """The type in which all members of a class can be compared."""
    common: str | None = group[0].type
    for equality in group:
        if common is None or equality.type is None:
            return None
        common = comparison_type(common, equality.type)
    return common


def _is_kept_by(equality: Equality, class_type: str | None, group: list[Equality]) -> bool:
    """Whether a class asks all that a written equality asks: bigint = bigint asks more than as doubles."""
    if class_type is None or equality.type is None:
        return len(group) == 1
    return is_exact_cast(equality.type, class_type)


def _cast(expr: Expr, type_: str | None) -> Expr:
    """The expression as its class compares it, so that a local filter asks no more than the class does."""
    if type_ is None or expr.type is None or is_exact_cast(expr.type, type_):
        return expr
    return Expr(f"CAST({expr.sql} AS {type_.upper()})", expr.columns, type_)


def _key(attribute: Attribute) -> Key:
    return attribute.alias, same_text(attribute.expr)

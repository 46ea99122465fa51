"""The joins of FROM and the subqueries of WHERE, bound to one tree."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from watersmeet.errors import Span
from watersmeet.query import ANSWER_TIME, Block, Expr, Input, JoinGraph, JoinKind, JoinNode, Stream
from watersmeet.query.join_tree import key_graph
from watersmeet.sql.binding.aggregates import find_aggregates
from watersmeet.sql.binding.conditions import (
    Condition,
    equality_of,
    read_conditions,
    split_conjunction,
    using_equality,
)
from watersmeet.sql.binding.conditions import Equality as WrittenEquality
from watersmeet.sql.binding.expressions import equate, operand
from watersmeet.sql.binding.joins.build import Builder
from watersmeet.sql.binding.joins.derive import derive_in_joins
from watersmeet.sql.binding.joins.drafts import Draft, Leaf, On, Part, aliases_of, join, push, simplify
from watersmeet.sql.binding.joins.nulls import rejected_inputs
from watersmeet.sql.binding.scope import Scope
from watersmeet.sql.binding.tables import Tables, Using, bind_tables
from watersmeet.sql.binding.time_conditions.bounds import Bound
from watersmeet.sql.binding.time_conditions.terms import find_bounds
from watersmeet.sql.binding.views import with_views
from watersmeet.sql.syntax.joins import Written, WrittenInput, WrittenJoin, head, read_joins
from watersmeet.sql.syntax.refuse import span_of, suggest
from watersmeet.sql.syntax.subqueries import Subquery
from watersmeet.sql.syntax.types import comparison_type


@dataclass(frozen=True)
class BoundJoins:
    """What FROM and WHERE mean together: `tree` is None where all joins came out as inner ones."""

    scope: Scope
    inputs: tuple[Input, ...]
    graph: JoinGraph
    residual: tuple[Expr, ...]
    tree: JoinNode | None


@dataclass(frozen=True)
class _Side:
    """A draft of some inputs, and the columns that USING made one among them."""

    draft: Draft
    merged: Mapping[str, tuple[str, ...]]


def bind_joins(
    tree: exp.Select,
    tables: Tables,
    where: Sequence[exp.Expr],
    subqueries: Iterable[Subquery],
    catalog: Mapping[str, Stream],
) -> BoundJoins:
    """The tree of joins of a SELECT whose WHERE has these conditions and subqueries."""
    binder = _Binder(tables, catalog)
    side = binder.bind_from(tree, tables)
    for subquery in subqueries:
        side = binder.bind_subquery(side, binder.seen_in(side), subquery)
    scope = binder.seen_in(side)
    parts = list(read_conditions(scope, where))
    draft = simplify(side.draft, _rejected(parts))
    bounds = [bound for bound in _bounds(scope, where) if draft.nullable.isdisjoint(bound.names)]
    residual = [part for part in parts if not _is_placed(draft, part)]
    builder = Builder(binder.scope)
    built = builder.build(draft)
    windows = derive_in_joins(draft, binder.scope.inputs, binder.windowless, bounds)
    inputs = tuple(replace(item, filters=tuple(builder.filters.get(item.alias, ()))) for item in windows)
    after = (*builder.deferred, *(_expr(part) for part in residual))
    if isinstance(built, Block):
        return BoundJoins(scope, inputs, built.graph, (*built.residual, *after), None)
    graph = key_graph(tuple(item.alias for item in inputs), built, comparison_type)
    return BoundJoins(scope, inputs, graph, after, built)


def _is_placed(draft: Draft, part: Part) -> bool:
    """Whether a condition of WHERE could be had before the end: a filter of one input, or an equality."""
    inside = aliases_of(part)
    if not isinstance(part, WrittenEquality) and (len(inside) != 1 or part.expr.uses_answer_time):
        return False
    return push(draft, part)


def _expr(part: Part) -> Expr:
    return part.as_expr() if isinstance(part, WrittenEquality) else part.expr


def _bounds(scope: Scope, trees: Iterable[exp.Expr]) -> Iterator[Bound]:
    """What conditions say of the differences of event times."""
    for part in (part for tree in trees for part in split_conjunction(tree)):
        yield from (bound for bound in find_bounds(scope, part) if ANSWER_TIME not in bound.names)


def _rejected(parts: Iterable[Part]) -> frozenset[str]:
    return frozenset().union(*(rejected_inputs(_expr(part)) for part in parts))


class _Binder:
    """Binds joins one after the other; `scope` holds all inputs so far, in the order of the text."""

    def __init__(self, tables: Tables, catalog: Mapping[str, Stream]) -> None:
        self.scope = tables.scope
        self.windowless = set(tables.windowless)
        self._catalog = catalog
        self._hidden: dict[str, str] = {}

    def bind_from(self, tree: exp.Select, tables: Tables) -> _Side:
        return self._bind(read_joins(self.scope.source, tree, lambda table: tables.aliases[id(table)]))

    def seen_in(self, *sides: _Side, around: Scope | None = None) -> Scope:
        """The scope of the inputs that can be seen in these sides."""
        seen = frozenset().union(*(side.draft.visible for side in sides))
        merged = {name: aliases for side in sides for name, aliases in side.merged.items()}
        reasons = {
            item.alias.lower(): "It is joined elsewhere: a condition names inputs of its own join."
            for item in self.scope.inputs
            if item.alias not in seen
        }
        inputs = tuple(item for item in self.scope.inputs if item.alias in seen)
        return Scope(self.scope.source, inputs, merged, around=around, unseen=reasons | self._hidden)

    def _bind(self, written: Written) -> _Side:
        if isinstance(written, WrittenInput):
            return _Side(Leaf(written.alias, span_of(written.table)), {})
        left, right = self._bind(written.left), self._bind(written.right)
        at = span_of(written.right.table) if isinstance(written.right, WrittenInput) else Span(0, 1)
        parts: list[Part] = []
        bounds: tuple[Bound, ...] = ()
        merged = {**left.merged, **right.merged}
        if written.join is not None:
            at = head(self.scope.source, written.join)
            for name in written.join.args.get("using") or []:
                first, second = (right, left) if written.is_swapped else (left, right)
                using = self._use(first, second, name, written, at)
                parts.append(using_equality(self.scope, using))
                pair = (using.right, using.left) if written.is_swapped else (using.left, using.right)
                shared = merged.get(name.name.lower(), pair[:1])
                merged[name.name.lower()] = tuple(dict.fromkeys((*shared, *pair)))
            on = self._on(self.seen_in(left, right), written.join.args.get("on"))
            parts += on.parts
            bounds = on.bounds
        if written.kind.hides_right:
            merged = dict(left.merged)
            self._hide(right.draft, f"the right side of a {written.kind.name} JOIN")
        on = On(tuple(parts), bounds)
        return _Side(join(written.kind, left.draft, right.draft, on, at), merged)

    def _on(self, scope: Scope, tree: exp.Expr | None) -> On:
        """The conditions of a join; TRUE is none."""
        is_empty = tree is None or (isinstance(tree, exp.Boolean) and bool(tree.this))
        trees = [] if tree is None or is_empty else [tree]
        parts = list(read_conditions(scope, trees))
        for part in parts:
            if not isinstance(part, WrittenEquality) and part.expr.uses_answer_time:
                assert part.tree is not None
                raise scope.source.refuse(
                    "answer_time cannot decide what is joined",
                    part.tree,
                    "It is the time of the whole answer. Put the condition into WHERE of the query itself.",
                )
        return On(tuple(parts), tuple(_bounds(scope, trees)))

    def _hide(self, draft: Draft, where: str) -> None:
        for alias in draft.visible:
            self._hidden[alias.lower()] = f"It is in {where}, which only asks whether there is a partner."

    def _use(self, left: _Side, right: _Side, name: exp.Expr, written: WrittenJoin, at: Span) -> Using:
        """The two columns that a USING name makes equal."""
        source = self.scope.source
        if written.kind is JoinKind.FULL:
            raise source.refuse(
                "FULL JOIN takes no USING: either side may be missing",
                at,
                f"Write ON with an equality, and select COALESCE(x.{name.name}, y.{name.name}).",
            )
        found = []
        for side, where in ((left, "left"), (right, "right")):
            scope = self.seen_in(side)
            owners = scope.owners(name.name)
            if not owners:
                known = [column.name for item in scope.inputs for column in item.stream.columns]
                raise source.refuse(
                    f"USING ({name.name}): the {where} side has no such column",
                    name,
                    suggest(name.name, known, "column"),
                )
            if len(owners) > 1:
                raise source.refuse(
                    f"USING ({name.name}): the {where} side has {len(owners)} such columns",
                    name,
                    "Write ON with an equality of two of them.",
                )
            found.append(owners[0].alias)
        return Using(name, found[0], found[1])

    def bind_subquery(self, side: _Side, outer: Scope, subquery: Subquery) -> _Side:
        """The side with a semi or an anti join to what a subquery reads."""
        source, at = self.scope.source, span_of(subquery.condition)
        before = self.scope.inputs
        catalog = with_views(source, subquery.select, self._catalog)
        tables = bind_tables(source, subquery.select, span_of(subquery.select), catalog, before)
        self.scope = Scope(source, (*before, *tables.scope.inputs))
        self.windowless |= tables.windowless
        inner = self.bind_from(subquery.select, tables)
        scope = self.seen_in(inner, around=outer)
        where = subquery.select.args.get("where")
        on = self._on(scope, where.this if where is not None else None)
        parts = list(on.parts)
        kind = JoinKind.ANTI if subquery.is_negated else JoinKind.SEMI
        compared = list(self._compared(outer, scope, subquery))
        if compared and subquery.is_negated:
            parts.append(Condition(_may_be_equal(compared)))
        else:
            parts += compared
        self._hide(inner.draft, "a subquery")
        is_open = bool(compared) and subquery.is_negated
        on = On(tuple(parts), on.bounds)
        return _Side(join(kind, side.draft, inner.draft, on, at, is_open), side.merged)

    def _compared(self, outer: Scope, inner: Scope, subquery: Subquery) -> Iterator[Part]:
        """What IN compares, in pairs."""
        if subquery.compared is None:
            return
        source, selected = self.scope.source, subquery.select.expressions
        compared = subquery.compared.unnest()
        terms = compared.expressions if isinstance(compared, exp.Tuple) else [compared]
        if len(terms) != len(selected) or any(each.find(exp.Star) for each in selected):
            raise source.refuse(
                f"{subquery.name} compares {len(terms)} value{'s' if len(terms) > 1 else ''}",
                subquery.select,
                "Its SELECT names as many columns, each by itself.",
            )
        for term, each in zip(terms, selected, strict=True):
            for aggregate in find_aggregates(each):
                raise source.refuse(
                    f"an aggregate cannot stand in {subquery.name}", aggregate, "Compare with columns."
                )
            left, right = operand(term, outer), operand(each.unalias(), inner)
            span = Span(span_of(term).start, span_of(each).end)
            yield equality_of(inner, left, right, span) or Condition(equate(left, right))


def _may_be_equal(compared: Iterable[Part]) -> Expr:
    """What keeps a row out of NOT IN: that a partner is equal, or that NULL leaves this unknown."""
    pairs = [_expr(part) for part in compared]
    columns = tuple(dict.fromkeys(column for pair in pairs for column in pair.columns))
    return Expr(f"({' AND '.join(pair.sql for pair in pairs)}) IS NOT FALSE", columns, "boolean")

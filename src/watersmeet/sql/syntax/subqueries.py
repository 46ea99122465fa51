"""Subqueries that ask whether there is a partner: EXISTS and IN, as conditions of WHERE by themselves."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp


@dataclass(frozen=True)
class Subquery:
    """[NOT] EXISTS (SELECT ...) or `compared` [NOT] IN (SELECT ...)."""

    condition: exp.Expr
    select: exp.Select
    compared: exp.Expr | None
    is_negated: bool

    @property
    def name(self) -> str:
        """What a person calls it."""
        return ("NOT " if self.is_negated else "") + ("EXISTS" if self.compared is None else "IN")


def cut_subqueries(tree: exp.Select) -> tuple[tuple[exp.Expr, ...], tuple[Subquery, ...]]:
    """The conditions that WHERE puts together by AND: those without a subquery, and those that are one."""
    where = tree.args.get("where")
    others, found = [], []
    stack = [where.this] if where is not None else []
    while stack:
        node = stack.pop().unnest()
        if isinstance(node, exp.And):
            stack += [node.expression, node.this]
            continue
        subquery = _read(node)
        if subquery is None:
            others.append(node)
        else:
            found.append(subquery)
    return tuple(others), tuple(found)


def _read(condition: exp.Expr) -> Subquery | None:
    node, is_negated = condition, False
    while isinstance(node, exp.Not | exp.Paren):
        is_negated ^= isinstance(node, exp.Not)
        node = node.this
    select = node.this if isinstance(node, exp.Exists) else node.args.get("query")
    select = select.this if isinstance(select, exp.Subquery) else select
    if not isinstance(node, exp.Exists | exp.In) or not isinstance(select, exp.Select):
        return None
    return Subquery(condition, select, node.this if isinstance(node, exp.In) else None, is_negated)

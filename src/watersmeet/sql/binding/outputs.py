"""The SELECT list and GROUP BY into outputs and an aggregate."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from watersmeet.errors import Span
from watersmeet.query import ANSWER_TIME, Expr, Output, column_expr
from watersmeet.sql.binding.expressions import bind_expr, title
from watersmeet.sql.binding.scope import Scope
from watersmeet.sql.syntax.refuse import span_of, suggest


@dataclass(frozen=True)
class Draft:
    """An answer's column before its name is settled: `name` as AS gave it, else the first free of `names`."""

    node: exp.Expr
    expr: Expr
    name: str | None
    names: tuple[str, ...] = ()
    span: Span | None = None


def bind_outputs(scope: Scope, projections: list[exp.Expr]) -> tuple[tuple[Output, ...], list[Draft]]:
    """The answer's columns, names settled, with the drafts they came from.

    Names given by AS must differ. A column without one takes its own name, or alias_column where that
    name is taken twice (`SELECT R.B, S.B` gives R_B and S_B); another expression takes its text.
    """
    drafts = [draft for node in projections for draft in _drafts(scope, node)]
    if not drafts:
        raise scope.source.refuse("this SELECT selects nothing", Span(0, 1), "Write SELECT columns FROM ...")
    wanted = [(draft.name or draft.names[0]).lower() for draft in drafts]
    taken: set[str] = set()
    outputs = []
    for draft, want in zip(drafts, wanted, strict=True):
        repeated = draft.name is None and wanted.count(want) > 1
        name = draft.name or draft.names[-1 if repeated else 0]
        if name.lower() in taken:
            raise scope.source.refuse(
                f"two columns of the answer are called {draft.name or draft.names[0]}",
                draft.span or span_of(draft.node),
                "Give each its own name with AS.",
            )
        taken.add(name.lower())
        outputs.append(Output(name, draft.expr))
    return tuple(outputs), drafts


def _drafts(scope: Scope, node: exp.Expr) -> list[Draft]:
    if isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star)):
        return _expand_star(scope, node)
    if isinstance(node, exp.Alias):
        return [Draft(node.this, bind_expr(node.this, scope), node.alias, span=span_of(node.args["alias"]))]
    if isinstance(node, exp.Aliases):
        raise scope.source.refuse(
            "one expression gives one column", node, "Explode or unpack it before the join."
        )
    expr = bind_expr(node, scope)
    if isinstance(node, exp.Column | exp.Dot):
        column = node.parts[-1].name if isinstance(node, exp.Column) else node.name
        alias = expr.aliases[0] if expr.aliases else ""
        if isinstance(node, exp.Column) and expr.is_column:
            alias, column = scope.written(expr.columns[0])
        elif expr.uses_answer_time:
            column = ANSWER_TIME
        return [Draft(node, expr, None, (column, f"{alias}_{column}"))]
    return [Draft(node, expr, None, (title(node, scope), expr.sql))]


def _expand_star(scope: Scope, node: exp.Expr) -> list[Draft]:
    star = node.this if isinstance(node, exp.Column) else node
    if any(star.args.get(key) for key in ("except_", "except", "replace", "rename")):
        raise scope.source.refuse("a star takes no EXCEPT or REPLACE", node, "Name the columns you want.")
    inputs = list(scope.inputs)
    merged = dict(scope.merged)
    only: str | None = None  # the alias before the star, if there is one
    if isinstance(node, exp.Column):
        qualifier = node.parts[0]
        item = scope.input(qualifier.name) or scope.input_with(qualifier.name)
        if item is None or len(node.parts) != 2:
            aliases = [item.alias for item in scope.inputs]
            advice = suggest(qualifier.name, aliases, "stream")
            raise scope.source.refuse(f"nothing in FROM is called {qualifier.name}", qualifier, advice)
        inputs, merged, only = [item], {}, qualifier.name
    drafts: dict[tuple[str, str], Draft] = {}
    for item in inputs:
        for column in item.stream.columns:
            expr = column_expr(item.alias, column.name, column.type)
            alias, name = scope.written(expr.columns[0])
            if only is not None and alias.lower() != only.lower():
                continue
            names = (name, f"{alias}_{name}")
            drafts[item.alias, column.name.lower()] = Draft(node, expr, None, names)
    shared = [(aliases[0], name) for name, aliases in merged.items()]
    hidden = {(alias, name) for name, aliases in merged.items() for alias in aliases[1:]}
    return [drafts[key] for key in shared] + [
        draft for key, draft in drafts.items() if key not in hidden and key not in shared
    ]

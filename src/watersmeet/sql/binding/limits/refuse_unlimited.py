"""Refuses a query whose values have no bound, or that may compute one for ever."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from watersmeet.errors import SqlError
from watersmeet.sql.binding.limits.measure import MOST_FIXED, MOST_TIMES, Measure
from watersmeet.sql.binding.limits.size import FIXED, total
from watersmeet.sql.syntax.parse import Select
from watersmeet.sql.syntax.refuse import span_of

MOST_OUTPUTS = 10  # times as much as one value, for all outputs together


def refuse_unlimited(select: Select) -> None:
    """Refuses what could exhaust the memory of the server, or keep it from ever ending a batch."""
    source = select.source

    def refuse(node: exp.Expr, problem: str, advice: str) -> SqlError:
        return source.refuse(f"{problem}, which is not allowed in a shared dataflow", node, advice)

    measure = Measure(refuse, lambda node: source.slice(span_of(node)))
    for root in _conditions(select.tree):
        measure.size(root)
    answer = total(measure.size(output) for output in select.tree.expressions)
    bounds = {name: MOST_OUTPUTS * (MOST_FIXED if name == FIXED else MOST_TIMES) for name in answer.parts}
    if any(answer.of(name) > bound for name, bound in bounds.items()):
        raise refuse(select.tree.expressions[0], "these outputs are too long together", "Select less.")


def _conditions(tree: exp.Expr) -> Iterator[exp.Expr]:
    for name in ("where", "group", "having"):
        if (found := tree.args.get(name)) is not None:
            yield found
    for join in tree.args.get("joins") or ():
        if (on := join.args.get("on")) is not None:
            yield on

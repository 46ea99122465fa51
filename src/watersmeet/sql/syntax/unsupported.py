"""What SQL has and a continuous join has not: each refused with what to write instead."""

from __future__ import annotations

from sqlglot import exp

from watersmeet.errors import Span
from watersmeet.sql.syntax.parse import find_word
from watersmeet.sql.syntax.refuse import Source

_SUPPORTED_CLAUSES = {"expressions", "from_", "joins", "where", "group", "having", "distinct"}

# By the name sqlglot gives a clause of SELECT: what a person calls it, and what to do.
_CLAUSES = {
    "with_": ("WITH", "Write the streams themselves in FROM: a query joins streams, not other queries."),
    "order": ("ORDER BY", "Answers come as they happen and have no last one to sort by. Leave it out."),
    "sort": ("SORT BY", "Answers come as they happen. Leave it out."),
    "cluster": ("CLUSTER BY", "Watersmeet spans the work itself. Leave it out."),
    "distribute": ("DISTRIBUTE BY", "Watersmeet spans the work itself. Leave it out."),
    "limit": ("LIMIT", "A continuous query has no end. To bound a stream write a window: [ROWS 100]."),
    "offset": ("OFFSET", "A continuous query has no first answer to skip. Leave it out."),
    "laterals": ("LATERAL VIEW", "Explode the column before the join, in the stream's source."),
    "windows": ("WINDOW", "Windows are written on streams: s [RANGE 10 MINUTES]."),
    "qualify": ("QUALIFY", "Filter with WHERE, or with HAVING over an aggregate."),
    "hint": ("a hint", "Watersmeet chooses the join itself. Leave it out."),
    "into": ("SELECT INTO", "Write INSERT INTO sink SELECT ..."),
    "pivots": ("PIVOT", "Aggregate with GROUP BY instead."),
    "kind": ("SELECT AS", "Select the columns themselves."),
    "exclude": ("EXCEPT", "Name the columns you want."),
}

_NODES: tuple[tuple[type[exp.Expr] | tuple[type[exp.Expr], ...], str, str], ...] = (
    (
        (exp.Query, exp.Subquery),
        "a subquery",
        "Join the stream itself: put it in FROM and its condition in WHERE.",
    ),
    (
        exp.Window,
        "a window function (OVER)",
        "Write the window on a stream, s [ROWS 100], and aggregate with GROUP BY.",
    ),
    ((exp.Placeholder, exp.Parameter), "a parameter", "Write the value itself."),
    (exp.Lateral, "LATERAL", "Explode the column before the join, in the stream's source."),
)


def refuse_unsupported(source: Source, tree: exp.Expr, span: Span) -> exp.Select:
    """The tree itself if it is a plain SELECT of what we support; refuses anything else."""
    if isinstance(tree, exp.SetOperation):
        name = type(tree).__name__.upper()
        raise source.refuse(
            f"{name} is not supported",
            find_word(source, span, name),
            "Write two statements into one sink, each after a line that names it: -- name: some-name.",
        )
    if isinstance(tree, exp.Subquery) and isinstance(tree.this, exp.Select):
        raise source.refuse("a SELECT in parentheses is not supported", tree, "Leave the parentheses out.")
    if not isinstance(tree, exp.Select):
        raise source.refuse("this statement is not a SELECT", span, "Write SELECT ... FROM ...")
    for key, value in tree.args.items():
        if value and key not in _SUPPORTED_CLAUSES:
            name, advice = _CLAUSES.get(key, (key.strip("_").upper(), "Leave it out."))
            word = "/*+" if key == "hint" else name.split(" ")[0]
            raise source.refuse(f"{name} is not supported", find_word(source, span, word), advice)
    _refuse_inside(source, tree)
    return tree


def _refuse_inside(source: Source, tree: exp.Select) -> None:
    tables = [tree.args.get("from_"), *(tree.args.get("joins") or [])]
    in_from = {id(part) for item in tables if item is not None for part in item.this.walk()}
    for part in tree.walk():
        if part is tree or id(part) in in_from:
            continue
        for kind, name, advice in _NODES:
            if isinstance(part, kind):
                raise source.refuse(f"{name} is not supported", part, advice)

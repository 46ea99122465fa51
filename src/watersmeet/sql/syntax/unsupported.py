"""What SQL has and a continuous join has not: each refused with what to write instead."""

from __future__ import annotations

from sqlglot import exp

from watersmeet.errors import Span
from watersmeet.sql.syntax.parse import find_word
from watersmeet.sql.syntax.refuse import Source, span_of
from watersmeet.sql.syntax.subqueries import Subquery, cut_subqueries

_SUPPORTED_CLAUSES = {"expressions", "from_", "joins", "where", "group", "having", "distinct", "with_"}
_CLAUSES_OF_VIEWS = {"expressions", "from_", "where", "laterals", "with_", "this", "expression", "joins"}

# By the name sqlglot gives a clause of SELECT: what a person calls it, and what to do.
_CLAUSES = {
    "order": ("ORDER BY", "Answers come as they happen, without a last one. Sort where the sink is read."),
    "sort": ("SORT BY", "Answers come as they happen. Leave it out."),
    "cluster": ("CLUSTER BY", "Watersmeet spans the work itself. Leave it out."),
    "distribute": ("DISTRIBUTE BY", "Watersmeet spans the work itself. Leave it out."),
    "limit": (
        "LIMIT",
        "A continuous query has no end. To bound a stream write a window: [ROWS 100]. To see some answers "
        "leave INSERT INTO out: 20 of each batch are shown.",
    ),
    "offset": ("OFFSET", "A continuous query has no first answer to skip. Leave it out."),
    "laterals": (
        "LATERAL VIEW",
        "Explode the column before the join, in a view: CREATE VIEW v AS SELECT ...",
    ),
    "windows": ("WINDOW", "Windows are written on streams: s [RANGE 10 MINUTES]."),
    "qualify": ("QUALIFY", "Filter with WHERE, or with HAVING over an aggregate."),
    "hint": ("a hint", "Watersmeet chooses the join itself. Leave it out."),
    "into": ("SELECT INTO", "Write INSERT INTO sink SELECT ..."),
    "pivots": ("PIVOT", "Aggregate with GROUP BY instead."),
    "kind": ("SELECT AS", "Select the columns themselves."),
    "exclude": ("EXCEPT", "Name the columns you want."),
}

# What a view cannot do, as it keeps nothing: the query that reads it does it.
_CLAUSES_IN_VIEWS = {
    "group": ("GROUP BY", "Aggregate in the query that reads the view."),
    "having": ("HAVING", "Aggregate in the query that reads the view."),
    "distinct": ("DISTINCT", "Write SELECT DISTINCT in the query that reads the view."),
}

_NODES: tuple[tuple[type[exp.Expr] | tuple[type[exp.Expr], ...], str, str], ...] = (
    (
        (exp.Query, exp.Subquery),
        "a subquery here",
        "[NOT] EXISTS (SELECT ...) and a.x [NOT] IN (SELECT ...) may stand in WHERE, by themselves or beside "
        "others with AND. Otherwise join the stream: put it in FROM and its condition in WHERE.",
    ),
    (
        exp.Window,
        "a window function (OVER)",
        "Write the window on a stream, s [ROWS 100], and aggregate with GROUP BY.",
    ),
    ((exp.Placeholder, exp.Parameter), "a parameter", "Write the value itself."),
    (exp.Lateral, "LATERAL", "Explode the column before the join, in a view: CREATE VIEW v AS SELECT ..."),
)


def refuse_unsupported(source: Source, tree: exp.Expr, span: Span) -> exp.Select:
    """The tree itself if it is a plain SELECT of what we support; refuses anything else."""
    if isinstance(tree, exp.SetOperation):
        name = type(tree).__name__.upper()
        advice = "Write two statements into one sink, each after a line that names it: -- name: some-name."
        if isinstance(tree, exp.Union):
            advice += (
                " Streams can be united before a join, in a view: CREATE VIEW v AS SELECT ... UNION ALL ..."
            )
        raise source.refuse(f"{name} is not supported", find_word(source, span, name), advice)
    if isinstance(tree, exp.Subquery) and isinstance(tree.this, exp.Select):
        raise source.refuse("a SELECT in parentheses is not supported", tree, "Leave the parentheses out.")
    if not isinstance(tree, exp.Select):
        raise source.refuse("this statement is not a SELECT", span, "Write SELECT ... FROM ...")
    for key, value in tree.args.items():
        if value and key not in _SUPPORTED_CLAUSES:
            name, advice = _CLAUSES.get(key, (key.strip("_").upper(), "Leave it out."))
            raise source.refuse(f"{name} is not supported", _word(source, span, key, name), advice)
    _refuse_inside(source, tree)
    return tree


def refuse_in_view(source: Source, view: str, tree: exp.Expr) -> exp.Select:
    """The tree itself if it can be a view, or both sides of one; refuses what has to keep something."""
    span = span_of(tree)
    if not isinstance(tree, exp.Select | exp.SetOperation):
        raise source.refuse(f"view {view} is not a SELECT", span, "Write SELECT ... FROM ...")
    for key, value in tree.args.items():
        if value and key not in _CLAUSES_OF_VIEWS and not (key == "distinct" and value is False):
            if isinstance(tree, exp.SetOperation) and key not in _CLAUSES:
                continue  # how its sides are matched
            known = {**_CLAUSES, **_CLAUSES_IN_VIEWS}
            name, advice = known.get(key, (key.strip("_").upper(), "Leave it out."))
            at = _word(source, span, key, name)
            raise source.refuse(f"view {view} has {name}, and a view takes one tuple at a time", at, advice)
    if isinstance(tree, exp.Select):
        if tree.args.get("from_") is None:
            raise source.refuse(f"view {view} reads no stream", span, "Write SELECT ... FROM stream.")
        for subquery in cut_subqueries(tree)[1]:
            raise source.refuse(
                f"view {view} has {subquery.name}, and a view takes one tuple at a time",
                subquery.condition,
                "Write it in the query that reads the view.",
            )
        _refuse_inside(source, tree)
    return tree  # type: ignore[return-value]


def refuse_recursion(source: Source, clause: exp.Expr) -> None:
    """Refuses WITH RECURSIVE: a view that reads itself."""
    if clause.args.get("recursive"):
        raise source.refuse(
            "WITH RECURSIVE is not supported",
            clause,
            "A view reads streams and views named before it. Leave RECURSIVE out, and join for each step.",
        )


def _word(source: Source, span: Span, key: str, name: str) -> Span:
    return find_word(source, span, "/*+" if key == "hint" else name.split(" ")[0])


def _refuse_inside(source: Source, tree: exp.Select) -> None:
    tables = [tree.args.get("from_"), *(tree.args.get("joins") or [])]
    elsewhere = [item.this for item in tables if item is not None]
    elsewhere += [part for part in (tree.args.get("with_"), *(tree.args.get("laterals") or [])) if part]
    in_from = {id(part) for item in elsewhere for part in item.walk()}
    for subquery in cut_subqueries(tree)[1]:
        _refuse_subquery(source, subquery)
        in_from |= {id(part) for part in subquery.select.walk()} | {id(subquery.select.parent)}
    for part in tree.walk():
        if part is tree or id(part) in in_from:
            continue
        for kind, name, advice in _NODES:
            if isinstance(part, kind):
                raise source.refuse(f"{name} is not supported", part, advice)


def _refuse_subquery(source: Source, subquery: Subquery) -> None:
    """Refuses what a subquery cannot have: it only asks whether there is a partner."""
    select = subquery.select
    refuse_unsupported(source, select, span_of(select))
    for key, name in (("group", "GROUP BY"), ("having", "HAVING")):
        if select.args.get(key):
            raise source.refuse(
                f"{name} is not supported in {subquery.name}",
                select.args[key],
                "A subquery asks whether there is a partner: write its streams and conditions alone.",
            )
    for inner in cut_subqueries(select)[1]:
        raise source.refuse(
            "a subquery inside of a subquery",
            inner.select,
            f"Join its stream in the subquery: {subquery.name} (SELECT ... FROM s JOIN t ON ...).",
        )

"""The joins of FROM as they are written: which kind of join puts which inputs together.

a LEFT JOIN b ON ..., c JOIN d ON ...     ((a LEFT b), (c INNER d)), a comma being the last to join
a JOIN (b LEFT JOIN c ON ...) ON ...      (a INNER (b LEFT c))
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sqlglot import TokenType, exp

from watersmeet.errors import Span
from watersmeet.query import JoinKind
from watersmeet.sql.syntax.parse import tokenize
from watersmeet.sql.syntax.refuse import Source, span_of

_KINDS = {
    ("", ""): JoinKind.INNER,
    ("", "INNER"): JoinKind.INNER,
    ("", "CROSS"): JoinKind.INNER,
    **{("LEFT", kind): JoinKind.LEFT for kind in ("", "OUTER")},
    **{("RIGHT", kind): JoinKind.LEFT for kind in ("", "OUTER")},
    **{("FULL", kind): JoinKind.FULL for kind in ("", "OUTER")},
    **{(side, "SEMI"): JoinKind.SEMI for side in ("", "LEFT")},
    **{(side, "ANTI"): JoinKind.ANTI for side in ("", "LEFT")},
}


@dataclass(frozen=True)
class WrittenInput:
    """A table of FROM, by the alias of the input it became."""

    alias: str
    table: exp.Expr


@dataclass(frozen=True)
class WrittenJoin:
    """Two sides, and the words that join them; None for a comma. A RIGHT JOIN has its sides swapped."""

    kind: JoinKind
    left: Written
    right: Written
    join: exp.Join | None
    is_swapped: bool = False

    @property
    def inputs(self) -> Iterator[WrittenInput]:
        for side in (self.left, self.right):
            yield from side.inputs if isinstance(side, WrittenJoin) else (side,)


Written = WrittenInput | WrittenJoin


def kind_of(source: Source, join: exp.Join) -> JoinKind:
    """The kind of a join; refuses one that is none of ours."""
    method, side, kind = (str(join.args.get(key) or "").upper() for key in ("method", "side", "kind"))
    name = " ".join(word for word in (method, side, kind) if word)
    if method == "NATURAL":
        raise source.refuse(
            f"{name} JOIN is not supported", head(source, join), "Name the columns: JOIN ... USING (column)."
        )
    if method or (side, kind) not in _KINDS:
        raise source.refuse(
            f"{name} JOIN is not supported",
            head(source, join),
            "Write JOIN ... ON with an equality, or LEFT, RIGHT, FULL, LEFT SEMI or LEFT ANTI JOIN.",
        )
    return _KINDS[side, kind]


def head(source: Source, join: exp.Join) -> Span:
    """The words of a join up to JOIN itself."""
    span = span_of(join)
    end = source.text.upper().find("JOIN", span.start, span.end)
    return Span(span.start, end + len("JOIN")) if end >= 0 else span


def read_joins(source: Source, tree: exp.Select, alias_of: Callable[[exp.Expr], str]) -> Written:
    """The joins of a SELECT's FROM."""
    parts: list[Written] = []
    current = _read_relation(source, tree.args["from_"].this, alias_of)
    for join in tree.args.get("joins") or []:
        if _is_comma(source, join):
            parts.append(current)
            current = _read_relation(source, join.this, alias_of)
        else:
            current = _put_together(source, current, join, alias_of)
    for part in reversed(parts):
        current = WrittenJoin(JoinKind.INNER, part, current, None)
    return current


def _read_relation(source: Source, node: exp.Expr, alias_of: Callable[[exp.Expr], str]) -> Written:
    inner = joins_in_parentheses(node)
    read = (
        _read_relation(source, inner, alias_of) if inner is not None else WrittenInput(alias_of(node), node)
    )
    for join in node.args.get("joins") or []:
        read = _put_together(source, read, join, alias_of)
    return read


def _put_together(
    source: Source, left: Written, join: exp.Join, alias_of: Callable[[exp.Expr], str]
) -> WrittenJoin:
    right = _read_relation(source, join.this, alias_of)
    kind = kind_of(source, join)
    if str(join.args.get("side") or "").upper() == "RIGHT":
        return WrittenJoin(kind, right, left, join, is_swapped=True)
    return WrittenJoin(kind, left, right, join)


def joins_in_parentheses(node: exp.Expr) -> exp.Expr | None:
    """The first table of `(a JOIN b ON ...)` or `(a)`; None for a table and for a subquery."""
    if not isinstance(node, exp.Subquery) or not isinstance(node.this, exp.Table | exp.Subquery):
        return None
    return node.this if isinstance(node.this, exp.Table) or node.this.args.get("joins") else None


def _is_comma(source: Source, join: exp.Join) -> bool:
    if str(join.args.get("kind") or "").upper() != "CROSS":
        return False
    before = tokenize(Source(source.text[: span_of(join.this).start]))
    words = [token for token in before if token.token_type != TokenType.L_PAREN]
    return bool(words) and words[-1].token_type == TokenType.COMMA

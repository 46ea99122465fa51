"""Expressions as Spark will read them: the text as written, its columns qualified, its spacing evened out.

The text is not regenerated from a tree: sqlglot translates between dialects and in doing so rewrites
functions (it drops the format of `to_char`, for one). What a person wrote for Spark, Spark gets.

    LOWER( host ) =  b.host   ->   LOWER(a.host) = b.host
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from sqlglot import TokenType, exp

from watersmeet.errors import Span
from watersmeet.query import Expr
from watersmeet.query.expression import quote_name
from watersmeet.sql.binding.infer import infer_type
from watersmeet.sql.binding.scope import Reference, Scope
from watersmeet.sql.syntax.parse import tokenize
from watersmeet.sql.syntax.refuse import Source, span_of

_SPACED = (TokenType.EQ, TokenType.NEQ, TokenType.LTE, TokenType.GTE, TokenType.NULLSAFE_EQ)
_TIGHT_AFTER = (TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.DOT)
_TIGHT_BEFORE = (TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.DOT, TokenType.COMMA)
_BARE = (exp.Column, exp.Func, exp.Literal, exp.Paren, exp.Bracket, exp.Dot, exp.Boolean, exp.Null)
_TAKE_UNITS = ("timestampadd", "timestampdiff", "dateadd", "date_add", "datediff", "date_diff")


def bind_expr(node: exp.Expr, scope: Scope) -> Expr:
    """The expression a node stands for; refuses unknown and ambiguous columns."""
    found = find_references(node, scope)
    references = [reference for _, reference in found]
    return Expr(
        rewrite(scope.source, span_of(node), [(ref.span, ref.text) for ref in references]),
        tuple(dict.fromkeys(column for reference in references for column in reference.columns)),
        infer_type(node, {id(column): reference.type for column, reference in found}),
        any(reference.uses_answer_time for reference in references),
    )


def find_references(node: exp.Expr, scope: Scope) -> list[tuple[exp.Column, Reference]]:
    """Every column a node names, in the order of the text."""
    columns = [column for column in node.find_all(exp.Column) if not is_unit(column)]
    columns.sort(key=lambda column: span_of(column).start)
    return [(column, scope.resolve(column)) for column in columns]


def is_unit(column: exp.Column) -> bool:
    """Whether a bare word is a unit of time, as the first of the three in TIMESTAMPADD(HOUR, 1, ts)."""
    call = column.parent
    return (
        isinstance(call, exp.Anonymous)
        and call.name.lower() in _TAKE_UNITS
        and len(call.expressions) == 3
        and call.expressions[0] is column
    )


def equate(left: Expr, right: Expr) -> Expr:
    """The expression `left = right`."""
    columns = tuple(dict.fromkeys((*left.columns, *right.columns)))
    answer_time = left.uses_answer_time or right.uses_answer_time
    return Expr(f"{left.sql} = {right.sql}", columns, "boolean", answer_time)


def bind_condition(node: exp.Expr, scope: Scope) -> Expr:
    """The expression of a condition, in parentheses where AND beside it would tear it apart."""
    return operand(node, scope) if isinstance(node, exp.Connector) else bind_expr(node, scope)


def operand(node: exp.Expr, scope: Scope) -> Expr:
    """The expression of a node, in parentheses where it could not stand beside an operator."""
    expr = bind_expr(node, scope)
    if isinstance(node, _BARE) and not isinstance(node, exp.Binary):  # sqlglot has OR as a function too
        return expr
    return Expr(f"({expr.sql})", expr.columns, expr.type, expr.uses_answer_time)


def same_text(expr: Expr) -> str:
    """What two spellings of one expression have in common: case and spaces are nothing, except in texts."""
    return _words(expr.sql)


@lru_cache(maxsize=1024)
def _words(text: str) -> str:
    written = (text[token.start : token.end + 1] for token in tokenize(Source(text)))
    return " ".join(word if "'" in word or '"' in word else word.lower() for word in written)


def title(node: exp.Expr, scope: Scope) -> str:
    """The text of a node with its columns unqualified: the name of an answer that was given none."""
    bare = [
        (reference.span, quote_name(reference.columns[0].column) if reference.columns else reference.text)
        for _, reference in find_references(node, scope)
    ]
    return rewrite(scope.source, span_of(node), bare)


def rewrite(source: Source, span: Span, replacements: Iterable[tuple[Span, str]]) -> str:
    """The text of a span with some pieces replaced, comments dropped and spacing evened out."""
    replaced = sorted(replacements, key=lambda item: item[0].start)
    written: list[str] = []
    end = span.start
    previous: TokenType | None = None
    for token in tokenize(Source(source.slice(span))):
        start = span.start + token.start
        if start < end:
            continue  # inside a replaced piece, or a later token of one number such as 10L
        while replaced and replaced[0][0].start < start:
            replaced.pop(0)
        here = replaced[0] if replaced and replaced[0][0].start == start else None
        if previous is not None and _is_spaced(previous, token.token_type, gap=start > end):
            written.append(" ")
        end = here[0].end if here else span.start + token.end + 1
        written.append(here[1] if here else source.text[start:end])
        previous = TokenType.VAR if here else token.token_type
    return "".join(written)


def _is_spaced(previous: TokenType, this: TokenType, *, gap: bool) -> bool:
    if previous in _TIGHT_AFTER or this in _TIGHT_BEFORE:
        return False
    return gap or previous in _SPACED or this in _SPACED or previous == TokenType.COMMA

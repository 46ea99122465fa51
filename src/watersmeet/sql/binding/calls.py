"""The functions that a SELECT calls, by the names Spark will look up, however they are written.

They are read off the tokens, which are what Spark is given, and not off a tree of another parser. Quotes,
case, comments and a qualified name hide nothing.

    system . `builtin`.REFLECT /* */ ('x')   ->   reflect
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from sqlglot import Token, TokenType, exp

from watersmeet.errors import Span
from watersmeet.sql.syntax.parse import Select, tokenize
from watersmeet.sql.syntax.refuse import Source, span_of

_WORD = re.compile(r"\w+")
_QUOTED = (TokenType.IDENTIFIER, TokenType.STRING)  # a setting of Spark makes "name" an identifier
# Unquoted words before a parenthesis that call nothing.
_KEYWORDS = """
    all and anti as asc between both by cross current desc distinct div else emit end escape every except
    following for from full group having ignore in inner interval is join leading like ilike natural not null
    nulls on or outer over partition preceding regexp respect right rlike rows select semi then to trailing
    tumble union using values when where with within zone char character dec numeric varchar
"""
_CALL_NOTHING = frozenset(_KEYWORDS.split())


@dataclass(frozen=True)
class Call:
    """One call: the last part of its name in lower case, where the whole name stands, how it was written."""

    name: str
    span: Span
    is_qualified: bool = False
    has_arguments: bool = False


def find_calls(select: Select) -> Iterator[Call]:
    """Every function that a SELECT calls, those that take no parentheses among them."""
    tokens = tokenize(Source(select.source.slice(select.span)))
    offset = select.span.start
    for index in range(len(tokens) - 1):
        if tokens[index + 1].token_type == TokenType.L_PAREN and _is_name(tokens[index]):
            first = _first_part(tokens, index)
            span = Span(offset + tokens[first].start, offset + tokens[index].end + 1)
            closes = tokens[index + 2].token_type == TokenType.R_PAREN if index + 2 < len(tokens) else True
            yield Call(_name(tokens[index]), span, first < index, not closes)
    for node in select.tree.find_all(exp.Func):
        if not isinstance(node, exp.Anonymous) and next(node.iter_expressions(), None) is None:
            text = select.source.slice(span_of(node))
            if _WORD.fullmatch(text):
                yield Call(text.lower(), span_of(node))


def _name(token: Token) -> str:
    return str(token.text).lower()


def _is_name(token: Token) -> bool:
    if token.token_type in _QUOTED:
        return True
    words = _name(token).split()  # some keywords are one token of two words
    return bool(words) and _WORD.fullmatch(words[-1]) is not None and words[-1] not in _CALL_NOTHING


def _first_part(tokens: list[Token], index: int) -> int:
    """The index of the first part of a qualified name that ends here."""
    while index >= 2 and tokens[index - 1].token_type == TokenType.DOT:
        index -= 2
    return index

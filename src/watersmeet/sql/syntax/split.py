"""A SQL text cut into its statements as they are written, each with the name a comment before it gives.

-- name: paid
SELECT ...;
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from sqlglot import Token, TokenType

from watersmeet.errors import Place
from watersmeet.sql.syntax.parse import tokenize
from watersmeet.sql.syntax.refuse import Source

_NAME = re.compile(r"^\s*--\s*name:[ \t]*(\S*)[ \t]*$", re.MULTILINE | re.IGNORECASE)


@dataclass(frozen=True)
class Written:
    """One statement: its text, where it stands, its name if it has one, and whether it is a declaration."""

    text: str
    place: Place
    name: str | None
    declares: bool


def split_statements(source: Source) -> tuple[Written, ...]:
    """The statements of a text, in order; nothing but quotes, comments and semicolons is looked at."""
    found = []
    before = 0
    for first, last in _bounds(tokenize(source)):
        names = _NAME.findall(source.text[before : first.start])
        place = Place(first.start, last.end + 1)
        declares = first.token_type == TokenType.CREATE
        found.append(Written(source.slice(place), place, names[-1] if names else None, declares))
        before = place.end
    return tuple(found)


def _bounds(tokens: list[Token]) -> Iterator[tuple[Token, Token]]:
    """The first and the last token of each statement."""
    first = last = None
    for token in tokens:
        if token.token_type != TokenType.SEMICOLON:
            first, last = first or token, token
        elif first and last:
            yield first, last
            first = last = None
    if first and last:
        yield first, last

"""A SQL text cut into its statements as they are written, each with the name a comment before it gives.

-- name: paid
SELECT ...;
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from sqlglot import TokenType

from watersmeet.errors import Span
from watersmeet.sql.syntax.parse import split_tokens, tokenize
from watersmeet.sql.syntax.refuse import Source

_NAME = re.compile(r"^[ \t]*--[ \t]*name:[ \t]*(\S*)[ \t]*$", re.MULTILINE | re.IGNORECASE)


@dataclass(frozen=True)
class Written:
    """One statement: its text, where it stands, its name if it has one, and whether it is a declaration."""

    text: str
    span: Span
    name: str | None
    declares: bool


def split_statements(source: Source) -> tuple[Written, ...]:
    """The statements of a text, in order; nothing but quotes, comments and semicolons is looked at."""
    found = []
    before = 0
    for tokens in split_tokens(tokenize(source)):
        first, last = tokens[0], tokens[-1]
        names = _NAME.findall(source.text[before : first.start])
        span = Span(first.start, last.end + 1)
        declares = first.token_type == TokenType.CREATE
        found.append(Written(source.slice(span), span, names[-1] if names else None, declares))
        before = span.end
    return tuple(found)

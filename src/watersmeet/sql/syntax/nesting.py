"""How deep and how long a statement may be.

The limits are below what Python's stack and the JVM's bear, and they are numbers. So whether a statement is
taken does not depend on how deep the caller's own stack is: what a client accepts the server accepts too, and
so does the server that is started again.
"""

from __future__ import annotations

from sqlglot import Token, TokenType, exp

from watersmeet.errors import Span
from watersmeet.sql.syntax.refuse import Source

MOST_BRACKETS = 20  # inside each other; CASE ... END and signs before signs count too
MOST_LEVELS = 400  # of operators: a + b + c has two
MOST_TOKENS = 200_000
MOST_CHARACTERS = 2_000_000  # of a query that is submitted: to read it must not take the server a minute
TOO_DEEP = "this statement is nested too deeply"
_ADVICE = (
    f"At most {MOST_BRACKETS} brackets stand inside each other. Compute parts of it in the stream's source."
)

_OPEN = (TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE, TokenType.CASE)
_CLOSE = (TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE, TokenType.END)
_SIGNS = (TokenType.NOT, TokenType.DASH, TokenType.PLUS, TokenType.TILDE, TokenType.ARROW)


def refuse_long_text(source: Source, span: Span) -> None:
    """Refuses a statement of a text, before it is read, that a server would read for too long."""
    if span.end - span.start > MOST_CHARACTERS:
        raise source.refuse(
            f"this statement has more than {MOST_CHARACTERS:,} characters",
            Span(span.start, span.start + 1),
            "Write several.",
        )


def refuse_deep_text(source: Source, tokens: list[Token]) -> None:
    """Refuses a statement before it is parsed whose brackets, cases or signs are too many levels deep."""
    if len(tokens) > MOST_TOKENS:
        at = tokens[MOST_TOKENS]
        raise source.refuse(
            f"this statement has more than {MOST_TOKENS:,} words",
            Span(at.start, at.end + 1),
            "Write several.",
        )
    depth = signs = 0
    for token in tokens:
        depth += (token.token_type in _OPEN) - (token.token_type in _CLOSE)
        signs = signs + 1 if token.token_type in _SIGNS else 0
        if depth + signs > MOST_BRACKETS:
            raise source.refuse(TOO_DEEP, Span(token.start, token.end + 1), _ADVICE)


def refuse_deep_tree(source: Source, tree: exp.Expr, span: Span) -> None:
    """Refuses a statement whose operators are too many levels deep; all that one AND joins is one level."""
    stack = [(tree, 0)]
    while stack:
        node, level = stack.pop()
        if level > MOST_LEVELS:
            raise source.refuse(
                TOO_DEEP, span, f"At most {MOST_LEVELS} operators stand in one expression. Write less in one."
            )
        for child in node.iter_expressions():
            same = isinstance(node, exp.Connector) and type(child) is type(node)
            stack.append((child, level if same else level + 1))

"""A SQL text into statements: declarations, and SELECTs not yet bound to any stream."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlglot import Token, TokenType, exp
from sqlglot.errors import ErrorLevel, SqlglotError

from watersmeet.errors import Span, SqlError
from watersmeet.sql.syntax.dialect import Cql, CqlParser, CqlSyntaxError, Declaration, InsertInto
from watersmeet.sql.syntax.nesting import TOO_DEEP, refuse_deep_text, refuse_deep_tree
from watersmeet.sql.syntax.refuse import Source, span_of

_OPENING = {TokenType.L_PAREN: ")", TokenType.L_BRACKET: "]"}
_CLOSING = {TokenType.R_PAREN: ")", TokenType.R_BRACKET: "]"}
_OPENINGS = re.compile(r"['\"`]|/\*")
_MOST_OPENINGS = 200  # each is tried by reading the text up to it
_TWO_WORDS: dict[tuple[str, ...], TokenType] = {
    ("GROUP", "BY"): TokenType.GROUP_BY,
    ("ORDER", "BY"): TokenType.ORDER_BY,
    ("PARTITION", "BY"): TokenType.PARTITION_BY,
}
_STATEMENTS = (TokenType.CREATE, TokenType.INSERT, TokenType.SELECT, TokenType.WITH, TokenType.L_PAREN)


@dataclass(frozen=True)
class Select:
    """A SELECT as written: its tree, where it is inserted, and where its EMIT stands."""

    source: Source
    tree: exp.Expr
    span: Span
    sink: exp.Expr | None = None
    emit: Span | None = None


Statement = Declaration | Select


def parse_statement_list(source: Source) -> tuple[Statement, ...]:
    """Every statement of a text, in order; refuses a text that holds none."""
    statements = list(split_tokens(tokenize(source)))
    if not statements:
        end = len(source.text.rstrip())
        raise source.refuse(
            "there is no statement here",
            Span(end, end + 1),
            "Write CREATE STREAM, CREATE SINK, INSERT INTO or SELECT.",
        )
    return tuple(_parse_statement(source, tokens) for tokens in statements)


def tokenize(source: Source) -> list[Token]:
    """The tokens of a text; refuses an unfinished string or comment."""
    try:
        return list(Cql().tokenize(source.text))
    except Exception:
        start = _unclosed(source.text)
        raise source.refuse(
            "a quote or comment is opened here and never closed", Span(start, start + 1), "Close it."
        ) from None


def find_word(source: Source, span: Span, word: str) -> Span:
    """Where a keyword last stands inside a span, outside all brackets; the span itself if it does not."""
    found, depth = span, 0
    for token in tokenize(Source(source.slice(span))):
        depth += (token.token_type in _OPENING) - (token.token_type in _CLOSING)
        if depth == 0 and token.text.upper().split(" ")[0] == word:
            found = Span(span.start + token.start, span.start + token.end + 1)
    return found


def _unclosed(text: str) -> int:
    """Where an unfinished quote or comment stands: the last opening up to which the text can be read."""
    for opening in reversed(list(_OPENINGS.finditer(text))[-_MOST_OPENINGS:]):
        try:
            Cql().tokenize(text[: opening.start()])
        except Exception:
            continue
        return opening.start()
    return 0


def split_tokens(tokens: list[Token]) -> Iterator[list[Token]]:
    """The tokens of each statement, without the semicolons between them; empty statements are left out."""
    statement: list[Token] = []
    for token in tokens:
        if token.token_type != TokenType.SEMICOLON:
            statement.append(token)
        elif statement:
            yield statement
            statement = []
    if statement:
        yield statement


def _parse_statement(source: Source, tokens: list[Token]) -> Statement:
    _check_brackets(source, tokens)
    refuse_deep_text(source, tokens)
    first = tokens[0]
    if first.token_type not in _STATEMENTS:
        raise source.refuse(
            f"a statement cannot begin with {first.text.upper()}",
            Span(first.start, first.end + 1),
            "Write CREATE STREAM, CREATE SINK, INSERT INTO or SELECT.",
        )
    body, emit = _cut_emit(source, tokens)
    tree = _parse_tree(source, body)
    refuse_deep_tree(source, tree, _around(body))
    if isinstance(tree, Declaration):
        return tree
    sink = tree.this if isinstance(tree, InsertInto) else None
    query = tree.expression if isinstance(tree, InsertInto) else tree
    sink_end = span_of(sink).end if sink is not None else first.start
    opening = next((token for token in body if token.start >= sink_end), first)
    return Select(source, query, Span(opening.start, tokens[-1].end + 1), sink, emit)


def _check_brackets(source: Source, tokens: list[Token]) -> None:
    """Pairs brackets first: the parser would report a missing one far from where it is missing."""
    open_tokens: list[Token] = []
    for token in tokens:
        if token.token_type in _OPENING:
            open_tokens.append(token)
        elif token.token_type in _CLOSING:
            expected = _OPENING[open_tokens[-1].token_type] if open_tokens else None
            if expected != _CLOSING[token.token_type]:
                advice = f"Write {expected} here." if expected else "Leave it out."
                at = Span(token.start, token.end + 1)
                raise source.refuse(f"this {token.text} closes nothing", at, advice)
            open_tokens.pop()
    if open_tokens:
        unclosed = open_tokens[-1]
        closing = _OPENING[unclosed.token_type]
        at = Span(unclosed.start, unclosed.end + 1)
        raise source.refuse(f"this {unclosed.text} is never closed", at, f"Close it with {closing}.")


def _cut_emit(source: Source, tokens: list[Token]) -> tuple[list[Token], Span | None]:
    """The tokens before EMIT EVERY or EMIT AT, which ends a statement, and the span of that clause."""
    for index in range(1, len(tokens) - 1):
        token, following = tokens[index], tokens[index + 1]
        dotted = tokens[index - 1].token_type in (TokenType.DOT, TokenType.ALIAS)
        word = following.text.upper()
        if word == "AT" and [each.text.upper() for each in tokens[index + 2 : index + 3]] != ["END"]:
            continue  # a column called emit, under an alias
        if token.text.upper() == "EMIT" and word in ("EVERY", "AT") and not dotted:
            if index + 2 == len(tokens):
                at = Span(token.start, following.end + 1)
                raise source.refuse("EMIT EVERY needs a duration", at, "Write EMIT EVERY 10 SECONDS.")
            return tokens[:index], Span(token.start, tokens[-1].end + 1)
    return tokens, None


def _parse_tree(source: Source, tokens: list[Token]) -> exp.Expr:
    """One statement's tree. Whatever sqlglot trips over becomes a refusal: its parser may raise anything."""
    try:
        parser = CqlParser(dialect=Cql(), error_level=ErrorLevel.IMMEDIATE)
        trees = parser.parse(list(_join_words(list(_read_quoted_names(source, tokens)))), source.text)
    except CqlSyntaxError as problem:
        raise source.refuse(problem.problem, problem.span, problem.advice) from None
    except RecursionError:
        raise source.refuse(TOO_DEEP, _around(tokens)) from None
    except SqlError:
        raise
    except SqlglotError as error:
        raise source.refuse(
            f"this statement cannot be read ({_first_line(error)})", _around(tokens)
        ) from None
    except Exception:
        raise source.refuse("this statement cannot be read", _around(tokens)) from None
    if len(trees) != 1 or trees[0] is None:
        raise source.refuse("this statement cannot be read", _around(tokens))
    return trees[0]


def _read_quoted_names(source: Source, tokens: Sequence[Token]) -> Iterator[Token]:
    """Double quotes beside a dot hold a name, as in "my orders"."the id"; elsewhere, as in Spark, a text."""
    dots = [token.token_type == TokenType.DOT for token in tokens]
    for index, token in enumerate(tokens):
        by_dot = any(dots[max(0, index - 1) : index] + dots[index + 1 : index + 2])
        if by_dot and token.token_type == TokenType.STRING and source.text[token.start] == '"':
            yield Token(TokenType.IDENTIFIER, token.text, token.line, token.col, token.start, token.end)
        else:
            yield token


def _join_words(tokens: Sequence[Token]) -> Iterator[Token]:
    """Keywords of two words are one token, also where a comment stands between them."""
    index = 0
    while index < len(tokens):
        words = tuple(token.text.upper() for token in tokens[index : index + 2])
        if (kind := _TWO_WORDS.get(words)) is not None:
            first, last = tokens[index : index + 2]
            yield Token(kind, " ".join(words), first.line, first.col, first.start, last.end)
            index += 2
        else:
            yield tokens[index]
            index += 1


def _first_line(error: Exception) -> str:
    return str(error).split("\n")[0].rstrip(".")


def _around(tokens: list[Token]) -> Span:
    return Span(tokens[0].start, tokens[-1].end + 1)

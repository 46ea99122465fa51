"""Refusing a SQL text: the text, where each piece of it stands, and the error that points at a piece."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass

from sqlglot import exp

from watersmeet.errors import Span, SqlError

SPAN = "span"  # the key under which the parser notes where a node stands: (start, end), end exclusive


@dataclass(frozen=True)
class Source:
    """A SQL text and the file it came from."""

    text: str
    file: str = ""

    def refuse(self, problem: str, at: Span | exp.Expr, advice: str = "") -> SqlError:
        """The error to raise for something that stands at `at`."""
        span = at if isinstance(at, Span) else span_of(at)
        return SqlError(problem, sql=self.text, span=span, advice=advice, file=self.file)

    def slice(self, span: Span) -> str:
        return self.text[span.start : span.end]

    def line(self, at: Span | exp.Expr) -> int:
        """The number of the line on which something stands."""
        span = at if isinstance(at, Span) else span_of(at)
        return self.text.count("\n", 0, span.start) + 1

    def quote(self, at: Span | exp.Expr) -> str:
        """A piece of the text on one line, for use inside a message."""
        return " ".join(self.slice(at if isinstance(at, Span) else span_of(at)).split())


def span_of(node: exp.Expr) -> Span:
    """Where a node stands: as the parser noted it, else around its parts, else where its parent stands."""
    at: exp.Expr | None = node
    while at is not None:
        span = _own_span(at)
        if span is not None:
            return span
        at = at.parent
    return Span(0, 1)


def _own_span(node: exp.Expr) -> Span | None:
    span = node.meta_get(SPAN)
    if span is not None:
        return Span(*span)
    spans = [part.meta_get(SPAN) for part in node.walk()]
    spans = [Span(*span) for span in spans if span is not None]
    spans += [
        Span(part.meta["start"], part.meta["end"] + 1)
        for part in node.walk()
        if part.meta_get("start") is not None
    ]
    if not spans:
        return None
    return Span(min(span.start for span in spans), max(span.end for span in spans))


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name most like a misspelt one, if any is like it."""
    by_lower = {candidate.lower(): candidate for candidate in known}
    close = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[close[0]] if close else None


def suggest(name: str, known: Iterable[str], kind: str) -> str:
    """Advice for an unknown name: the nearest one, or all there are."""
    names = list(known)
    close = nearest(name, names)
    if close is not None:
        return f"Did you mean {close}?"
    return f"There is no {kind} yet." if not names else f"Known {kind}s: {', '.join(names)}."

"""Every error a user can cause, in one family.

A message says what was wrong, where, and what to write instead. `str(error)` is what the CLI prints.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import quote, quote_plus

_SHORTEST = 4  # characters of a secret: hiding shorter ones would hide half of every message
_concealed: set[str] = set()


def conceal(secret: str) -> None:
    """From now on no message of this process shows this text, plainly or as messages quote texts."""
    for each in (secret, *secret.splitlines()):
        if len(each) >= _SHORTEST:
            _concealed.update(_spellings(each))


def _spellings(text: str) -> Iterator[str]:
    """A text as it stands in a message of Spark's, in SQL, in JSON, in an address."""
    yield text
    yield text.replace("\\", "\\\\").replace("'", "\\'")
    yield text.replace("'", "''")
    yield json.dumps(text)[1:-1]
    yield json.dumps(text, ensure_ascii=False)[1:-1]
    yield quote(text, safe="")
    yield quote_plus(text)


def redact(text: str) -> str:
    """The text without the secrets that are in use."""
    for secret in sorted(_concealed, key=len, reverse=True):
        text = text.replace(secret, "***")
    return text


class WatersmeetError(Exception):
    """The base of everything Watersmeet raises on purpose; its message shows no secret."""

    def __str__(self) -> str:
        return redact(super().__str__())


@dataclass(frozen=True)
class Span:
    """Where in a SQL text something stands: 0-based offsets, end exclusive."""

    start: int
    end: int


class SqlError(WatersmeetError):
    """A query or pipeline file that cannot be taken, with the offending text underlined."""

    def __init__(self, problem: str, *, sql: str, span: Span, advice: str = "", file: str = "") -> None:
        self.problem = problem
        self.advice = advice
        self.file = file
        self.line = sql.count("\n", 0, span.start) + 1
        line_start = sql.rfind("\n", 0, span.start) + 1
        self.column = span.start - line_start + 1
        line_end = sql.find("\n", span.start)
        text = sql[line_start : line_end if line_end >= 0 else len(sql)]
        width = max(1, min(span.end - span.start, len(text) - self.column + 1))
        self.excerpt = f"  {text.expandtabs(1)}\n  {' ' * (self.column - 1)}{'^' * width}"
        super().__init__(self.render())

    def render(self) -> str:
        """The message as a person reads it: what, where, the text underlined, what to write instead."""
        where = f"{self.file or 'query'}:{self.line}:{self.column}"
        advice = f"\n  {self.advice}" if self.advice else ""
        return f"{where}: {self.problem}\n{self.excerpt}{advice}"


class ConfigurationError(WatersmeetError):
    """The machine, the session or an option is not what Watersmeet needs."""


class DataError(WatersmeetError):
    """A source, a chunk or a checkpoint holds something that does not fit the query."""


class TransientError(WatersmeetError):
    """A failure that may pass by itself, such as that of a machine which was too busy for a while."""


class MemoryShortageError(TransientError):
    """A process had not enough memory, or seems to have been killed for it; smaller batches may help."""


class QueryError(WatersmeetError):
    """A query that is well written but cannot run where it was asked to, with what to change."""

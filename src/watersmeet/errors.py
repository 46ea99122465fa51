"""Every error a user can cause, in one family.

A message says what was wrong, where, and what to write instead. `str(error)` is what the CLI prints.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import quote, quote_plus

_WIDEST = 240  # characters of a line that an error shows
_SHORTEST = 4  # characters of a secret: hiding shorter ones would hide half of every message
_concealed: set[str] = set()
# Each for one character, so that what is underlined stays so: pictures of the old control characters, and for
# those of later times and those that turn the direction of writing the sign for what cannot be shown.
_SIGNS = {code: chr(0x2400 + code) for code in range(32)} | {0x7F: "\u2421", ord("\r"): " "}
_SIGNS |= dict.fromkeys((*range(0x80, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A)), "\ufffd")
del _SIGNS[ord("\n")], _SIGNS[ord("\t")]


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


def make_visible(text: str) -> str:
    """The text with signs in place of characters that would steer a terminal instead of being shown.

    >>> make_visible("red:\\x1b[31m")
    'red:\u241b[31m'
    """
    return text.translate(_SIGNS)


class WatersmeetError(Exception):
    """The base of everything Watersmeet raises on purpose.

    Its message shows no secret, and does nothing to a terminal: it may quote what somebody else has written.
    """

    def __str__(self) -> str:
        return make_visible(redact(super().__str__()))


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
        self.excerpt = _underline(text, self.column - 1, span.end - span.start)
        super().__init__(self.render())

    def render(self) -> str:
        """The message as a person reads it: what, where, the text underlined, what to write instead."""
        where = f"{self.file or 'query'}:{self.line}:{self.column}"
        advice = f"\n  {self.advice}" if self.advice else ""
        return f"{where}: {self.problem}\n{self.excerpt}{advice}"


def _underline(line: str, start: int, width: int) -> str:
    """A line with some of it underlined; of a long one, what stands around that."""
    first = max(0, start - _WIDEST // 4) if len(line) > _WIDEST else 0
    shown = line[first : first + _WIDEST]
    marks = max(1, min(width, len(shown) - (start - first)))
    before, after = "..." if first else "", "..." if first + _WIDEST < len(line) else ""
    indent = " " * (len(before) + start - first)
    return f"  {before}{shown.expandtabs(1)}{after}\n  {indent}{'^' * marks}"


class ConfigurationError(WatersmeetError):
    """The machine, the session or an option is not what Watersmeet needs."""


class DataError(WatersmeetError):
    """A source, a chunk or a checkpoint holds something that does not fit the query."""


class TransientError(WatersmeetError):
    """A failure that may pass by itself, such as that of a machine which was too busy for a while."""


class LinkError(TransientError):
    """A link between sites that cannot be written or read for now; what is to cross it waits."""


class MemoryShortageError(TransientError):
    """A process had not enough memory, or seems to have been killed for it; smaller batches may help."""


class QueryError(WatersmeetError):
    """A query that is well written but cannot run where it was asked to, with what to change."""

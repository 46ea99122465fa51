"""Every error a user can cause, in one family.

A message says what was wrong, where, and what to write instead. `str(error)` is what the CLI prints.
"""

from __future__ import annotations

from dataclasses import dataclass


class WatersmeetError(Exception):
    """The base of everything Watersmeet raises on purpose."""


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

"""An expression of a query: Spark SQL text with qualified columns, and which columns it reads.

Watersmeet never evaluates these where data flows: Spark does. (The oracle has a naive evaluator for tests.)
"""

from __future__ import annotations

from dataclasses import dataclass

ANSWER_TIME = "answer_time"  # the pseudo-column t; in an aggregate query, the tick


@dataclass(frozen=True, order=True)
class ColumnRef:
    """A column of one input of the query, both names as declared."""

    alias: str
    column: str

    def pretty(self) -> str:
        return f"{self.alias}.{self.column}"


@dataclass(frozen=True)
class Expr:
    """Spark SQL text in which every column is written `alias.column`; `type` is None where not inferred."""

    sql: str
    columns: tuple[ColumnRef, ...] = ()
    type: str | None = None
    uses_answer_time: bool = False

    @property
    def aliases(self) -> tuple[str, ...]:
        """The inputs it reads, each once, in order of appearance."""
        return tuple(dict.fromkeys(ref.alias for ref in self.columns))

    @property
    def is_column(self) -> bool:
        """Whether it is one bare column."""
        return len(self.columns) == 1 and self.sql == quote_ref(self.columns[0])

    def pretty(self) -> str:
        return self.sql


def quote_name(name: str) -> str:
    """A name as Spark SQL text, in backticks only where needed."""
    plain = name.isascii() and name.replace("_", "a").isalnum() and not name[0].isdigit()
    return name if plain else "`" + name.replace("`", "``") + "`"


def quote_ref(ref: ColumnRef) -> str:
    return f"{quote_name(ref.alias)}.{quote_name(ref.column)}"


def column_expr(alias: str, column: str, type: str | None = None) -> Expr:
    """The expression that is one bare column."""
    ref = ColumnRef(alias, column)
    return Expr(quote_ref(ref), (ref,), type)

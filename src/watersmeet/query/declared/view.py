"""A view: a stream made of other streams' tuples, one at a time, so that nothing has to be kept for it.

Each branch reads one declared stream and goes through its steps, one SELECT each; the view has the tuples of
all branches (UNION ALL). A tuple keeps its event time. The progress of a view is that of the streams it
reads: tuples that its conditions leave out still say how far their stream has come.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from watersmeet.query.expression import Expr, quote_name

if TYPE_CHECKING:
    from watersmeet.query.stream import Stream


@dataclass(frozen=True)
class ViewColumn:
    """One column of a step: its name, and what it is made of."""

    name: str
    expr: Expr

    def pretty(self) -> str:
        own = self.expr.is_column and self.expr.columns[0].column == self.name
        return self.expr.sql if own else f"{self.expr.sql} AS {quote_name(self.name)}"


@dataclass(frozen=True)
class Explode:
    """A row for each element of an array, under a name; `is_outer` keeps a row that has no elements."""

    array: Expr
    alias: str
    name: str
    is_outer: bool = False

    def pretty(self) -> str:
        function = "explode_outer" if self.is_outer else "explode"
        return f"{function}({self.array.sql}) as {self.alias}.{self.name}"


@dataclass(frozen=True)
class TableJoin:
    """The rows of a table that meet a condition, beside each row; a left join keeps a row that meets none."""

    table: Stream
    alias: str
    on: Expr
    is_left: bool = False

    def pretty(self) -> str:
        name = self.table.name if self.alias == self.table.name else f"{self.table.name} AS {self.alias}"
        return f"{'left join' if self.is_left else 'join'} {name} on {self.on.pretty()}"

    def to_json(self) -> dict[str, Any]:
        """All that the rows depend on, but for the table's own."""
        columns = [[column.name, column.type] for column in self.table.columns]
        return {
            "name": self.table.name,
            "alias": self.alias,
            "columns": columns,
            "on": self.on.sql,
            "left": self.is_left,
        }


@dataclass(frozen=True)
class Step:
    """One SELECT over the rows before it, which it calls by `alias`.

    They are joined with tables, exploded, filtered, then projected.
    """

    alias: str
    columns: tuple[ViewColumn, ...]
    filters: tuple[Expr, ...] = ()
    explode: Explode | None = None
    tables: tuple[TableJoin, ...] = ()

    @property
    def is_bare(self) -> bool:
        """Whether it does no more than choose and rename columns."""
        more = self.filters or self.explode is not None or self.tables
        return not more and all(each.expr.is_column for each in self.columns)

    @property
    def leaves_out(self) -> bool:
        """Whether there may be rows of which it makes none."""
        explodes = self.explode is not None and not self.explode.is_outer
        return bool(self.filters) or explodes or any(not each.is_left for each in self.tables)

    def pretty(self) -> str:
        text = ", ".join(column.pretty() for column in self.columns)
        for each in self.tables:
            text += f" {each.pretty()}"
        if self.explode is not None:
            text += f" with {self.explode.pretty()}"
        return text + (
            f" where {' and '.join(expr.pretty() for expr in self.filters)}" if self.filters else ""
        )

    def to_json(self) -> dict[str, Any]:
        """All that its rows depend on."""
        exploded = self.explode
        tables = {"tables": [each.to_json() for each in self.tables]} if self.tables else {}
        return {
            **tables,
            "alias": self.alias,
            "columns": [[column.name, column.expr.sql] for column in self.columns],
            "filters": [expr.sql for expr in self.filters],
            "explode": None
            if exploded is None
            else [exploded.array.sql, exploded.alias, exploded.name, exploded.is_outer],
        }


@dataclass(frozen=True)
class Branch:
    """A declared stream, and the steps from its tuples to those of the view."""

    stream: Stream
    steps: tuple[Step, ...]

    @property
    def is_bare(self) -> bool:
        """Whether the view's columns are columns of the stream, and its tuples all of the stream's."""
        return all(step.is_bare for step in self.steps)

    @property
    def leaves_out(self) -> bool:
        return any(step.leaves_out for step in self.steps)

    def then(self, step: Step) -> Branch:
        """The branch with one more step."""
        return Branch(self.stream, (*self.steps, step))

    @property
    def tables(self) -> tuple[Stream, ...]:
        return tuple(each.table for step in self.steps for each in step.tables)

    def origin(self, column: str) -> str:
        """The stream's own name of a column; only of a branch that is bare."""
        for step in reversed(self.steps):
            named: Mapping[str, Expr] = {each.name: each.expr for each in step.columns}
            column = named[column].columns[0].column
        return column

    def pretty(self) -> str:
        text = " of ".join(step.pretty() for step in reversed(self.steps))
        first = self.steps[0].alias
        name = self.stream.name
        return f"{text} of {name}" if first == name else f"{text} of {name} AS {first}"

    def to_json(self) -> dict[str, Any]:
        return {"stream": self.stream.name, "steps": [step.to_json() for step in self.steps]}

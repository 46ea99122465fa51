"""What names mean inside one SELECT: its inputs, and the columns they bring."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from sqlglot import exp

from watersmeet.errors import Span, SqlError
from watersmeet.query import ANSWER_TIME, Column, ColumnRef, Expr, Input
from watersmeet.query.expression import quote_ref
from watersmeet.sql.syntax.refuse import Source, nearest, span_of, suggest
from watersmeet.sql.syntax.types import field_type


@dataclass(frozen=True)
class Reference:
    """A name in the text and what it stands for: `text` is what Spark reads in its place."""

    span: Span
    text: str
    columns: tuple[ColumnRef, ...]
    type: str | None
    uses_answer_time: bool = False


@dataclass(frozen=True)
class Scope:
    """The inputs of a SELECT by alias, the columns USING made one, and the answers HAVING may name.

    What is not found here is looked up in the scope `around`, as in a subquery. `unseen` says of inputs that
    have no columns here why that is so.
    """

    source: Source
    inputs: tuple[Input, ...]
    merged: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    outputs: Mapping[str, Expr] = field(default_factory=dict)
    around: Scope | None = None
    unseen: Mapping[str, str] = field(default_factory=dict)

    def naming(self, outputs: Mapping[str, Expr]) -> Scope:
        """The scope in which a name that is no column may be an answer's name."""
        return replace(self, outputs={name.lower(): expr for name, expr in outputs.items()})

    def input(self, alias: str) -> Input | None:
        return next((item for item in self.inputs if item.alias.lower() == alias.lower()), None)

    def input_around(self, alias: str) -> Input | None:
        """An input of this scope, or of the one around it."""
        return self.input(alias) or (self.around.input(alias) if self.around is not None else None)

    def input_with(self, table: str) -> Input | None:
        """The input with which FROM joins a table of this alias."""
        for item in self.inputs:
            besides = (item.stream.beside(column.name) for column in item.stream.columns)
            if any(each is not None and each[0].lower() == table.lower() for each in besides):
                return item
        return None

    def resolve(self, node: exp.Column) -> Reference:
        """What a column of the text stands for; refuses an unknown or ambiguous one."""
        parts = node.parts
        if isinstance(node.this, exp.Star):
            raise self.source.refuse(
                "a star cannot stand inside an expression", node, "Name a column, or write COUNT(*)."
            )
        if len(parts) == 1 and parts[0].name.lower() == ANSWER_TIME:
            return Reference(span_of(node), ANSWER_TIME, (), "timestamp", uses_answer_time=True)
        if self.around is not None and not self._knows(parts) and self.around._knows(parts):
            return self.around.resolve(node)
        qualifier = self.input(parts[0].name) if len(parts) > 1 else None
        if qualifier is not None:
            column = qualifier.stream.column(parts[1].name)
            if column is None:
                raise self._unknown_column(parts[1], qualifier)
            return self._reference(parts[:2], qualifier.alias, column, parts[2:])
        if len(parts) > 1 and (beside := self._of_table(parts[0].name, parts[1].name)) is not None:
            return self._reference(parts[:2], *beside, parts[2:])
        if len(parts) > 1 and (item := self.input_with(parts[0].name)) is not None:
            every = (item.stream.beside(column.name) for column in item.stream.columns)
            known = [each[1] for each in every if each and each[0].lower() == parts[0].name.lower()]
            problem = f"table {parts[0].name} has no column {parts[1].name}"
            raise self.source.refuse(problem, parts[1], suggest(parts[1].name, known, "column"))
        found = self._find(parts[0])
        if found is not None:
            return self._reference(parts[:1], *found, parts[1:])
        if len(parts) == 1 and parts[0].name.lower() in self.outputs:
            expr = self.outputs[parts[0].name.lower()]
            text = expr.sql if expr.is_column else f"({expr.sql})"
            return Reference(span_of(node), text, expr.columns, expr.type, expr.uses_answer_time)
        raise self._unknown_alias(parts[0]) if len(parts) > 1 else self._unknown_column(parts[0], None)

    def _knows(self, parts: list[exp.Expr]) -> bool:
        """Whether a name of so many parts begins with an input or a column of this scope."""
        by_alias = len(parts) > 1 and self.input(parts[0].name) is not None
        by_table = len(parts) > 1 and self._of_table(parts[0].name, parts[1].name) is not None
        return by_alias or by_table or bool(self._named(parts[0].name))

    def is_column(self, node: exp.Expr) -> bool:
        """Whether a bare name is a column of some input."""
        return self._find(node) is not None

    def owners(self, name: str) -> list[Input]:
        """The inputs that have a column of this name, those that USING made one counted once."""
        joined = self.merged.get(name.lower(), ())[1:]
        return [item for item in self.inputs if item.stream.column(name) and item.alias not in joined]

    def _named(self, name: str) -> list[tuple[str, str, Column]]:
        """The columns of a name: what each is written as, its input and the column itself."""
        found = [
            (f"{item.alias}.{name}", item.alias, column)
            for item in self.owners(name)
            if (column := item.stream.column(name)) is not None
        ]
        for item in self.inputs:
            for column in item.stream.columns:
                beside = item.stream.beside(column.name)
                if beside is not None and beside[1].lower() == name.lower():
                    found.append((f"{beside[0]}.{name}", item.alias, column))
        return found

    def _of_table(self, alias: str, name: str) -> tuple[str, Column] | None:
        """A column of a table that FROM joins with an input."""
        for item in self.inputs:
            column = item.stream.column(f"{alias}.{name}")
            if column is not None and item.stream.beside(column.name) is not None:
                return item.alias, column
        return None

    def written(self, ref: ColumnRef) -> tuple[str, str]:
        """The alias and the name by which a column is written, which may be those of a table."""
        item = self.input(ref.alias)
        beside = item.stream.beside(ref.column) if item is not None else None
        return beside or (ref.alias, ref.column)

    def _find(self, name: exp.Expr) -> tuple[str, Column] | None:
        found = self._named(name.name)
        if len(found) > 1:
            choices = [written for written, _, _ in found]
            raise self.source.refuse(
                f"column {name.name} is ambiguous", name, f"Write {', '.join(choices[:-1])} or {choices[-1]}."
            )
        return found[0][1:] if found else None

    def _reference(
        self, written: list[exp.Expr], alias: str, column: Column, fields: list[exp.Expr]
    ) -> Reference:
        ref = ColumnRef(alias, column.name)
        span = Span(span_of(written[0]).start, span_of(written[-1]).end)
        return Reference(
            span, quote_ref(ref), (ref,), field_type(column.type, (part.name for part in fields))
        )

    def _unknown_column(self, name: exp.Expr, owner: Input | None) -> SqlError:
        owners = [owner] if owner else list(self.inputs)
        known = list(dict.fromkeys(column.name for item in owners for column in item.stream.columns))
        close = nearest(name.name, known)
        if close and not owner:
            having = [item.alias for item in self.inputs if item.stream.column(close)]
            close = f"{having[0]}.{close}" if len(self.inputs) > 1 else close
        where = f"stream {owner.stream.name} has no column" if owner else "no stream here has a column"
        advice = f"Did you mean {close}?" if close else f"Columns: {', '.join(known)}."
        return self.source.refuse(f"{where} {name.name}", name, advice)

    def _unknown_alias(self, name: exp.Expr) -> SqlError:
        if name.name.lower() in self.unseen:
            return self.source.refuse(
                f"{name.name} cannot be named here", name, self.unseen[name.name.lower()]
            )
        renamed = [item.alias for item in self.inputs if item.stream.name.lower() == name.name.lower()]
        if renamed:
            advice = f"Stream {name.name} is called {' and '.join(renamed)} here."
        else:
            advice = suggest(name.name, [item.alias for item in self.inputs], "stream")
        return self.source.refuse(f"nothing in FROM is called {name.name}", name, advice)

"""What names mean inside one SELECT: its inputs, and the columns they bring."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from sqlglot import exp

from watersmeet.errors import Span, SqlError
from watersmeet.query import ANSWER_TIME, Column, ColumnRef, Expr, Input
from watersmeet.query.expression import quote_ref
from watersmeet.sql.syntax.refuse import Source, nearest, span_of, suggest
from watersmeet.sql.syntax.types import read_type, spell_type


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
    """The inputs of a SELECT by alias, the columns USING made one, and the answers HAVING may name."""

    source: Source
    inputs: tuple[Input, ...]
    merged: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    outputs: Mapping[str, Expr] = field(default_factory=dict)

    def naming(self, outputs: Mapping[str, Expr]) -> Scope:
        """The scope in which a name that is no column may be an answer's name."""
        return replace(self, outputs={name.lower(): expr for name, expr in outputs.items()})

    def input(self, alias: str) -> Input | None:
        return next((item for item in self.inputs if item.alias.lower() == alias.lower()), None)

    def resolve(self, node: exp.Column) -> Reference:
        """What a column of the text stands for; refuses an unknown or ambiguous one."""
        parts = node.parts
        if isinstance(node.this, exp.Star):
            raise self.source.refuse(
                "a star cannot stand inside an expression", node, "Name a column, or write COUNT(*)."
            )
        if len(parts) == 1 and parts[0].name.lower() == ANSWER_TIME:
            return Reference(span_of(node), ANSWER_TIME, (), "timestamp", uses_answer_time=True)
        qualifier = self.input(parts[0].name) if len(parts) > 1 else None
        if qualifier is not None:
            column = qualifier.stream.column(parts[1].name)
            if column is None:
                raise self._unknown_column(parts[1], qualifier)
            return self._reference(parts[:2], qualifier.alias, column, parts[2:])
        found = self._find(parts[0])
        if found is not None:
            return self._reference(parts[:1], *found, parts[1:])
        if len(parts) == 1 and parts[0].name.lower() in self.outputs:
            expr = self.outputs[parts[0].name.lower()]
            text = expr.sql if expr.is_column else f"({expr.sql})"
            return Reference(span_of(node), text, expr.columns, expr.type, expr.uses_answer_time)
        raise self._unknown_alias(parts[0]) if len(parts) > 1 else self._unknown_column(parts[0], None)

    def is_column(self, node: exp.Expr) -> bool:
        """Whether a bare name is a column of some input."""
        return self._find(node) is not None

    def owners(self, name: str) -> list[Input]:
        """The inputs that have a column of this name, those that USING made one counted once."""
        joined = self.merged.get(name.lower(), ())[1:]
        return [item for item in self.inputs if item.stream.column(name) and item.alias not in joined]

    def _find(self, name: exp.Expr) -> tuple[str, Column] | None:
        owners = self.owners(name.name)
        if len(owners) > 1:
            choices = [f"{item.alias}.{name.name}" for item in owners]
            raise self.source.refuse(
                f"column {name.name} is ambiguous", name, f"Write {', '.join(choices[:-1])} or {choices[-1]}."
            )
        column = owners[0].stream.column(name.name) if owners else None
        return (owners[0].alias, column) if column else None

    def _reference(
        self, written: list[exp.Expr], alias: str, column: Column, fields: list[exp.Expr]
    ) -> Reference:
        ref = ColumnRef(alias, column.name)
        span = Span(span_of(written[0]).start, span_of(written[-1]).end)
        return Reference(span, quote_ref(ref), (ref,), self._field_type(column.type, fields))

    def _field_type(self, name: str | None, fields: list[exp.Expr]) -> str | None:
        for part in fields:
            struct = read_type(name) if name and name.startswith("struct<") else None
            kinds = [
                item.args.get("kind")
                for item in (struct.expressions if struct else [])
                if item.name.lower() == part.name.lower()
            ]
            name = spell_type(kinds[0]) if kinds and isinstance(kinds[0], exp.DataType) else None
        return name

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
        renamed = [item.alias for item in self.inputs if item.stream.name.lower() == name.name.lower()]
        if renamed:
            advice = f"Stream {name.name} is called {' and '.join(renamed)} here."
        else:
            advice = suggest(name.name, [item.alias for item in self.inputs], "stream")
        return self.source.refuse(f"nothing in FROM is called {name.name}", name, advice)

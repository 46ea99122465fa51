"""ON conditions as the join evaluates them: comparisons of columns that Spark has computed, and connectives.

Which combinations match has to be known inside the join, where there is no Spark. So Spark computes, for
each tuple and before the join, all that can be computed of one input alone, and casts both sides of a
comparison to the type in which it would compare them. What is left are comparisons, AND, OR, NOT, IS, IN and
BETWEEN, and sums, differences, products and absolute values of whole numbers and of doubles, which mean the
same everywhere. A difference of times is brought to one side: b.ts - a.ts < t is b.ts < a.ts + t.

    a.v + 1 > b.v AND lower(b.name) = 'x'      columns  a: v + 1    b: v, lower(name) = 'x'

A tuple that is missing is not there to compute anything of. What is NULL whenever its columns are, is NULL
for it; anything else (`coalesce(b.v, 0)`) is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import sqlglot
from sqlglot import exp
from sqlglot.optimizer.simplify import simplify

from watersmeet.errors import QueryError
from watersmeet.kernel.outer.condition import (
    Both,
    Calculation,
    Comparison,
    Condition,
    Constant,
    Either,
    IsNull,
    IsTruth,
    Negation,
    Operand,
    Operator,
    Truth,
)
from watersmeet.query import Expr, Query
from watersmeet.query.expression import column_expr
from watersmeet.sql.binding.infer import infer_type
from watersmeet.sql.syntax.types import INTEGRALS, comparison_type, field_type

# What is NULL as soon as a column in it is.
_STRICT = (
    exp.Column,
    exp.Literal,
    exp.Null,
    exp.Interval,
    exp.Var,
    exp.Identifier,
    exp.Paren,
    exp.Cast,
    exp.DataType,
    exp.DataTypeParam,
    exp.Neg,
    exp.Add,
    exp.Sub,
    exp.Mul,
    exp.Div,
    exp.Mod,
    exp.IntDiv,
    exp.EQ,
    exp.NEQ,
    exp.LT,
    exp.LTE,
    exp.GT,
    exp.GTE,
    exp.Not,
    exp.Like,
    exp.Abs,
    exp.Lower,
    exp.Upper,
    exp.Trim,
    exp.Length,
    exp.Substring,
    exp.Floor,
    exp.Ceil,
    exp.Round,
    exp.Boolean,
)
_PLAIN_TYPES = ("string", "boolean", "date", "timestamp", "timestamp_ntz", "binary", "double", "float")
_NUMBERS = ("bigint", "double")
_CALCULATIONS = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Abs: "abs"}
_TIMES = ("timestamp", "timestamp_ntz")

_NODES = {
    Operator.EQUAL: exp.EQ,
    Operator.LESS: exp.LT,
    Operator.AT_MOST: exp.LTE,
    Operator.SAME: exp.NullSafeEQ,
}

# An input, an expression over it, and a type -> the name of a column.
ColumnFor = Callable[[str, Expr, str | None], str]


@dataclass(frozen=True)
class OnConditions:
    """Reads conditions of a query; `column_for` gives the columns of what Spark is to compute."""

    query: Query
    column_for: ColumnFor
    nullable: frozenset[str] = field(default=frozenset())  # inputs of which a combination may have no tuple

    def read(self, conditions: Sequence[Expr]) -> Condition | None:
        """Conditions that all have to hold, as one; None where there are none."""
        parts = tuple(self._condition(_parse(expr.sql), expr) for expr in conditions)
        if not parts:
            return None
        return parts[0] if len(parts) == 1 else Both(parts)

    def key(self, expr: Expr, type_: str | None) -> str:
        """The column of one side of an equality, cast to a type."""
        if not self._may_be_computed(_parse(expr.sql), expr.aliases):
            raise self._refusal(expr.sql, expr.sql, _WHEN_MISSING.format(alias=expr.aliases[0]))
        return self.column_for(expr.aliases[0], expr, type_)

    def _condition(self, node: exp.Expr, whole: Expr) -> Condition:
        aliases = _aliases(node)
        if not aliases:
            return self._constant(node, whole)
        if len(aliases) == 1 and self._may_be_computed(node, aliases):
            return Truth(self.column_for(aliases[0], self._expr(node), "boolean"))
        match node:
            case exp.Paren():
                return self._condition(node.this, whole)
            case exp.And():
                return Both((self._condition(node.left, whole), self._condition(node.right, whole)))
            case exp.Or():
                return Either((self._condition(node.left, whole), self._condition(node.right, whole)))
            case exp.Not():
                return Negation(self._condition(node.this, whole))
            case exp.Is():
                return self._is(node, whole)
            case exp.Between():
                low = self._compare(Operator.AT_MOST, node.args["low"], node.this, whole)
                return Both((low, self._compare(Operator.AT_MOST, node.this, node.args["high"], whole)))
            case exp.In() if node.expressions and not node.args.get("query"):
                each = [self._compare(Operator.EQUAL, node.this, one, whole) for one in node.expressions]
                return Either(tuple(each))
        return self._comparison(node, whole)

    def _constant(self, node: exp.Expr, whole: Expr) -> Constant:
        """A condition that reads no input, such as the 1 = 1 that programs write."""
        match simplify(node.copy(), dialect="spark").unnest():
            case exp.Boolean(this=value):
                return Constant(bool(value))
            case exp.Null():
                return Constant(None)
        raise self._refusal(node.sql(dialect="spark"), whole.sql, _NO_INPUT)

    def _comparison(self, node: exp.Expr, whole: Expr) -> Condition:
        match node:
            case exp.EQ():
                return self._compare(Operator.EQUAL, node.left, node.right, whole)
            case exp.NEQ():
                return Negation(self._compare(Operator.EQUAL, node.left, node.right, whole))
            case exp.NullSafeEQ():
                return self._compare(Operator.SAME, node.left, node.right, whole)
            case exp.NullSafeNEQ():
                return Negation(self._compare(Operator.SAME, node.left, node.right, whole))
            case exp.LT():
                return self._compare(Operator.LESS, node.left, node.right, whole)
            case exp.LTE():
                return self._compare(Operator.AT_MOST, node.left, node.right, whole)
            case exp.GT():
                return self._compare(Operator.LESS, node.right, node.left, whole)
            case exp.GTE():
                return self._compare(Operator.AT_MOST, node.right, node.left, whole)
        aliases = _aliases(node)
        why = _ONLY_COMPARISONS if len(aliases) > 1 else _WHEN_MISSING.format(alias=aliases[0])
        raise self._refusal(node.sql(dialect="spark"), whole.sql, why)

    def _is(self, node: exp.Is, whole: Expr) -> Condition:
        value = node.expression
        if isinstance(value, exp.Boolean):
            return IsTruth(self._condition(node.this, whole), bool(value.this))
        if not isinstance(value, exp.Null):
            raise self._refusal(node.sql(dialect="spark"), whole.sql, _OVER_SEVERAL)
        aliases = _aliases(node.this)
        if len(aliases) == 1 and self._may_be_computed(node.this, aliases):
            return IsNull(self.column_for(aliases[0], self._expr(node.this), self._type(node.this)))
        return IsTruth(self._condition(node.this, whole), None)

    def _compare(self, operator: Operator, left: exp.Expr, right: exp.Expr, whole: Expr) -> Condition:
        aliases = {*_aliases(left), *_aliases(right)}
        constant = next((side for side in (left, right) if not _aliases(side)), None)
        if constant is not None and operator is Operator.SAME:
            return self._same_as_constant(right if constant is left else left, constant, whole)
        if constant is not None and len(aliases) < 2:
            return self._compare_with_constant(operator, left, right, whole)
        left, right = self._without_difference(left, right)
        types = self._type(left), self._type(right)
        common = comparison_type(*types) if None not in types else None  # type: ignore[arg-type]
        text = f"{left.sql(dialect='spark')} {operator.value} {right.sql(dialect='spark')}"
        if common is None:
            raise self._refusal(text, whole.sql, _TYPES)
        if common not in (*_PLAIN_TYPES, *INTEGRALS) and not common.startswith("decimal"):
            raise self._refusal(text, whole.sql, f"{common} is not compared there")
        reads = _aliases(left) or _aliases(right), _aliases(right) or _aliases(left)
        one, other = (
            self._operand(node, common, whole, beside)
            for node, beside in zip((left, right), reads, strict=True)
        )
        return Comparison(operator, one, other)

    def _same_as_constant(self, node: exp.Expr, constant: exp.Expr, whole: Expr) -> Condition:
        """`node <=> constant`: with a tuple that is missing there is no column to hold the constant."""
        if isinstance(constant.unnest(), exp.Null):
            return self._condition(exp.Is(this=node, expression=exp.Null()), whole)
        if constant.find(exp.Null) or not all(isinstance(part, _STRICT) for part in constant.walk()):
            raise self._refusal(constant.sql(dialect="spark"), whole.sql, _NO_INPUT)
        return IsTruth(self._compare(Operator.EQUAL, node, constant, whole), True)

    def _compare_with_constant(
        self, operator: Operator, left: exp.Expr, right: exp.Expr, whole: Expr
    ) -> Condition:
        """A comparison that reads one input at the most, and so is Spark's to compute."""
        made = _NODES[operator](this=left.copy(), expression=right.copy())
        aliases = _aliases(made)
        if not aliases:
            return self._constant(made, whole)
        if not self._may_be_computed(made, aliases):
            text = (left if _aliases(left) else right).sql(dialect="spark")
            raise self._refusal(text, whole.sql, _WHEN_MISSING.format(alias=aliases[0]))
        return Truth(self.column_for(aliases[0], self._expr(made), "boolean"))

    def _without_difference(self, left: exp.Expr, right: exp.Expr) -> tuple[exp.Expr, exp.Expr]:
        """Both sides of a comparison, a difference of two times on one of them brought to the other."""
        for one, other, is_left in ((left, right, True), (right, left, False)):
            difference = one.unnest()
            if isinstance(difference, exp.Sub) and _is_interval(other):
                times = self._type(difference.left), self._type(difference.right)
                if times[0] == times[1] and times[0] in _TIMES:
                    later = exp.Add(this=difference.right.copy(), expression=other.copy())
                    return (difference.left, later) if is_left else (later, difference.left)
        return left, right

    def _operand(self, node: exp.Expr, type_: str, whole: Expr, beside: tuple[str, ...]) -> Operand:
        """A side of a comparison; one without a column is computed with the tuples of an input beside it."""
        aliases = _aliases(node) or beside[:1]
        text = node.sql(dialect="spark")
        if len(aliases) != 1:
            return self._calculation(node.unnest(), type_, whole, beside)
        if not self._may_be_computed(node, aliases):
            raise self._refusal(text, whole.sql, _WHEN_MISSING.format(alias=aliases[0]))
        return self.column_for(aliases[0], self._expr(node), type_)

    def _calculation(self, node: exp.Expr, type_: str, whole: Expr, beside: tuple[str, ...]) -> Calculation:
        """What is calculated of several inputs."""
        operator = next((text for kind, text in _CALCULATIONS.items() if isinstance(node, kind)), None)
        own = self._type(node)
        is_exact = own in _NUMBERS and type_ == own and "float" not in self._types_in(node).values()
        if operator is None or not is_exact:
            raise self._refusal(node.sql(dialect="spark"), whole.sql, _OVER_SEVERAL)
        assert own is not None
        parts = [node.left, node.right] if isinstance(node, exp.Binary) else [node.this]
        return Calculation(operator, tuple(self._operand(part, own, whole, beside) for part in parts))

    def _may_be_computed(self, node: exp.Expr, aliases: Sequence[str]) -> bool:
        """Whether an expression over one input is known, too, where the tuple is missing: as NULL."""
        return self.nullable.isdisjoint(aliases) or all(isinstance(part, _STRICT) for part in node.walk())

    def _expr(self, node: exp.Expr) -> Expr:
        bare = node.unnest()
        if isinstance(bare, exp.Column) and len(bare.parts) == 2:
            alias, name = (part.name for part in bare.parts)
            return column_expr(alias, name, self._type(bare))
        columns = tuple(
            ref
            for column in node.find_all(exp.Column)
            for ref in column_expr(column.parts[0].name, column.parts[1].name).columns
        )
        return Expr(node.sql(dialect="spark"), columns, self._type(node))

    def _type(self, node: exp.Expr) -> str | None:
        bare = node.unnest()
        if isinstance(bare, exp.Add | exp.Sub):
            left, right = self._type(bare.left), self._type(bare.right)
            for time, other in ((left, bare.right), (right, bare.left)):
                if time in _TIMES and isinstance(other.unnest(), exp.Interval):
                    return time
        return infer_type(node, self._types_in(node))

    def _types_in(self, node: exp.Expr) -> dict[int, str | None]:
        """The types of the columns in an expression, by the identity of their nodes."""
        types: dict[int, str | None] = {}
        for column in node.find_all(exp.Column):
            alias, name, *path = (part.name for part in column.parts)
            known = self.query.input(alias).stream.column(name)
            types[id(column)] = field_type(known.type, path) if known is not None else None
        return types

    def _refusal(self, text: str, whole: str, why: str) -> QueryError:
        within = f", in {whole}," if text != whole else ""
        return QueryError(f"the ON condition {text}{within} cannot decide which tuples match: {why}")


_OVER_SEVERAL = (
    "of several inputs the join only calculates sums, differences, products and absolute values, of whole "
    "numbers or of doubles. Bring what is of one input to one side of a comparison, as in "
    "lower(a.name) = lower(b.name)"
)
_ONLY_COMPARISONS = (
    "of several inputs it may only compare, with =, <>, <, <=, >, >=, <=>, BETWEEN or IN, "
    "put together by AND, OR and NOT. In an inner join, write it in WHERE"
)
_NO_INPUT = "it reads no input. Leave it out, or write TRUE or FALSE"
_WHEN_MISSING = (
    "{alias} may be missing there, and then this would have to be computed of nothing. "
    "Compare a column of {alias}, or ask whether it IS NULL"
)
_TYPES = "the types of its sides are not known, or not comparable. Write CAST(... AS ...) on both sides"


def _is_interval(node: exp.Expr) -> bool:
    bare = node.unnest()
    return isinstance(bare.this if isinstance(bare, exp.Neg) else bare, exp.Interval)


def _aliases(node: exp.Expr) -> tuple[str, ...]:
    """The inputs an expression reads, in order of appearance."""
    return tuple(dict.fromkeys(column.parts[0].name for column in node.find_all(exp.Column)))


@lru_cache(maxsize=1024)
def _parse(sql: str) -> exp.Expr:
    return sqlglot.parse_one(sql, dialect="spark")

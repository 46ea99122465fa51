"""A condition on event times as bounds on their differences.

Terms are event times, `answer_time` and intervals, put together by + and -. Each is taken as a sum of
instants and a length that lies between two numbers of microseconds:

    a.ts + INTERVAL 5 MINUTES    one a.ts, and 300,000,000 to 300,000,000
    a.ts + INTERVAL 1 MONTH      one a.ts, and 27 to 32 days

A length is inexact where Spark counts on a calendar: months, whole days (which in some time zones have 23
or 25 hours, and once had none), and differences of two TIMESTAMPs, which Spark takes between local times.
A bound takes the end that excludes less, so it never excludes what the condition allows. A condition that is
not understood gives no bound.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from itertools import pairwise

from sqlglot import exp

from watersmeet.query import ANSWER_TIME, DAY_US, parse_duration
from watersmeet.query.duration import unit_us
from watersmeet.sql.binding.scope import Scope
from watersmeet.sql.binding.time_conditions.bounds import Bound

_MONTHS = {"month": 1, "months": 1, "year": 12, "years": 12, "quarter": 3, "quarters": 3}
_WEEKS = ("week", "weeks")
_LONGEST_US = 2**62


@dataclass(frozen=True)
class _Term:
    """Instants, each so many times, and a length between two numbers of microseconds."""

    times: Mapping[str, int]
    low_us: int
    high_us: int
    kinds: frozenset[str] = frozenset()  # the types of the instants

    def plus(self, other: _Term, sign: int) -> _Term:
        times = dict(self.times)
        for name, count in other.times.items():
            times[name] = times.get(name, 0) + sign * count
        low, high = (other.low_us, other.high_us) if sign > 0 else (-other.high_us, -other.low_us)
        found = _Term(
            {name: count for name, count in times.items() if count},
            self.low_us + low,
            self.high_us + high,
            self.kinds | other.kinds,
        )
        return found._by_the_calendar() if _is_inexact(self, other, sign) else found

    def _by_the_calendar(self) -> _Term:
        return _Term(self.times, self.low_us - DAY_US, self.high_us + DAY_US, self.kinds)


def _is_inexact(one: _Term, other: _Term, sign: int) -> bool:
    """Whether the result depends on the time zone of the session."""
    if not (one.kinds | other.kinds) or (one.kinds | other.kinds) == {"timestamp_ntz"}:
        return False
    if one.times and other.times:
        return sign < 0
    length = other if one.times else one
    return max(abs(length.low_us), abs(length.high_us)) >= DAY_US


def find_bounds(scope: Scope, condition: exp.Expr) -> Iterator[Bound]:
    """The bounds that one condition implies; none of a condition on other things."""
    match condition:
        case exp.Between() if not condition.args.get("symmetric"):
            yield from _at_most(scope, condition.args["low"], condition.this)
            yield from _at_most(scope, condition.this, condition.args["high"])
        case exp.LTE() | exp.LT():  # that a bound is not reached saves a microsecond, and is ugly to read
            yield from _at_most(scope, condition.this, condition.expression)
        case exp.GTE() | exp.GT():
            yield from _at_most(scope, condition.expression, condition.this)
        case exp.EQ():
            for left, right in pairwise(_equal_terms(condition)):
                yield from _equal(scope, left, right)


def _equal_terms(condition: exp.Expr) -> list[exp.Expr]:
    """The terms of `x = y = z`."""
    terms: list[exp.Expr] = []
    while isinstance(condition, exp.EQ):
        terms.append(condition.expression)
        condition = condition.this
    return [condition, *reversed(terms)]


def _equal(scope: Scope, left: exp.Expr, right: exp.Expr) -> Iterator[Bound]:
    one, other = left.unnest(), right.unnest()
    if isinstance(one, exp.Tuple) and isinstance(other, exp.Tuple):
        if len(one.expressions) == len(other.expressions):
            for pair in zip(one.expressions, other.expressions, strict=True):
                yield from _equal(scope, *pair)
        return
    yield from _at_most(scope, left, right)
    yield from _at_most(scope, right, left)


def _at_most(scope: Scope, left: exp.Expr, right: exp.Expr) -> Iterator[Bound]:
    """The bound of `left <= right`."""
    one, other = _read(scope, left), _read(scope, right)
    if one is None or other is None or len(one.kinds | other.kinds) != 1:
        return  # a TIMESTAMP beside a TIMESTAMP_NTZ is compared in the time zone of the session
    difference = _Term(one.times, one.low_us, one.high_us).plus(
        _Term(other.times, other.low_us, other.high_us), -1
    )
    if sorted(difference.times.values()) != [-1, 1]:
        return
    (earlier, _), (later, _) = sorted(difference.times.items(), key=lambda item: item[1])
    yield Bound(later, earlier, -difference.low_us)


def _read(scope: Scope, node: exp.Expr) -> _Term | None:
    """A node as a term; None for anything else."""
    node = node.unnest()
    match node:
        case exp.Column():
            return _read_column(scope, node)
        case exp.Interval():
            return _read_interval(node)
        case exp.Add():
            return _combine(scope, node, 1)
        case exp.Sub():
            return _combine(scope, node, -1)
        case exp.Neg():
            read = _read(scope, node.this)
            return None if read is None or read.times else _Term({}, 0, 0).plus(read, -1)
        case exp.Mul():
            return _read_product(scope, node)
    return None


def _combine(scope: Scope, node: exp.Add | exp.Sub, sign: int) -> _Term | None:
    one, other = _read(scope, node.this), _read(scope, node.expression)
    if one is None or other is None:
        return None
    found = one.plus(other, sign)
    return found if max(abs(found.low_us), abs(found.high_us)) < _LONGEST_US else None


def _read_column(scope: Scope, node: exp.Column) -> _Term | None:
    reference = scope.resolve(node)
    if reference.uses_answer_time:
        return _Term({ANSWER_TIME: 1}, 0, 0, frozenset({"timestamp"}))
    (column,) = reference.columns
    item = scope.input_around(column.alias)
    if item is None or column.column != item.stream.event_time or reference.type is None:
        return None
    if reference.type not in ("timestamp", "timestamp_ntz"):
        return None
    return _Term({item.alias: 1}, 0, 0, frozenset({reference.type}))


def _read_product(scope: Scope, node: exp.Mul) -> _Term | None:
    """An interval so many times."""
    for length, count in ((node.this, node.expression), (node.expression, node.this)):
        factor = count.unnest()
        read = _read(scope, length) if isinstance(factor, exp.Literal) and factor.is_int else None
        if read is not None and not read.times:
            ends = sorted((read.low_us * int(factor.name), read.high_us * int(factor.name)))
            return _Term({}, ends[0], ends[1])
    return None


def _read_interval(node: exp.Interval) -> _Term | None:
    """The length of INTERVAL 5 MINUTES, INTERVAL '5' MINUTE or INTERVAL '1 hour 30 minutes'."""
    if not isinstance(node.this, exp.Literal):
        return None
    try:
        if node.unit is None:
            length = parse_duration(node.name)
            return _Term({}, length, length)
        count, unit = Decimal(node.name), node.unit.name.lower()
    except (InvalidOperation, ValueError, ArithmeticError):
        return None
    if not isinstance(node.unit, exp.Var) or not count.is_finite() or abs(count) > _LONGEST_US:
        return None
    if unit in _MONTHS and count == int(count):
        months = int(count) * _MONTHS[unit]
        ends = sorted((months * 28 * DAY_US, months * 31 * DAY_US))
        return _Term({}, ends[0], ends[1])
    one_us = 7 * DAY_US if unit in _WEEKS else unit_us(unit)
    if one_us is None:
        return None
    exact = count * one_us
    return _Term({}, math.floor(exact), math.ceil(exact))  # whichever way Spark rounds a fraction

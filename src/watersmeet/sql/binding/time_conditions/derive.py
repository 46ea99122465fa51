"""Windows for inputs that have none of their own, from the conditions on event times.

A derived window says how long tuples must be kept. It never decides what is an answer: the conditions do,
and they stay. It is at least as long as any answer needs, so no answer is lost. That holds only where the
lifetime of an answer does not matter, so DISTINCT and aggregates derive nothing.

Windows of time that are written bound the others too: under `a [RANGE 1 HOUR]` no tuple of an answer is more
than an hour later than that of a.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from sqlglot import exp

from watersmeet.query import Input, RangeWindow, TumbleWindow
from watersmeet.query.expression import ANSWER_TIME
from watersmeet.sql.binding.conditions import split_conjunction
from watersmeet.sql.binding.scope import Scope
from watersmeet.sql.binding.time_conditions.bounds import Bound, needed_us
from watersmeet.sql.binding.time_conditions.terms import find_bounds
from watersmeet.sql.syntax.windows import LONGEST

_SHORTEST_US = 1  # a window has a size; a microsecond too long costs nothing


def derive_windows(
    scope: Scope, conditions: Iterable[exp.Expr], open_aliases: Collection[str]
) -> tuple[Input, ...]:
    """The inputs, those of `open_aliases` under the windows that the conditions imply, if they do."""
    if not open_aliases or len(scope.inputs) < 2:
        return scope.inputs
    bounds = [
        bound for tree in conditions for part in split_conjunction(tree) for bound in find_bounds(scope, part)
    ]
    if not bounds:
        return scope.inputs
    bounds += [bound for item in scope.inputs for bound in window_bounds(item)]
    needed = needed_us([item.alias for item in scope.inputs], bounds)
    return tuple(
        with_window(item, needed[item.alias]) if item.alias in open_aliases and item.alias in needed else item
        for item in scope.inputs
    )


def with_window(item: Input, length_us: int) -> Input:
    """The input under a window as long as it is needed, if that is not too long for a window."""
    if length_us > LONGEST:
        return item
    return replace(item, window=RangeWindow(max(_SHORTEST_US, length_us)), is_derived=True)


def window_bounds(item: Input) -> list[Bound]:
    """How much later than this input's tuple an answer can be, by its own window."""
    match item.window:
        case RangeWindow(size):
            return [Bound(ANSWER_TIME, item.alias, size)]
        case TumbleWindow(size):
            return [Bound(ANSWER_TIME, item.alias, size - 1)]
        case _:
            return []

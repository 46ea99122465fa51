"""Windows that time conditions imply where joins are not all inner.

Which inputs an answer has decides which conditions hold of it: without b, none that names b does. So the
windows are derived for every set of inputs that a match or an answer may have. Each is as long as the longest
that any of these needs, so it never keeps a match away. And it decides for how long a tuple waits for one:

    a LEFT JOIN b ON a.k = b.k AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 1 HOUR

a waits for an hour and is answered with NULLs then; b is needed for no time at all.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from watersmeet.query import ANSWER_TIME, Input, JoinKind
from watersmeet.sql.binding.joins.drafts import Draft, Group, Leaf, Outer
from watersmeet.sql.binding.time_conditions.bounds import Bound, needed_us
from watersmeet.sql.binding.time_conditions.derive import window_bounds, with_window

_MOST_PATTERNS = 1024  # of more, no window is derived: a chain of outer joins doubles them with each


class _TooManyError(Exception):
    """There are more sets of inputs than are looked at."""


@dataclass(frozen=True)
class _Pattern:
    """Inputs that are together in a match or an answer, and the bounds that hold then."""

    aliases: frozenset[str]
    bounds: frozenset[Bound]


def derive_in_joins(
    draft: Draft, inputs: tuple[Input, ...], open_aliases: Collection[str], bounds: Iterable[Bound]
) -> tuple[Input, ...]:
    """The inputs, those of `open_aliases` under the windows that conditions imply, if they do.

    `bounds` are those of WHERE, which hold of every answer that has their inputs.
    """
    if not open_aliases:
        return inputs
    always = frozenset(bounds) | {bound for item in inputs for bound in window_bounds(item)}
    needed: dict[str, float] = {}
    try:
        for pattern in set(_matches(draft)):
            named = {item.alias for item in inputs if item.alias in pattern.aliases}
            holding = [
                bound
                for bound in pattern.bounds | always
                if {bound.later, bound.earlier} - named <= {ANSWER_TIME}
            ]
            lengths = needed_us(sorted(named), holding)
            for alias in named:
                needed[alias] = max(needed.get(alias, 0), lengths.get(alias, float("inf")))
    except _TooManyError:
        return inputs
    return tuple(
        with_window(item, int(needed[item.alias]))
        if item.alias in open_aliases and needed[item.alias] != float("inf")
        else item
        for item in inputs
    )


def _matches(draft: Draft) -> Iterator[_Pattern]:
    """Every set of inputs of a match anywhere in a draft, and of its answers."""
    yield from _answers(draft)
    match draft:
        case Group():
            for unit in draft.units:
                yield from _matches(unit)
        case Outer():
            yield from _together(_answers(draft.left), _answers(draft.right), draft.bounds)
            yield from _matches(draft.left)
            yield from _matches(draft.right)


def _answers(draft: Draft) -> set[_Pattern]:
    match draft:
        case Leaf():
            return {_Pattern(frozenset({draft.alias}), frozenset())}
        case Group():
            found = {_Pattern(frozenset(), frozenset(draft.bounds))}
            for unit in draft.units:
                found = _together(found, _answers(unit), ())
            return found
        case Outer():
            left, right = _answers(draft.left), _answers(draft.right)
            if draft.kind.hides_right:
                return left
            alone = right if draft.kind is JoinKind.FULL else set()
            return _few(_together(left, right, draft.bounds) | left | alone)


def _together(left: set[_Pattern], right: set[_Pattern], bounds: Iterable[Bound]) -> set[_Pattern]:
    if len(left) * len(right) > _MOST_PATTERNS:
        raise _TooManyError
    more = frozenset(bounds)
    return {
        _Pattern(one.aliases | other.aliases, one.bounds | other.bounds | more)
        for one in left
        for other in right
    }


def _few(patterns: set[_Pattern]) -> set[_Pattern]:
    if len(patterns) > _MOST_PATTERNS:
        raise _TooManyError
    return patterns

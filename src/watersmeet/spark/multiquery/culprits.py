"""Which of many queries are to blame for a failure that they share.

Whatever fails for a set of queries is tried again with each half of it, and so on: a few tries find one query
among thousands. A query is to blame if it fails by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass

from watersmeet.errors import WatersmeetError

Numbers = frozenset[int]  # of queries
Try = Callable[[Numbers], WatersmeetError | None]  # what makes these queries fail, or None


@dataclass(frozen=True)
class Blame:
    """Why a query cannot go on: by its own doing, by that of its sink, or of what it joins by."""

    reason: str
    is_sink: bool = False
    is_apart: bool = False  # it fails before the joins, so it cannot take part in them


def find_culprits(numbers: Set[int], attempt: Try) -> dict[int, WatersmeetError]:
    """The queries that fail by themselves, and what each of them says.

    >>> failure = WatersmeetError("divides by zero")
    >>> find_culprits({1, 2, 3, 4}, lambda some: failure if 3 in some else None)
    {3: WatersmeetError('divides by zero')}
    """
    failure = attempt(frozenset(numbers)) if numbers else None
    if failure is None:
        return {}
    if len(numbers) == 1:
        return dict.fromkeys(numbers, failure)
    return {
        number: said for half in _halves(numbers) for number, said in find_culprits(half, attempt).items()
    }


def find_refused(numbers: Set[int], attempt: Try) -> Numbers:
    """Of queries that a sink did not take together, those that it does not take: all, if it takes no half.

    >>> failure = WatersmeetError("value too long")
    >>> sorted(find_refused({1, 2, 3, 4}, lambda some: failure if 3 in some else None))
    [3]
    >>> sorted(find_refused({1, 2, 3, 4}, lambda some: failure))
    [1, 2, 3, 4]
    """
    if len(numbers) == 1:
        return frozenset(numbers)
    failing = [half for half in _halves(numbers) if attempt(half) is not None]
    if len(failing) == 1:
        return find_refused(failing[0], attempt)
    return frozenset(numbers) if failing else frozenset()


def _halves(numbers: Set[int]) -> tuple[Numbers, Numbers]:
    ordered = sorted(numbers)
    middle = len(ordered) // 2
    return frozenset(ordered[:middle]), frozenset(ordered[middle:])

"""Random tests must have something to compare: counts the cases with answers, and asserts their share."""

from __future__ import annotations

from collections.abc import Iterator, Sized
from contextlib import contextmanager


class AnsweredCases:
    """How many random cases there were, and how many of them had answers."""

    def __init__(self) -> None:
        self.cases = 0
        self.answered = 0

    def count(self, answers: Sized) -> None:
        """Counts a case in, given what the oracle answers."""
        self.cases += 1
        self.answered += len(answers) > 0


@contextmanager
def answers_in(share: float) -> Iterator[AnsweredCases]:
    """Asserts at its end that at least this share of the cases counted had answers."""
    counted = AnsweredCases()
    yield counted
    assert counted.cases > 0
    assert counted.answered >= share * counted.cases, f"{counted.answered} of {counted.cases} have answers"

"""The answers, as they arrive at the nodes that asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable

from watersmeet.lab.overlay.rjoin.messages import Answer
from watersmeet.lab.overlay.rjoin.query import Row
from watersmeet.query.values import canonical


class Answers:
    """The answers received for each query."""

    def __init__(self, keep: bool = True) -> None:
        self._keep = keep
        self._found: dict[int, list[Answer]] = {}
        self.counts: Counter[int] = Counter()

    def add(self, answer: Answer) -> None:
        self.counts[answer.query.number] += 1
        if self._keep:
            self._found.setdefault(answer.query.number, []).append(answer)

    @property
    def total(self) -> int:
        """Answers received, before the asking node removes duplicates."""
        return self.counts.total()

    def of(self, query: int) -> list[Row]:
        """A query's rows by the time they appear; of a DISTINCT query each value when it appears."""
        found = sorted(self._found.get(query, ()), key=lambda answer: (answer.t, answer.end))
        if found and found[0].query.distinct:
            return appearances(found)
        return [answer.row for answer in found]

    def received(self, query: int) -> list[Row]:
        """A query's rows as the nodes sent them."""
        return [answer.row for answer in self._found.get(query, ())]


def appearances(found: Iterable[Answer]) -> list[Row]:
    """Each value when it goes from absent to present, given answers in order of time."""
    rows: list[Row] = []
    present_until: dict[Hashable, int] = {}
    for answer in found:
        value = canonical(answer.row)
        until = present_until.get(value)
        if until is None or until < answer.t:
            rows.append(answer.row)
        present_until[value] = answer.end if until is None else max(until, answer.end)
    return rows

"""Random queries against the oracle: the tuples of a case, and a count of the cases that had answers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from watersmeet.oracle.oracle import MicroBatch, Tuple, bag
from watersmeet.query import Query

Case = tuple[Query, list[MicroBatch]]


def tuples_of(query: Query, batches: Sequence[MicroBatch]) -> dict[str, list[Tuple]]:
    """All tuples of the query's streams, whatever batch they came in."""
    return {
        stream.name: [tuple_ for batch in batches for tuple_ in batch.get(stream.name, ())]
        for stream in query.streams
    }


class Compared:
    """Compares bags of answers, and knows in how many cases there were any."""

    def __init__(self) -> None:
        self.cases = 0
        self.with_answers = 0

    def same(self, found: Iterable[Iterable[Any]], expected: Iterable[Iterable[Any]]) -> None:
        """Both are the same bag."""
        expected_bag = bag(expected)
        assert bag(found) == expected_bag
        self.cases += 1
        self.with_answers += bool(expected_bag)

    def assert_answers(self, share: float) -> None:
        """At least this share of the cases had answers to compare."""
        assert self.cases > 0
        assert self.with_answers >= share * self.cases, f"{self.with_answers} of {self.cases} had answers"

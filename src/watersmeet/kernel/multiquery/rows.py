"""What leaves a bucket of a shared dataflow, and what is counted on the way."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.kernel.columns.hashing import Hashes, combine_hashes, hash_column
from watersmeet.kernel.layout import ANSWER_END, ANSWER_TS
from watersmeet.kernel.routing.grid import coordinates, split
from watersmeet.query.shared_dataflow import TailTemplate

QUERY = "__query"  # int32: the number of the query that an answer is for
STANDS = "__stands"  # float32: how many results one stands for, where rows have been shed


@dataclass(frozen=True)
class Values:
    """Where the values of SELECT DISTINCT meet: under this name, at this level."""

    name: str
    level: int


@dataclass(frozen=True)
class SharedRows:
    """Rows for a relation of a later level (its name), values, or answers of all queries of one shape."""

    target: str | Values | TailTemplate
    table: pa.Table


@dataclass
class SharedCounts:
    """What one step of a bucket did."""

    indexed: dict[str, int] = field(default_factory=dict)  # tuples taken in, by feed
    late: dict[str, int] = field(default_factory=dict)  # tuples too late for every query, by stream
    results: int = 0  # made by joins
    stored: int = 0  # taken in from earlier levels: RJoin's rewritten queries
    probes: int = 0
    answers: dict[int, int] = field(default_factory=dict)  # by the query's number
    went: dict[str, int] = field(default_factory=dict)  # results that had a choice, by the relation taken
    found: int = 0  # answers of all queries as joins find them, whether or not they wait
    missed: float = 0.0  # answers not found because something was shed, as estimated
    shed: dict[str, int] = field(default_factory=dict)  # live rows removed, by relation
    left_out: int = 0  # values of DISTINCT that there was no room to remember

    def count_answers(self, numbers: npt.NDArray[np.int32]) -> None:
        """Counts answers in, given the query of each."""
        queries, counts = np.unique(numbers, return_counts=True)
        for query, count in zip(queries.tolist(), counts.tolist(), strict=True):
            self.answers[query] = self.answers.get(query, 0) + count


def route_values(batch: pa.RecordBatch, buckets: int) -> list[tuple[int, pa.RecordBatch]]:
    """(bucket, rows that go there by all their values, those of one query together); no part is empty."""
    if buckets == 1:
        return [(0, batch)]
    names = [name for name in batch.schema.names if name not in (ANSWER_TS, ANSWER_END)]
    return _split(batch, combine_hashes([hash_column(batch.column(name)) for name in names]), buckets)


def route_rows(batch: pa.RecordBatch, column: str, buckets: int) -> list[tuple[int, pa.RecordBatch]]:
    """(bucket, rows that go there by the value of a column); NULL goes nowhere, empty parts are left out."""
    key = batch.column(column)
    if key.null_count:
        batch = batch.filter(key.is_valid())
        key = batch.column(column)
    if not batch.num_rows:
        return []
    if buckets == 1:
        return [(0, batch)]
    return _split(batch, hash_column(key), buckets)


def _split(batch: pa.RecordBatch, hashes: Hashes, buckets: int) -> list[tuple[int, pa.RecordBatch]]:
    parts = split(batch, coordinates(hashes, buckets), buckets)
    return [(bucket, part) for bucket, part in enumerate(parts) if part.num_rows]

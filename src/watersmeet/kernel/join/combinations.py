"""Combinations of rows on their way to answers: partial ones, and complete ones with their payload."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
import pyarrow as pa

from watersmeet.kernel.columns.hash_index import Longs
from watersmeet.kernel.columns.hashing import Hashes, same_values
from watersmeet.kernel.columns.row_bytes import stretches
from watersmeet.kernel.layout import ANSWER_END, ANSWER_TS
from watersmeet.kernel.state.store import TupleStore

Stores = Mapping[str, TupleStore]

# Of memory for a partial combination while it is made, extended and compared; and for the row of each input.
PARTIAL_BYTES, ROW_BYTES = 104, 8
TIMES_BYTES = 16  # of the time and the end of an answer

Class = TypeVar("Class")  # a class of one query, or in a shared dataflow a member and its class


@dataclass(frozen=True)
class Partials(Generic[Class]):
    """Partial combinations: a row of each bound input, their lifetimes' overlap, hashes of bound classes."""

    rows: dict[str, Longs]
    max_ts: Longs
    min_end: Longs
    hashes: dict[Class, Hashes]

    def where(self, keep: np.ndarray) -> Partials[Class]:
        """Of complete combinations, whose hashes have served, those that are to be kept."""
        if keep.all():
            return self
        rows = {alias: numbers[keep] for alias, numbers in self.rows.items()}
        return Partials(rows, self.max_ts[keep], self.min_end[keep], {})

    def part(self, chosen: slice) -> Partials[Class]:
        """A stretch of complete combinations, whose hashes have served."""
        if chosen == slice(0, len(self.max_ts)):
            return self
        rows = {alias: numbers[chosen] for alias, numbers in self.rows.items()}
        return Partials(rows, self.max_ts[chosen], self.min_end[chosen], {})


def combinations_in(nbytes: int, probes: int) -> int:
    """How many partial combinations may be held at once after each of so many probes, within these bytes."""
    inputs = probes + 1
    return max(1, nbytes // ((PARTIAL_BYTES + ROW_BYTES * inputs) * max(1, probes)))


def in_blocks(
    stores: Stores,
    taken: Mapping[str, tuple[str, ...]],
    complete: Partials[Class],
    nbytes: int,
    widest: int,
) -> Iterator[Partials[Class]]:
    """Complete combinations in blocks of which these columns take at most so many bytes, or of one each.

    `widest` is what they take of any combination, at most.
    """
    parts = stretches(len(complete.max_ts), nbytes, widest, lambda: bytes_of(stores, taken, complete))
    return map(complete.part, parts)


def bytes_of(stores: Stores, taken: Mapping[str, tuple[str, ...]], complete: Partials[Class]) -> Longs:
    """How many bytes these columns take of each combination, with its times."""
    total = np.full(len(complete.max_ts), TIMES_BYTES)
    for alias, names in taken.items():
        total += stores[alias].row_bytes(names, complete.rows[alias])
    return total


def widest_of(stores: Stores, taken: Mapping[str, tuple[str, ...]]) -> int:
    """How many bytes these columns take of any combination, at most, with its times."""
    return TIMES_BYTES + sum(stores[alias].widest(names) for alias, names in taken.items())


def answer_columns(stores: Stores) -> dict[str, tuple[str, ...]]:
    """What answers are made of, with the keys to compare."""
    return {
        alias: tuple(dict.fromkeys([*(name for _, name in store.layout.keys), *store.layout.answered]))
        for alias, store in stores.items()
    }


def answers(stores: Stores, complete: Partials[int]) -> tuple[Partials[int], pa.Table]:
    """The combinations whose keys are truly equal, and their payload: probes compare parts of hashes."""
    columns: dict[str, pa.Array] = {}
    first: dict[int, pa.Array] = {}
    keep = np.ones(len(complete.max_ts), np.bool_)
    for alias, names in answer_columns(stores).items():
        store = stores[alias]
        taken = dict(zip(names, store.take(names, complete.rows[alias]), strict=True))
        for cls, name in store.layout.keys:
            if cls in first:
                keep &= same_values(first[cls], taken[name])
            else:
                first[cls] = taken[name]
        columns |= {f"{alias}.{name}": taken[name] for name in store.layout.answered}
    columns[ANSWER_TS], columns[ANSWER_END] = pa.array(complete.max_ts), pa.array(complete.min_end)
    table = pa.table(columns)
    return complete.where(keep), table if keep.all() else table.filter(pa.array(keep))


def missed_beside(stores: Stores, complete: Partials[int]) -> float:
    """How many answers were missed beside these, by the inclusion probabilities of their tuples."""
    known = [store.inclusion_probabilities(complete.rows[alias]) for alias, store in stores.items()]
    parts = [probabilities for probabilities in known if probabilities is not None]
    return float((1 / np.prod(parts, axis=0, dtype=np.float64) - 1).sum()) if parts else 0.0

"""Combinations of rows on their way to answers: partial ones, and complete ones with their payload."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
import pyarrow as pa

from watersmeet.kernel.columns.hash_index import Longs
from watersmeet.kernel.columns.hashing import Hashes, same_values
from watersmeet.kernel.layout import ANSWER_END, ANSWER_TS
from watersmeet.kernel.state.store import TupleStore

Stores = Mapping[str, TupleStore]


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


def answers(stores: Stores, complete: Partials[int]) -> tuple[Partials[int], pa.Table]:
    """The combinations whose keys are truly equal, and their payload: probes compare parts of hashes."""
    columns: dict[str, pa.Array] = {}
    first: dict[int, pa.Array] = {}
    keep = np.ones(len(complete.max_ts), np.bool_)
    for alias, store in stores.items():
        names = tuple(dict.fromkeys([*(name for _, name in store.layout.keys), *store.layout.payload]))
        taken = dict(zip(names, store.take(names, complete.rows[alias]), strict=True))
        for cls, name in store.layout.keys:
            if cls in first:
                keep &= same_values(first[cls], taken[name])
            else:
                first[cls] = taken[name]
        columns |= {f"{alias}.{name}": taken[name] for name in store.layout.payload}
    columns[ANSWER_TS], columns[ANSWER_END] = pa.array(complete.max_ts), pa.array(complete.min_end)
    table = pa.table(columns)
    return complete.where(keep), table if keep.all() else table.filter(pa.array(keep))


def missed_beside(stores: Stores, complete: Partials[int]) -> float:
    """How many answers were missed beside these, by the inclusion probabilities of their tuples."""
    known = [store.inclusion_probabilities(complete.rows[alias]) for alias, store in stores.items()]
    parts = [probabilities for probabilities in known if probabilities is not None]
    return float((1 / np.prod(parts, axis=0, dtype=np.float64) - 1).sum()) if parts else 0.0

"""Combinations of rows on their way to answers: partial ones, and complete ones with their payload."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
import pyarrow as pa

from watersmeet.kernel.hash_index import Longs
from watersmeet.kernel.hashing import Hashes, same_values
from watersmeet.kernel.layout import ANSWER_END, ANSWER_TS
from watersmeet.kernel.store import TupleStore

Stores = Mapping[str, TupleStore]


Class = TypeVar("Class")  # a class of one query, or in a ring a member and its class


@dataclass(frozen=True)
class Partials(Generic[Class]):
    """Partial combinations: a row of each bound input, their lives' overlap, hashes of bound classes."""

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


def verified(stores: Stores, partials: Partials[int]) -> Partials[int]:
    """The complete combinations whose keys are truly equal: probes compare parts of hashes."""
    keep = np.ones(len(partials.max_ts), np.bool_)
    first: dict[int, pa.Array] = {}
    for alias, store in stores.items():
        columns = store.take([name for _, name in store.layout.keys], partials.rows[alias])
        for cls, keys in zip(store.layout.classes, columns, strict=True):
            if cls in first:
                keep &= same_values(first[cls], keys)
            else:
                first[cls] = keys
    return partials.where(keep)


def answers(stores: Stores, complete: Partials[int]) -> pa.Table:
    """Complete combinations with their payload."""
    columns: dict[str, pa.Array] = {}
    for alias, store in stores.items():
        payload = store.layout.payload
        values = store.take(payload, complete.rows[alias]) if payload else []
        columns |= dict(zip([f"{alias}.{name}" for name in payload], values, strict=True))
    columns[ANSWER_TS], columns[ANSWER_END] = pa.array(complete.max_ts), pa.array(complete.min_end)
    return pa.table(columns)


def missed_beside(stores: Stores, complete: Partials[int]) -> float:
    """How many answers were missed for each of these, by the chance their tuples had to be here."""
    known = [store.chances(complete.rows[alias]) for alias, store in stores.items()]
    parts = [chances for chances in known if chances is not None]
    return float((1 / np.prod(parts, axis=0, dtype=np.float64) - 1).sum()) if parts else 0.0

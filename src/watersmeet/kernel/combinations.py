"""Combinations of rows on their way to answers: partial ones, and complete ones with their payload."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
import pyarrow as pa

from watersmeet.kernel.hash_index import Longs
from watersmeet.kernel.hashing import Hashes, is_exact, same_values
from watersmeet.kernel.layout import ANSWER_END, ANSWER_TS
from watersmeet.kernel.probing import Probe
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


def verified(
    stores: Stores,
    key_types: Mapping[int, pa.DataType],
    partials: Partials[int],
    sequence: tuple[Probe, ...],
) -> Partials[int]:
    """The complete combinations whose keys are truly equal."""
    return partials.where(_are_equal(stores, key_types, partials.rows, sequence))


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


def _are_equal(
    stores: Stores,
    key_types: Mapping[int, pa.DataType],
    rows: Mapping[str, Longs],
    sequence: tuple[Probe, ...],
) -> np.ndarray:
    """Whether the keys are truly equal, for the classes whose hashes could have collided."""
    keep = np.ones(len(next(iter(rows.values()))), np.bool_)
    combined = {cls for probe in sequence if len(probe.classes) > 1 for cls in probe.classes}
    for cls, type_ in key_types.items():
        if is_exact(type_) and cls not in combined:
            continue
        members = [(alias, store) for alias, store in stores.items() if cls in store.layout.classes]
        keys = [store.take([store.layout.key(cls)], rows[alias])[0] for alias, store in members]
        for other in keys[1:]:
            keep &= same_values(keys[0], other)
    return keep

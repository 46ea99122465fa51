"""The results of a ring's joins: verified, with their columns, on the way to later levels and to queries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from watersmeet.errors import DataError
from watersmeet.kernel.endings import EndingTable, Results
from watersmeet.kernel.hashing import Hashes, is_exact, same_values
from watersmeet.kernel.layout import ANSWER_TS, TS
from watersmeet.kernel.relation_store import RelationStore
from watersmeet.kernel.ring_level import RingLevel, behind_column
from watersmeet.kernel.ring_paths import Path, Place
from watersmeet.kernel.ring_rows import QUERY, RingCounts, RingRows
from watersmeet.kernel.slice import Longs
from watersmeet.query import ANSWER_TIME
from watersmeet.query.arrow_types import TIMESTAMP
from watersmeet.query.ring import END, SINCE

Stores = Mapping[str, RelationStore]


@dataclass(frozen=True)
class Partials:
    """Partial results: a row of each bound member, their lives' overlap, hashes by member and class."""

    rows: dict[str, Longs]
    max_ts: Longs
    min_end: Longs
    hashes: dict[tuple[str, int], Hashes]


@dataclass
class Found:
    """Complete results of one join that have not left yet."""

    join: str
    parts: list[Partials] = field(default_factory=list)


def verified(stores: Stores, path: Path, partials: Partials) -> Partials:
    """The complete results whose columns are truly equal."""
    pairs = [*path.verify]
    for left, right in path.verify_inexact:
        if not is_exact(stores[left[0]].type_of(left[1])):
            pairs.append((left, right))
    if not pairs:
        return partials
    keep = np.ones(len(partials.max_ts), np.bool_)
    for left, right in pairs:
        a, b = (_values(stores, place, partials) for place in (left, right))
        if pa.types.is_null(a.type) or pa.types.is_null(b.type):
            keep[:] = False
        elif a.type != b.type:
            raise DataError(f"{left[1]} is {a.type}, {right[1]} is {b.type}: they cannot be compared")
        else:
            keep &= same_values(a, b) & np.asarray(a.is_valid())
    if keep.all():
        return partials
    rows = {member: numbers[keep] for member, numbers in partials.rows.items()}
    return Partials(rows, partials.max_ts[keep], partials.min_end[keep], {})


def _values(stores: Stores, place: Place, partials: Partials) -> pa.Array:
    member, column = place
    return stores[member].take([column], partials.rows[member])[0]


class _Block:
    """Results of a join whose columns are gathered when they are asked for."""

    def __init__(self, plan: RingLevel, stores: Stores, found: Found) -> None:
        self.members = plan.members[found.join]
        self.ts: Longs = np.concatenate([part.max_ts for part in found.parts])
        self.ends: Longs = np.concatenate([part.min_end for part in found.parts])
        self._stores = stores
        self._rows = {
            member: np.concatenate([part.rows[member] for part in found.parts])
            for member in self.members.relations
        }
        self._columns: dict[Place, pa.Array] = {}

    def bring(self, places: Iterable[Place]) -> None:
        """Gathers columns, each member's at once."""
        missing: dict[str, list[str]] = {}
        for member, column in dict.fromkeys(places):
            if (member, column) not in self._columns:
                missing.setdefault(member, []).append(column)
        for member, columns in missing.items():
            values = self._stores[member].take(columns, self._rows[member])
            self._columns |= {(member, name): one for name, one in zip(columns, values, strict=True)}

    def at(self, place: Place) -> pa.Array:
        self.bring([place])
        return self._columns[place]

    def column(self, qualified: str) -> pa.Array:
        return self.at(self.members.place(qualified))

    def behind(self, member: str, column: str) -> Longs | None:
        """What the tuples of a slot are behind; None: nothing."""
        if column not in self._stores[member].columns:
            return None
        masks = np.asarray(self.at((member, column)).cast(pa.int64()).fill_null(0))
        return masks if masks.any() else None


def emit(plan: RingLevel, stores: Stores, found: Found, counts: RingCounts) -> Iterator[RingRows]:
    """What becomes of a join's results: rows of later relations, answers of the queries that end here."""
    block = _Block(plan, stores, found)
    counts.results += len(block.ts)
    later = plan.later.get(found.join, [])
    sinces = [(member, SINCE) for member in block.members.relations]
    sent = [block.members.place(name) for one in later for name in dict.fromkeys((*one.keys, *one.columns))]
    block.bring([*sinces, *sent])
    since: Longs = np.minimum.reduce([np.asarray(block.at(place)) for place in sinces])
    slots = plan.joins[found.join].slots
    behind = {slot: block.behind(*plan.behind_place(found.join, slot)) for slot in slots}
    if later:
        facts = {TS: pa.array(block.ts), END: pa.array(block.ends), SINCE: pa.array(since)}
        for slot, masks in behind.items():
            masks = np.zeros(len(since), np.int64) if masks is None else masks
            facts[behind_column(slot)] = pa.array(masks)
        for one in later:
            names = dict.fromkeys((*one.keys, *one.columns))
            yield RingRows(one.name, pa.table(facts | {name: block.column(name) for name in names}))
    masks_set = [masks for masks in behind.values() if masks is not None]
    results = Results(len(since), since, masks_set, block.column)
    for table in plan.tables.get(found.join, ()):
        for rows, endings in table.pairs(results):
            if len(rows):
                yield RingRows(table.shape, _answers(table, block, rows, endings, counts))


def _answers(table: EndingTable, block: _Block, rows: Longs, endings: Longs, counts: RingCounts) -> pa.Table:
    numbers = table.numbers[endings]
    counts.count_answers(numbers)
    shape = table.shape
    named = [(name, name) for name in shape.payload] if shape.needs_spark else list(shape.outputs or ())
    all_ = len(rows) == len(block.ts) and bool((rows == np.arange(len(rows))).all())
    chosen = None if all_ else pa.array(rows)
    times = pa.array(block.ts[rows])
    block.bring(block.members.place(column) for _, column in named if column != ANSWER_TIME)
    arrays = [
        times.cast(TIMESTAMP) if column == ANSWER_TIME else _taken(block.column(column), chosen)
        for _, column in named
    ]
    names = [QUERY, *(name for name, _ in named), ANSWER_TS]
    return pa.Table.from_arrays([pa.array(numbers), *arrays, times], names=names)


def _taken(column: pa.Array, chosen: pa.Array | None) -> pa.Array:
    return column if chosen is None else column.take(chosen)

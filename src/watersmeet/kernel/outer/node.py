"""A join of two sides of combinations: inner, left, full, semi or anti.

Guarantee: fed the combinations of both sides in any order, and after each step the earliest t that is still
to come from either, it yields every match exactly once, and every combination of a preserved side without a
match exactly once, as soon as nothing that is to come can overlap it.

A combination that arrives probes the other side, then becomes visible itself, so a match is found by the
later of the two. Each side is kept as long as the other can still bring something that overlaps it. If the
other side is a block, that is until the watermark has passed the end. If it is a node that brings rows for
want of a match, these come late, with lifetimes in the past: this side is kept longer for them (`delay_us`).

    LEFT, x at [0, 11), watermark 10, y at [10, 12): (x, y).    watermark 11 before any y: (x, NULL)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.errors import DataError
from watersmeet.kernel.columns.hash_index import Longs
from watersmeet.kernel.columns.hashing import same_values
from watersmeet.kernel.columns.row_bytes import stretches
from watersmeet.kernel.join.combinations import TIMES_BYTES, Partials, combinations_in, in_blocks, widest_of
from watersmeet.kernel.outer.condition import Condition, columns_of, holds
from watersmeet.kernel.outer.side import Combinations, Side, SideLayout
from watersmeet.kernel.state.arrivals import Arrivals
from watersmeet.kernel.state.chunks import PersistedChunk
from watersmeet.kernel.state.row_ends import EndsOf
from watersmeet.kernel.tuning import Tuning
from watersmeet.query import BEGINNING
from watersmeet.query.join_tree import JoinKind

LEFT, RIGHT = "left", "right"
WORD_BYTES = 8  # of a value that is missing
OTHER = {LEFT: RIGHT, RIGHT: LEFT}


@dataclass(frozen=True)
class JoinedSides:
    """What a node does: how it joins, by what, and which columns its combinations have."""

    kind: JoinKind
    sides: Mapping[str, SideLayout]
    condition: Condition | None
    columns: Mapping[str, tuple[str, ...]]  # of each side, that leave
    types: Mapping[str, pa.DataType] = field(default_factory=dict)  # of columns, as far as they are known


class NodeJoin:
    """One node's part in a bucket."""

    def __init__(self, plan: JoinedSides, tuning: Tuning) -> None:
        self.plan = plan
        self.sides = {name: Side(layout, tuning, plan.types) for name, layout in plan.sides.items()}
        self.least_ts = BEGINNING  # what is still to come has no earlier t
        self.probes = 0  # of the latest step
        self._tuning = tuning
        self._bounds = {LEFT: BEGINNING, RIGHT: BEGINNING}  # the same, of each side
        self._read = {name: self._columns_to_compare(name) for name in (LEFT, RIGHT)}
        self._key_types: dict[int, tuple[str, pa.DataType]] = {}  # by position, with whose key it is

    def settle(self, alias: str, ends_of: EndsOf) -> None:
        """Takes what has just become known of when tuples of an input end, by their positions."""
        for side in self.sides.values():
            side.settle(alias, ends_of)

    def feed(self, name: str, new: Combinations) -> Iterator[Combinations]:
        """Takes combinations of a side; yields what leaves because of them."""
        self._check_keys(name, new.columns)
        arrivals = self.sides[name].admit(new)
        if arrivals is None:
            return
        if len(arrivals):
            yield from self._match(name, arrivals)
            self.sides[name].index(arrivals)

    def close(self, bounds: Mapping[str, int]) -> Iterator[Combinations]:
        """Ends a step: no side brings anything before its bound any more."""
        self._bounds = {name: max(bounds[name], self._bounds[name]) for name in (LEFT, RIGHT)}
        for name, side in self.sides.items():
            unmatched = side.release(self._bounds[OTHER[name]])
            if self._leaves_alone(name):
                yield from self._alone(name, unmatched)
        known = [*self._bounds.values()]
        for name, side in self.sides.items():
            if self._leaves_alone(name) or (name == LEFT and self.plan.kind is JoinKind.SEMI):
                known.append(side.least_ts)
        self.least_ts = max(self.least_ts, min(known))
        for name, side in self.sides.items():
            side.expire(self._bounds[OTHER[name]])

    def persisted(self) -> list[PersistedChunk]:
        return [chunk for side in self.sides.values() for chunk in side.persisted()]

    def snapshot(self) -> dict[str, Any]:
        """What to persist beside the chunks, fit for JSON."""
        sides = {name: side.snapshot() for name, side in self.sides.items()}
        return {**sides, "bounds": [self._bounds[LEFT], self._bounds[RIGHT]], "least_ts": self.least_ts}

    def restore(self, snapshot: Mapping[str, Any], chunks: Iterable[PersistedChunk]) -> None:
        """Becomes the node that was persisted so."""
        everything = list(chunks)
        self._bounds = dict(zip((LEFT, RIGHT), snapshot["bounds"], strict=True))
        self.least_ts = snapshot["least_ts"]
        for name, side in self.sides.items():
            own = [chunk for chunk in everything if chunk.section.startswith(side.layout.section)]
            for chunk in (each for each in own if each.section == side.layout.section):
                self._check_keys(name, dict(zip(chunk.wide.schema.names, chunk.wide.columns, strict=True)))
            side.restore(snapshot[name], own, self._bounds[OTHER[name]])

    def _check_keys(self, name: str, columns: Mapping[str, pa.Array]) -> None:
        """Refuses keys of two types: equal values of them have hashes that differ, so none would be found."""
        for position, key in enumerate(self.sides[name].layout.keys):
            own = columns[key].type
            if pa.types.is_null(own):
                continue
            first, expected = self._key_types.setdefault(position, (key, own))
            if own != expected:
                raise DataError(f"the key {key} is {own}, {first} is {expected}: cast both to one type")

    def _leaves_alone(self, name: str) -> bool:
        """Whether what has no match leaves by itself."""
        return self.plan.kind.preserves_left if name == LEFT else self.plan.kind is JoinKind.FULL

    def _match(self, name: str, arrivals: Arrivals) -> Iterator[Combinations]:
        """What the matches of new rows of a side bring forth, in blocks of bounded size."""
        nbytes = self._tuning.block_bytes
        most, stores = combinations_in(nbytes, 1), {each: side.store for each, side in self.sides.items()}
        for start in range(0, len(arrivals), most):
            part = arrivals if most >= len(arrivals) else arrivals.pick(np.s_[start : start + most])
            self.probes += len(part)
            for found in self.sides[OTHER[name]].probe(part, most):
                pairs: Partials[int] = Partials(
                    {name: part.rows[found.probers], OTHER[name]: found.rows},
                    np.maximum(part.ts[found.probers], found.ts),
                    np.minimum(part.ends[found.probers], found.ends),
                    {},
                )
                del found
                widest = widest_of(stores, self._read)
                for block in in_blocks(stores, self._read, pairs, nbytes, widest):
                    yield from self._joined(block)

    def _joined(self, pairs: Partials[int]) -> Iterator[Combinations]:
        """What leaves because of these pairs, once it is clear which of them match."""
        taken: dict[str, pa.Array] = {}
        for name, columns in self._read.items():
            taken |= self.sides[name].take(columns, pairs.rows[name])
        keep = self._agree(taken, len(pairs.max_ts))
        if not keep.any():
            return
        pairs = pairs.where(keep)
        for name, side in self.sides.items():
            if side.marks is not None:
                newly = side.marks.mark(pairs.rows[name])
                if name == LEFT and self.plan.kind is JoinKind.SEMI:
                    yield from self._rows_of(LEFT, np.sort(newly))
        if self.plan.kind in (JoinKind.SEMI, JoinKind.ANTI):
            return
        leaving = [*self.plan.columns[LEFT], *self.plan.columns[RIGHT]]
        chosen = None if keep.all() else pa.array(keep)
        left = {name: taken[name] if chosen is None else taken[name].filter(chosen) for name in leaving}
        yield Combinations(pairs.max_ts, pairs.min_end, left)

    def _agree(self, taken: Mapping[str, pa.Array], rows: int) -> npt.NDArray[np.bool_]:
        """Which pairs have equal keys and meet the condition: probes compare parts of hashes."""
        keep = np.ones(rows, np.bool_)
        left, right = (self.sides[name].layout.keys for name in (LEFT, RIGHT))
        for one, other in zip(left, right, strict=True):
            a, b = taken[one], taken[other]
            keep &= same_values(a, b) & np.asarray(a.is_valid())
        if self.plan.condition is not None and keep.any():
            chosen = np.flatnonzero(keep)  # of the others nothing is to be calculated
            picked = {name: taken[name].take(pa.array(chosen)) for name in columns_of(self.plan.condition)}
            keep[chosen] = holds(self.plan.condition, picked.__getitem__, len(chosen))
        return keep

    def _alone(self, name: str, rows: Longs) -> Iterator[Combinations]:
        """Rows of a side that leave for want of a match, what is missing beside them."""
        for found in self._rows_of(name, rows):
            if self.plan.kind is JoinKind.ANTI:
                yield found
                continue
            other = OTHER[name]
            missing = {each: self._nulls(other, each, len(found)) for each in self.plan.columns[other]}
            yield Combinations(found.ts, found.ends, {**found.columns, **missing})

    def _rows_of(self, name: str, rows: Longs) -> Iterator[Combinations]:
        """Rows of a side with the columns that leave, in blocks of bounded size."""
        side, columns = self.sides[name], self.plan.columns[name]
        store, beside = side.store, TIMES_BYTES + WORD_BYTES * len(self.plan.columns[OTHER[name]])
        for part in stretches(
            len(rows),
            self._tuning.block_bytes,
            store.widest(columns) + beside,
            lambda: store.row_bytes(columns, rows) + beside,
        ):
            ts, ends = side.lifetimes(rows[part])
            yield Combinations(ts, ends, side.take(columns, rows[part]))

    def _nulls(self, name: str, column: str, rows: int) -> pa.Array:
        return pa.nulls(rows, self.sides[name].types.get(column, pa.null()))

    def _columns_to_compare(self, name: str) -> tuple[str, ...]:
        """What is taken of a side for each pair: its keys, what the condition reads, and what leaves."""
        layout = self.plan.sides[name]
        leaves = () if self.plan.kind.hides_right else self.plan.columns[name]
        return tuple(dict.fromkeys([*layout.keys, *layout.read, *leaves]))

"""Removing rows from stores of chunks until what holds them takes no more than its limit.

Of the live rows those of lowest priority go, as `policy` describes; here is how: how much each store may
keep, which rows of it stay, and how its chunks are made anew. Stores are those of a join's inputs, or the
relations of a level of a shared dataflow: what the two do not have in common is behind `Holder`.

Stores share the memory evenly, what one does not need going to the others. Much is removed at once, so the
cost a row is a constant: chunks are thinned, and the indexes of the store built again from them, exactly as
after a restart.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.kernel.columns.hash_index import Longs
from watersmeet.kernel.columns.hashing import Hashes
from watersmeet.kernel.layout import KEPT
from watersmeet.kernel.shedding.limit import Shed, StateLimit
from watersmeet.kernel.state.chunk import Chunk
from watersmeet.kernel.state.chunks import PersistedChunk
from watersmeet.kernel.state.store import TupleStore
from watersmeet.kernel.state.weighted_sample import (
    inclusion_probabilities,
    priorities,
    probabilities_of,
    with_probabilities,
)
from watersmeet.query.byte_size import split_evenly

SHED_TO = 0.85  # of the limit; the rest is room until the next time
SPARE = 0.95  # live rows up to this share of the limit stay when dropping expired rows is enough
REWRITE_SHARE = 0.125  # a chunk that would lose a smaller share of its rows is left as it is, if others do
ROUNDS = 40
PIECES = 8  # of the limit: what is taken of a batch at once
LEAST_BLOCK_BYTES = 1 << 19  # of combinations: smaller blocks cost more than they save

Floats = npt.NDArray[np.floating[Any]]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class Rows:
    """All rows a store holds, chunk after chunk in the order of their first event times."""

    name: str  # of the store
    chunks: tuple[Chunk, ...]
    owners: npt.NDArray[np.int32]  # the chunk of each row
    ts: Longs
    live: Mask
    remaining: Floats  # lifetime of each row
    nbytes: Floats  # of each row, with its part of the indexes
    span_us: int | None  # chunks whose event times are further apart than half of it are not merged

    @property
    def live_bytes(self) -> float:
        return float(self.nbytes[self.live].sum(dtype=np.float64))


class Holder(Protocol):
    """What holds the stores."""

    @property
    def used_bytes(self) -> int: ...

    @property
    def live_rows(self) -> int: ...

    @property
    def merge_rows(self) -> int:
        """Chunks up to this size are merged with their neighbours."""

    def names(self) -> list[str]:
        """The stores that hold anything."""

    def rows(self, name: str) -> Rows: ...

    def next_chunk(self, name: str) -> int: ...

    def random(self, rows: Rows) -> Floats:
        """A fixed number in [0, 1) for each row, independent between stores."""

    def weigh(self) -> Callable[[Rows], Floats]:
        """What tells how many matches to expect of the rows of a store."""

    def put_together(self, run: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
        """Parts of several chunks as one chunk."""

    def replace(self, name: str, chunks: list[PersistedChunk]) -> None:
        """Holds exactly these chunks in a store, as if it had been restored from them."""

    def lose(self, rows: Rows, lost: Mask) -> None:
        """Takes notice of the live rows that have gone; called after they have."""


@dataclass(frozen=True)
class _Choice:
    """Which rows of a store stay, and under `least` the inclusion probability of each."""

    keep: Mask
    probabilities: Floats | None = None


def rows_of(name: str, store: TupleStore, chunks: Sequence[Chunk], **facts: Any) -> Rows:
    """The rows of these chunks of a store; `facts` are the fields of `Rows` that it does not know itself."""
    index_bytes = store.used_index_bytes / max(1, store.indexed_rows)
    row_bytes = [chunk.nbytes / chunk.rows + index_bytes for chunk in chunks]
    sizes = np.array([chunk.rows for chunk in chunks])
    return Rows(
        name=name,
        chunks=tuple(chunks),
        owners=np.repeat(np.arange(len(chunks), dtype=np.int32), sizes),
        nbytes=np.repeat(np.array(row_bytes, np.float32), sizes),
        **facts,
    )


def fitting_block(limit: StateLimit, most: int) -> int:
    """How many bytes of combinations are made at once under a limit."""
    return min(most, max(limit.nbytes // PIECES, LEAST_BLOCK_BYTES))


def in_order(store: TupleStore) -> list[Chunk]:
    """The chunks of a store in the order in which they are thinned."""
    return sorted(store.chunks, key=lambda chunk: (chunk.min_ts, chunk.number))


def as_random(mixed: Hashes) -> Floats:
    """Hashes as numbers in [0, 1)."""
    return np.asarray((mixed >> np.uint64(40)).astype(np.float32) / np.float32(2**24))


def bring_under(holder: Holder, limit: StateLimit, beside: int = 0) -> None:
    """Removes rows until their holder and `beside` bytes take no more than the limit, or no row is left."""
    goal = SHED_TO * limit.nbytes - beside
    for number in range(ROUNDS):
        if holder.used_bytes + beside <= limit.nbytes or not holder.live_rows:
            break
        if limit.shed is Shed.NONE and number:
            break
        _remove(holder, limit, beside, goal, again=number > 0)
        goal *= 0.75  # what an index takes can be foreseen only roughly


def _remove(holder: Holder, limit: StateLimit, beside: int, goal: float, *, again: bool) -> None:
    """One round: drops expired rows, and as many live ones as the goal asks for.

    Stores are taken one after another, so that what is known of each row is in memory for one only.
    """
    names = holder.names()
    live_bytes = {name: holder.rows(name).live_bytes for name in names}
    fits = sum(live_bytes.values()) + beside <= SPARE * limit.nbytes and not again
    spared = fits or limit.shed is Shed.NONE
    parts = live_bytes if spared else split_evenly(live_bytes, goal)
    matches = holder.weigh() if limit.shed is Shed.LEAST and not spared else None
    for name in names:
        rows = holder.rows(name)
        choice = _Choice(rows.live)
        if live_bytes[name] > parts[name]:
            weights = None if matches is None else matches(rows) * rows.remaining
            choice = _choose(holder, limit.shed, rows, weights, parts[name])
        _thin(holder, rows, choice if again else _spare_chunks(rows, choice, parts[name]))


def _choose(holder: Holder, shed: Shed, rows: Rows, weights: Floats | None, nbytes: float) -> _Choice:
    """The live rows of highest priority that fit."""
    random = holder.random(rows)
    if weights is None:
        priority = rows.remaining if shed is Shed.OLDEST else random
        return _Choice(_highest(rows, priority, random, nbytes)[0])
    share = nbytes / rows.live_bytes
    keep, bound = _highest(rows, priorities(weights, random, share), random, nbytes)
    return _Choice(keep, inclusion_probabilities(weights, bound, share))


def _highest(rows: Rows, priority: Floats, ties: Floats, nbytes: float) -> tuple[Mask, float]:
    """The live rows of highest priority that fit, and the highest priority of the others.

    Not the order in which they lie decides between equal ones: it may be another when a batch is done again.
    """
    live = np.flatnonzero(rows.live)
    order = live[np.lexsort((-ties[live], -priority[live]))]
    fitting = int(np.searchsorted(np.cumsum(rows.nbytes[order], dtype=np.float64), nbytes, side="right"))
    keep = np.zeros(len(priority), np.bool_)
    keep[order[:fitting]] = True
    return keep, float(priority[order[fitting]]) if fitting < len(order) else 0.0


def _spare_chunks(rows: Rows, choice: _Choice, nbytes: float) -> _Choice:
    """Leaves chunks alone that have little to give, as long as the rest is enough."""
    sizes = np.bincount(rows.owners)
    known = choice.probabilities
    going = ~choice.keep if known is None else np.where(rows.live, 1 - known, 1)
    leaving = np.bincount(rows.owners, going, len(sizes))
    alone = (leaving < REWRITE_SHARE * sizes)[rows.owners]
    spared = choice.keep | alone
    if rows.nbytes[spared].sum(dtype=np.float64) > nbytes * (1 + REWRITE_SHARE):
        return choice
    judged = None if known is None else np.where(alone, np.float32(1), known)
    return _Choice(spared, judged)


def _thin(holder: Holder, rows: Rows, choice: _Choice) -> None:
    """Replaces the chunks that lose rows."""
    if not choice.keep.all():
        holder.replace(rows.name, _thinned(holder, rows, choice))
    lost = rows.live & ~choice.keep
    if lost.any():
        holder.lose(rows, lost)


def _thinned(holder: Holder, rows: Rows, choice: _Choice) -> list[PersistedChunk]:
    """The chunks that remain: whole ones under their number, the rest of neighbours merged under new ones."""
    number = holder.next_chunk(rows.name)
    remaining: list[PersistedChunk] = []
    run: list[pa.RecordBatch] = []
    since = 0
    for owner, chunk in enumerate(rows.chunks):
        mine = rows.owners == owner
        mask, is_sampled = choice.keep[mine], False
        if choice.probabilities is not None:
            is_sampled = bool((choice.probabilities[mine] < probabilities_of(chunk.held)).any())
        if mask.all() and not is_sampled:
            remaining.append(PersistedChunk(rows.name, chunk.number, chunk.held))
            continue
        if not mask.any():
            continue
        batch = chunk.batch
        if is_sampled and choice.probabilities is not None:
            batch = with_probabilities(batch, choice.probabilities[mine])
        size = sum(part.num_rows for part in run)
        too_long = rows.span_us is not None and abs(chunk.max_ts - since) > rows.span_us // 2
        if run and (too_long or size + np.count_nonzero(mask) > holder.merge_rows):
            remaining.append(PersistedChunk(rows.name, number, _joined(holder, run)))
            number, run = number + 1, []
        if not run:
            since = chunk.min_ts
        run.append(batch.filter(pa.array(mask)))
    if run:
        remaining.append(PersistedChunk(rows.name, number, _joined(holder, run)))
    return remaining


def _joined(holder: Holder, run: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Batches as one, though only some of them may know the inclusion probabilities of their rows."""
    known = [KEPT in batch.schema.names for batch in run]
    if any(known) and not all(known):
        run = [with_probabilities(batch, np.ones(batch.num_rows, np.float32)) for batch in run]
    return holder.put_together(run)

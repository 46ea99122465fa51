"""Removing tuples when a bucket's state outgrows its limit.

Whatever is removed, answers are a part of the right ones: each is still found by the last of its tuples to
arrive, if the others are there. Expired rows go first, and cost nothing. Of the live ones those with the
lowest *priority* go, which the policy gives:

    random   a fixed pseudo-random number of the tuple: what stays is a uniform sample of the window
    oldest   its remaining lifetime
    least    drawn by weight (`weighted_sample`): its remaining lifetime, times the number of live tuples that
             match it in each input next to it

A tuple's random number is a hash of its event time, its keys and its input, so a batch that is done again
sheds the same tuples, whatever the chunks they lie in; and as the same numbers stay, tuples that have once
been kept mostly stay, and old chunks need not be written anew.

Inputs share the memory so that the product of their kept shares is greatest (`plan.completeness`): equal
bytes each, but never more than one has. Much is removed at once, so the cost a tuple is a constant: the
input's chunks are thinned and its indexes built again from them, exactly as after a restart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.kernel.columns.hash_index import Longs
from watersmeet.kernel.columns.hashing import Hashes, combine_hashes, hash_column
from watersmeet.kernel.join.multiway import MultiwayJoin
from watersmeet.kernel.layout import POSITION, TS, InputLayout
from watersmeet.kernel.shedding.limit import Shed, StateLimit
from watersmeet.kernel.state.chunk import Chunk
from watersmeet.kernel.state.chunks import PersistedChunk
from watersmeet.kernel.state.weighted_sample import (
    inclusion_probabilities,
    priorities,
    probabilities_of,
    with_probabilities,
)
from watersmeet.query.byte_size import split_evenly

SHED_TO = 0.85  # of the limit; the rest is room until the next time
SPARE = 0.95  # live tuples up to this share of the limit stay when dropping expired rows is enough
REWRITE_SHARE = 0.125  # a chunk that would lose a smaller share of its rows is left as it is, if others do
ROUNDS = 40

Floats = npt.NDArray[np.float32]
Mask = npt.NDArray[np.bool_]
Shares = tuple[tuple[int, ...], np.uint64, npt.NDArray[np.int64]]  # classes, mask of the hash, counts by it


@dataclass(frozen=True, kw_only=True)
class _Rows:
    """All rows an input holds, chunk after chunk in the order of their first event times."""

    layout: InputLayout
    chunks: tuple[Chunk, ...]
    owners: npt.NDArray[np.int32]  # the chunk of each row
    ts: Longs
    positions: Longs | None
    live: Mask
    remaining: Floats  # lifetime of each row
    nbytes: Floats  # of each row, with its part of the indexes

    @property
    def live_bytes(self) -> float:
        return float(self.nbytes[self.live].sum(dtype=np.float64))

    def hashes(self, classes: Sequence[int]) -> Hashes:
        keys = [[hash_column(chunk.column(self.layout.key(cls))) for chunk in self.chunks] for cls in classes]
        return combine_hashes([np.concatenate(parts) for parts in keys])


@dataclass(frozen=True)
class _Choice:
    """Which rows of an input stay, and under `least` the inclusion probability of each."""

    keep: Mask
    probabilities: Floats | None = None


def bring_under(join: MultiwayJoin, limit: StateLimit, beside: int = 0) -> dict[str, Longs]:
    """Removes tuples until a join and `beside` bytes take no more than the limit.

    Returns the event times (or row positions, under a ROWS window) of the live ones among them, by alias.
    """
    lost: dict[str, Longs] = {}
    goal = SHED_TO * limit.nbytes - beside
    for number in range(ROUNDS):
        if join.used_bytes + beside <= limit.nbytes or not join.live_rows:
            break
        if limit.shed is Shed.NONE and number:
            break
        for alias, positions in _remove(join, limit, beside, goal, again=number > 0).items():
            lost[alias] = np.concatenate([lost[alias], positions]) if alias in lost else positions
        goal *= 0.75  # what an index takes can be foreseen only roughly
    return lost


def _remove(
    join: MultiwayJoin, limit: StateLimit, beside: int, goal: float, *, again: bool
) -> dict[str, Longs]:
    """One round: drops expired tuples, and as many live ones as the goal asks for.

    Inputs are taken one after another, so that what is known of each row is in memory for one only.
    """
    aliases = [alias for alias, store in join.stores.items() if store.chunks]
    live_bytes = {alias: _rows_of(join, alias).live_bytes for alias in aliases}
    fits = sum(live_bytes.values()) + beside <= SPARE * limit.nbytes and not again
    spared = fits or limit.shed is Shed.NONE
    parts = live_bytes if spared else split_evenly(live_bytes, goal)
    counts = _count_keys(join, aliases) if limit.shed is Shed.LEAST and not spared else None
    lost = {}
    for number, alias in enumerate(aliases):
        rows = _rows_of(join, alias)
        choice = _Choice(rows.live)
        if live_bytes[alias] > parts[alias]:
            weights = None if counts is None else _expected_matches(rows, counts) * rows.remaining
            choice = _choose(limit.shed, number, rows, weights, parts[alias])
        positions = _thin(join, rows, choice if again else _spare_chunks(rows, choice, parts[alias]))
        if len(positions):
            lost[alias] = positions
    return lost


def _rows_of(join: MultiwayJoin, alias: str) -> _Rows:
    store, layout = join.stores[alias], join.layout.of(alias)
    chunks = tuple(sorted(store.chunks, key=lambda chunk: (chunk.min_ts, chunk.number)))
    sizes = np.array([chunk.rows for chunk in chunks])
    index_bytes = store.used_index_bytes / max(1, store.indexed_rows)
    row_bytes = [chunk.nbytes / chunk.rows + index_bytes for chunk in chunks]
    ts = _column(chunks, TS)
    positions = _column(chunks, POSITION) if layout.window.numbers_rows else None
    first = int(ts.min())
    if positions is not None:
        remaining = layout.window.expires_at(positions) - store.newest_position
    elif not layout.window.is_bounded:
        remaining = ts - (first - 1)  # none ever expires: then the newer ones count as longer
    else:
        remaining = layout.window.expires_at(ts) - max(join.watermark, first - 1)
    live = remaining > 0
    if join.layout.delayed:
        live |= ts >= join.watermark  # they still wait to be joined
    return _Rows(
        layout=layout,
        chunks=chunks,
        owners=np.repeat(np.arange(len(chunks), dtype=np.int32), sizes),
        ts=ts,
        positions=positions,
        live=live,
        remaining=np.maximum(remaining, 1).astype(np.float32),
        nbytes=np.repeat(np.array(row_bytes, np.float32), sizes),
    )


def _column(chunks: tuple[Chunk, ...], name: str) -> Longs:
    return np.concatenate([np.asarray(chunk.column(name)) for chunk in chunks])


def _choose(shed: Shed, number: int, rows: _Rows, weights: Floats | None, nbytes: float) -> _Choice:
    """The live rows of highest priority that fit."""
    if weights is None:
        priority = rows.remaining if shed is Shed.OLDEST else _random(number, rows)
        return _Choice(_highest(rows, priority, nbytes)[0])
    share = nbytes / rows.live_bytes
    keep, bound = _highest(rows, priorities(weights, _random(number, rows), share), nbytes)
    return _Choice(keep, inclusion_probabilities(weights, bound, share))


def _random(number: int, rows: _Rows) -> Floats:
    """A fixed number in [0, 1) for each tuple, independent between inputs."""
    own = np.full(len(rows.ts), number + 1, np.uint64)
    mixed = combine_hashes([own, rows.ts.view(np.uint64)])
    if rows.layout.classes:
        mixed = combine_hashes([mixed, rows.hashes(rows.layout.classes)])
    return np.asarray((mixed >> np.uint64(40)).astype(np.float32) / np.float32(2**24))


def _count_keys(join: MultiwayJoin, aliases: Sequence[str]) -> dict[str, list[Shares]]:
    """For each input, how many live tuples of each input next to it have which keys, by hash."""
    layouts = {alias: join.layout.of(alias) for alias in aliases}
    tables: dict[tuple[str, tuple[int, ...]], Shares] = {}
    beside: dict[str, list[Shares]] = {alias: [] for alias in aliases}
    for other in aliases:
        rows = _rows_of(join, other)
        for alias in aliases:
            common = tuple(cls for cls in layouts[alias].classes if cls in layouts[other].classes)
            if alias == other or not common:
                continue
            if (other, common) not in tables:
                found = rows.hashes(common)[rows.live]
                mask = np.uint64((1 << max(10, (2 * len(found)).bit_length())) - 1)
                counts = np.bincount((found & mask).view(np.int64), minlength=int(mask) + 1)
                tables[other, common] = (common, mask, counts)
            beside[alias].append(tables[other, common])
    return beside


def _expected_matches(rows: _Rows, counts: Mapping[str, list[Shares]]) -> Floats:
    """For each row, the product over the inputs next to it of how many live tuples have its keys there."""
    product = np.ones(len(rows.ts), np.float32)
    for classes, mask, table in counts[rows.layout.alias]:
        entries = (rows.hashes(classes) & mask).view(np.int64)
        product *= table[entries].astype(np.float32) + np.float32(0.25)  # not seen yet is not never
    return product


def _highest(rows: _Rows, priority: Floats, nbytes: float) -> tuple[Mask, float]:
    """The live rows of highest priority that fit, and the highest priority of the others."""
    live = np.flatnonzero(rows.live)
    order = live[np.argsort(-priority[live], kind="stable")]
    fitting = int(np.searchsorted(np.cumsum(rows.nbytes[order], dtype=np.float64), nbytes, side="right"))
    keep = np.zeros(len(priority), np.bool_)
    keep[order[:fitting]] = True
    return keep, float(priority[order[fitting]]) if fitting < len(order) else 0.0


def _spare_chunks(rows: _Rows, choice: _Choice, nbytes: float) -> _Choice:
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


def _thin(join: MultiwayJoin, rows: _Rows, choice: _Choice) -> Longs:
    """Replaces the chunks that lose rows; the times or row positions of the live tuples lost."""
    if not choice.keep.all():
        join.replace_chunks(rows.layout.alias, _thinned(join, rows, choice))
    return (rows.ts if rows.positions is None else rows.positions)[rows.live & ~choice.keep]


def _thinned(join: MultiwayJoin, rows: _Rows, choice: _Choice) -> list[PersistedChunk]:
    """The chunks that remain: whole ones under their number, the rest of neighbours merged under new ones."""
    alias, store = rows.layout.alias, join.stores[rows.layout.alias]
    duration, number = rows.layout.window.duration_us, store.next_chunk
    remaining: list[PersistedChunk] = []
    run: list[pa.RecordBatch] = []
    since = 0
    for owner, chunk in enumerate(rows.chunks):
        mine = rows.owners == owner
        mask, is_sampled = choice.keep[mine], False
        if choice.probabilities is not None:
            is_sampled = bool((choice.probabilities[mine] < probabilities_of(chunk.held)).any())
        if mask.all() and not is_sampled:
            remaining.append(PersistedChunk(alias, chunk.number, chunk.held))
            continue
        if not mask.any():
            continue
        batch = chunk.batch
        if is_sampled and choice.probabilities is not None:
            batch = with_probabilities(batch, choice.probabilities[mine])
        size = sum(part.num_rows for part in run)
        too_long = duration is not None and abs(chunk.max_ts - since) > duration // 2
        if run and (too_long or size + np.count_nonzero(mask) > join.tuning.merge_rows):
            remaining.append(PersistedChunk(alias, number, _joined(run)))
            number, run = number + 1, []
        if not run:
            since = chunk.min_ts
        run.append(batch.filter(pa.array(mask)))
    if run:
        remaining.append(PersistedChunk(alias, number, _joined(run)))
    return remaining


def _joined(run: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Batches as one, though only some of them know the inclusion probabilities of their rows."""
    if any(batch.schema != run[0].schema for batch in run):
        run = [with_probabilities(batch, np.ones(batch.num_rows, np.float32)) for batch in run]
    return pa.concat_batches(run)

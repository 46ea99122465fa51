"""The incremental multi-way window join of one bucket.

Guarantee: fed micro-batches of tuples and a watermark after each, it yields every combination that satisfies
the join graph and whose lifetimes overlap exactly once, whatever the cut into batches and the disorder within
the lateness bound. Each combination is found by its *head*: of its tuples in the current batch, the one whose
input comes last. For that, the inputs of a batch are taken in order: the new tuples of an input first probe
the others (all old tuples, and new ones of earlier inputs), then become visible themselves.

    old: a1   new: b1, c1 (all one key)    b1 probes a, c: no c yet.  c1 probes a, b: (a1, b1, c1)

Cost follows the new tuples and the answers: probes go through hash indexes of time slices, expiry drops whole
slices and chunks. Keys are compared by parts of their hashes on the way, and by value once a combination is
complete.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa

from watersmeet.errors import DataError
from watersmeet.kernel.columns.hash_index import Longs
from watersmeet.kernel.columns.hashing import Hashes, combine_hashes, hash_column
from watersmeet.kernel.join.combinations import (
    Partials,
    answer_columns,
    answers,
    combinations_in,
    in_blocks,
    missed_beside,
    widest_of,
)
from watersmeet.kernel.join.pieces import cells, in_time_order
from watersmeet.kernel.join.probing import Probe, ProbingOrder
from watersmeet.kernel.join.snapshot import Snapshot
from watersmeet.kernel.join.step_counts import StepCounts
from watersmeet.kernel.join.value_groups import Sequence, ValueGroups
from watersmeet.kernel.late_payload import LatePayload
from watersmeet.kernel.layout import POSITION, REF, TS, JoinLayout, check_chunk
from watersmeet.kernel.progress.row_numbers import NO_POSITIONS, RowPositions
from watersmeet.kernel.state.arrivals import Arrivals, concat_arrivals
from watersmeet.kernel.state.chunk import Chunk
from watersmeet.kernel.state.chunks import PersistedChunk, fit_chunk
from watersmeet.kernel.state.row_ends import EndsOf
from watersmeet.kernel.state.slice import ends_from_positions
from watersmeet.kernel.state.version_store import store_of
from watersmeet.kernel.tuning import DEFAULT_TUNING, Tuning
from watersmeet.query import BEGINNING, NEVER


class MultiwayJoin:
    """One bucket's join: `step` takes a micro-batch and yields answers, `persisted` is what to keep."""

    def __init__(
        self,
        layout: JoinLayout,
        initial_order: Mapping[str, tuple[str, ...]] | None = None,
        tuning: Tuning = DEFAULT_TUNING,
    ) -> None:
        self.layout = layout
        self.tuning = tuning
        self.watermark = BEGINNING
        self.counts = StepCounts()
        self.arrived: Mapping[str, Arrivals] = {}  # what became visible in the latest step
        self.settled: Mapping[str, EndsOf] = {}  # what the latest step knows of tuples that answers have
        self.block_bytes = tuning.block_bytes  # of combinations, and of a table of answers
        classes = {item.alias: item.classes for item in layout.inputs}
        self.order = ProbingOrder(classes, initial_order or {}, tuning.sample_every)
        self.groups = ValueGroups(self.order, tuning)
        self.stores = {item.alias: store_of(item, tuning) for item in layout.inputs}
        self._pending: dict[str, list[Arrivals]] = {item.alias: [] for item in layout.inputs}
        self._key_types: dict[int, pa.DataType] = {}
        self._steps = 0

    def step(
        self,
        new: Mapping[str, pa.RecordBatch],
        watermark: int,
        positions: Mapping[str, RowPositions] | None = None,
        late: LatePayload | None = None,
    ) -> Iterator[pa.Table]:
        """Joins a micro-batch, yielding answers in blocks, then moves to the watermark at its end.

        Tuples before the previous watermark are late: dropped and counted. The iterator must be exhausted.
        `late` brings the payload of chunks that came with references in its place.
        """
        self.counts = StepCounts()
        positions = positions or {}
        added = {
            alias: self._admit(alias, batch, positions.get(alias, NO_POSITIONS))
            for alias, batch in new.items()
        }
        for alias, known in positions.items():
            self.stores[alias].settle_positions(known.first, known.ts)
        ready = self.arrived = self._release(added, max(watermark, self.watermark))
        stores = self.stores.items()
        self.settled = {alias: each.settled for alias, each in stores if each.layout.follows and each.settled}
        found = self._find(ready)
        if late is not None and any(REF in batch.schema.names for batch in new.values()):
            found = self._with_payload(found, max(watermark, self.watermark), late)
        taken = answer_columns(self.stores)
        for complete in found:
            widest = widest_of(self.stores, taken)
            for block in in_blocks(self.stores, taken, complete, self.block_bytes, widest):
                sure, table = answers(self.stores, block)
                if table.num_rows:
                    self.counts.answers += table.num_rows
                    self.counts.missed += missed_beside(self.stores, sure)
                    yield table
                    del table  # it is large
        self.watermark = max(watermark, self.watermark)
        self._expire()
        self._drop_unused_indexes()

    def snapshot(self) -> Snapshot:
        """What to persist beside the chunks."""
        return Snapshot(
            self.watermark,
            {alias: store.next_chunk for alias, store in self.stores.items()},
            {
                alias: store.newest_position
                for alias, store in self.stores.items()
                if store.newest_position >= 0
            },
            {alias: store.next_row for alias, store in self.stores.items()},
            {alias: {str(c.number): c.start for c in store.chunks} for alias, store in self.stores.items()},
        )

    def persisted(self) -> list[PersistedChunk]:
        """The chunks that a state store must hold; their section is the input's alias."""
        return [
            PersistedChunk(alias, chunk.number, chunk.held)
            for alias, store in self.stores.items()
            for chunk in store.chunks
        ]

    def catch_up(self, snapshot: Snapshot, chunks: Iterable[PersistedChunk]) -> None:
        """Becomes the join that was persisted so, of which this one is an earlier state.

        A row has the same number in both, whatever chunk it is in by now, so what is known here needs no
        index again. ROWS windows have no way back: ends that were decided meanwhile are not in the chunks.
        """
        self.watermark = snapshot.watermark
        held: dict[str, list[PersistedChunk]] = {alias: [] for alias in self.stores}
        for one in chunks:
            held[one.section].append(one)
        for alias, store in self.stores.items():
            store.newest_position = snapshot.newest_position.get(alias, -1)
            new, self._pending[alias] = self._pending[alias], []
            starts, known = snapshot.starts[alias], store.next_row
            before = {chunk.number: chunk for chunk in store.chunks}
            store.chunks = []
            for one in sorted(held[alias], key=lambda one: starts[str(one.number)]):
                if one.number in before:
                    store.chunks.append(before[one.number])
                    continue
                batch = fit_chunk(store.layout, one.batch)
                chunk = self._keep(alias, batch, one.number, starts[str(one.number)])
                if chunk.stop > known:
                    new.append(self._arrivals(alias, chunk, known))
            if store.layout.window.partition and new:  # their order decides what has ended
                new = [concat_arrivals(new)]
            for arrivals in new:  # once all chunks are there: slices that grow read keys from them
                self._settle_restored(alias, arrivals)
            store.next_row, store.next_chunk = snapshot.next_row[alias], snapshot.next_chunk[alias]
            store.forget_slices(self.watermark)

    @property
    def live_rows(self) -> int:
        return sum(store.live_rows for store in self.stores.values())

    @property
    def payload_bytes(self) -> int:
        return sum(store.payload_bytes for store in self.stores.values())

    @property
    def index_bytes(self) -> int:
        return sum(store.index_bytes for store in self.stores.values())

    @property
    def used_bytes(self) -> int:
        """Memory in use by payload and indexes, without what indexes have reserved to grow into."""
        return self.payload_bytes + sum(store.used_index_bytes for store in self.stores.values())

    def replace_chunks(self, alias: str, chunks: Iterable[PersistedChunk]) -> None:
        """Holds exactly these chunks of an input, as if it had been restored from them."""
        layout, newest = self.layout.of(alias), self.stores[alias].newest_position
        next_chunk = self.stores[alias].next_chunk
        # Before the new indexes are built: not both at once.
        self.stores[alias] = store_of(layout, self.tuning)
        self.stores[alias].newest_position = newest
        self._pending[alias] = []
        for chunk in sorted(chunks, key=lambda chunk: chunk.number):
            kept = self._keep(alias, chunk.batch, chunk.number)
            self._settle_restored(alias, self._arrivals(alias, kept))
        self.stores[alias].next_chunk = max(next_chunk, self.stores[alias].next_chunk)

    @property
    def chunk_count(self) -> int:
        return sum(len(store.chunks) for store in self.stores.values())

    def _admit(self, alias: str, batch: pa.RecordBatch, known: RowPositions) -> Arrivals | None:
        """Drops late tuples and NULL keys, keeps the rest as a chunk."""
        layout = self.layout.of(alias)
        batch = check_chunk(layout, self.stores[alias].numbered(batch))
        accepted = np.asarray(batch.column(TS)) >= self.watermark
        late = int(batch.num_rows - np.count_nonzero(accepted))
        self.counts.late[alias] = late
        for _, name in () if layout.window.partition else layout.keys:  # there they count
            if batch.column(name).null_count:
                accepted &= np.asarray(batch.column(name).is_valid())
        if not accepted.all():
            batch = batch.filter(pa.array(accepted))
        if not batch.num_rows:
            return None
        chunk = self._keep(alias, in_time_order(batch, layout.window.duration_us))
        arrivals = self._arrivals(alias, chunk)
        if layout.window.numbers_rows and arrivals.positions is not None:
            ends = ends_from_positions(layout.window, arrivals.positions, known.first, known.ts)
            # Among many tuples of one instant some leave the moment they enter: their lifetime is empty.
            arrivals = replace(arrivals, ends=ends).pick(arrivals.ts < ends)
        return arrivals

    def _keep(
        self, alias: str, batch: pa.RecordBatch, number: int | None = None, start: int | None = None
    ) -> Chunk:
        """Keeps a batch as a chunk, not yet visible; the numbers are given when it is read back."""
        return self.stores[alias].add_chunk(batch, number, start)

    def _arrivals(self, alias: str, chunk: Chunk, since: int = 0) -> Arrivals:
        """The rows of a chunk from number `since` on."""
        layout, start = self.layout.of(alias), max(since, chunk.start)

        def column(name: str) -> pa.Array:
            return chunk.column(name).slice(start - chunk.start)

        ts = np.array(column(TS), np.int64)
        positions = np.array(column(POSITION), np.int64) if layout.window.numbers_rows else None
        rows = np.arange(start, chunk.stop, dtype=np.int64)
        hashes = {cls: self._hash_key(alias, cls, column(name)) for cls, name in layout.keys}
        return Arrivals(ts, layout.window.known_end_us(ts), rows, hashes, positions)

    def _hash_key(self, alias: str, cls: int, column: pa.Array) -> Hashes:
        expected = self._key_types.setdefault(cls, column.type)
        if column.type != expected:
            raise DataError(f"the key of {alias} is {column.type}, the others of its class are {expected}")
        return hash_column(column)

    def _release(self, added: Mapping[str, Arrivals | None], watermark: int) -> dict[str, Arrivals]:
        """What may be joined now: everything, or in a delayed join what the watermark is past."""
        if not self.layout.delayed:
            return {alias: arrivals for alias, arrivals in added.items() if arrivals is not None}
        ready: dict[str, Arrivals] = {}
        for alias, waiting in self._pending.items():
            arrived = added.get(alias)
            parts = [*waiting, *([arrived] if arrived is not None else [])]
            if not parts:
                continue
            everything = concat_arrivals(parts)
            due = everything.ts < watermark
            if everything.positions is not None and not due.all():
                raise DataError(f"tuples of {alias} were numbered before the watermark was past them")
            ready[alias] = self.stores[alias].enter(everything.pick(due))
            self._pending[alias] = [] if due.all() else [everything.pick(~due)]
        return ready

    def _find(self, ready: Mapping[str, Arrivals]) -> Iterator[Partials[int]]:
        """All complete combinations of a batch, head by head; a few only seem to agree."""
        durations = [item.window.duration_us for item in self.layout.inputs if item.window.duration_us]
        for cell in cells(ready, min(durations, default=None), self.tuning):
            for head in self.stores:
                arrivals = cell.get(head)
                if arrivals is not None and len(arrivals):
                    yield from self._join_head(head, arrivals)
                    if len(self.stores) > 1:
                        self.stores[head].index(arrivals)

    def _with_payload(
        self, found: Iterator[Partials[int]], watermark: int, late: LatePayload
    ) -> Iterator[Partials[int]]:
        """The same combinations, once their payload and that of all tuples which stay has been fetched.

        One look into the files serves both, so combinations wait for the last; when they become many the
        payload of all tuples is fetched and nothing waits any more.
        """
        waiting: list[Partials[int]] = []
        rows, most = 0, combinations_in(self.block_bytes, 1)
        for complete in found:
            waiting.append(complete)
            rows += len(complete.max_ts)
            if rows > most:
                break
        stays = watermark if rows <= most else BEGINNING
        for alias, store in self.stores.items():
            store.bring_payload([complete.rows[alias] for complete in waiting], stays, late)
        yield from waiting
        del waiting
        yield from found

    def _join_head(self, head: str, arrivals: Arrivals) -> Iterator[Partials[int]]:
        """All combinations whose head is one of these tuples, in blocks of bounded size."""
        if self.order.wants_sample(head):
            self._sample(head, arrivals)
        for group in self.groups.groups(head, arrivals):
            own = group.arrivals
            most = combinations_in(self.block_bytes, len(group.sequence))
            for start in range(0, len(own), most):
                part = own if most >= len(own) else own.pick(np.s_[start : start + most])
                partials = Partials({head: part.rows}, part.ts, part.ends, part.hashes)
                yield from self._extend(head if group.is_rest else None, partials, group.sequence, most)

    def _extend(
        self, head: str | None, partials: Partials[int], sequence: Sequence, most: int
    ) -> Iterator[Partials[int]]:
        """Every partial combination with all of its matches in the inputs to come; `head` if it is to learn.

        A block of one more input is extended to the end before the next is made, so there is one for each
        probe at a time, of at most so many combinations.
        """
        if not sequence:
            yield partials
            return
        probe, rest = sequence[0], sequence[1:]
        later = {cls for other in rest for cls in other.classes}
        wanted = combine_hashes([partials.hashes[cls] for cls in probe.classes])
        own = self.layout.of(probe.alias).classes
        carry = tuple(cls for cls in own if cls in later and cls not in partials.hashes)
        store, matches = self.stores[probe.alias], 0
        self.counts.probes += len(wanted)
        for found in store.probe(probe.classes, wanted, partials.max_ts, partials.min_end, most):
            matches += len(found.probers)
            chosen = found.probers
            rows = {alias: numbers[chosen] for alias, numbers in partials.rows.items()}
            kept = {cls: hashes[chosen] for cls, hashes in partials.hashes.items() if cls in later}
            longer = Partials(
                {**rows, probe.alias: found.rows},
                np.maximum(partials.max_ts[chosen], found.ts),
                np.minimum(partials.min_end[chosen], found.ends),
                kept | {cls: store.hashes(cls, found.rows) for cls in carry},
            )
            del found, chosen, rows, kept
            yield from self._extend(head, longer, rest, most)
        if head is not None:
            self.order.observe(head, probe, len(wanted), matches)

    def _sample(self, head: str, arrivals: Arrivals) -> None:
        """Learns the fan-out of every possible first probe from a few tuples."""
        few = arrivals.pick(np.s_[:: max(1, len(arrivals) // self.tuning.sample_probers)])
        rest, matches = self.groups.rest(head, few.hashes), dict[Probe, Longs]()
        for probe in self.order.first_probes(head):
            wanted = combine_hashes([few.hashes[cls] for cls in probe.classes])
            # The first block will do: where it is not all, every prober has walked as far as the others.
            most = combinations_in(self.block_bytes, 1)
            found = self.stores[probe.alias].probe(probe.classes, wanted, few.ts, few.ends, most)
            probers = next((block.probers for block in found), _NONE)
            matches[probe] = np.bincount(probers, minlength=len(few))
            common = matches[probe] if rest is None else matches[probe][rest]
            self.order.observe(head, probe, len(common), int(common.sum()))
        self.groups.learn(head, few.hashes, matches)

    def _settle_restored(self, alias: str, arrivals: Arrivals) -> None:
        """Puts tuples read back where they were: held for the watermark, visible to probes, or expired."""
        store, window = self.stores[alias], self.layout.of(alias).window
        if arrivals.positions is not None:
            alive = window.expires_at(arrivals.positions) > store.newest_position
            store.index(replace(arrivals.pick(alive), ends=np.full(np.count_nonzero(alive), NEVER)))
        elif self.layout.delayed:
            waiting = arrivals.ts >= self.watermark
            self._pending[alias].append(arrivals.pick(waiting))
            store.index(store.enter(arrivals.pick(~waiting)))
        else:
            store.index(arrivals)

    def _expire(self) -> None:
        """Forgets what can meet nothing any more, and merges small chunks."""
        pending_from = self.watermark if self.layout.delayed else NEVER
        for alias, store in list(self.stores.items()):
            store.expire(self.watermark, pending_from)
            if (kept := store.survivors()) is not None:
                self.replace_chunks(alias, [kept] if kept.batch.num_rows else [])
            self.stores[alias].settle_chunks()

    def _drop_unused_indexes(self) -> None:
        """An order that is no longer used leaves indexes behind; they are rebuilt if it returns."""
        self._steps += 1
        if self._steps % self.tuning.review_indexes_every == 0:
            for alias, store in self.stores.items():
                store.keep_indexes(self.order.used_classes(alias) | self.groups.used_classes(alias))


_NONE: Longs = np.empty(0, np.int64)

"""One level of one bucket of a shared dataflow: the joins of many queries over shared rows.

After RJoin (Idreos, Liarou, Koubarakis, EDBT 2008) and DHTJoin: a tuple is indexed once for all queries by
the values of its attributes, a query's partial results (RJoin's rewritten queries) are indexed where the
tuples that extend them will arrive. We differ in that queries which share a join share its results, and
results carry what is needed to know for whom they are late, and since when they count.

Guarantee: over all levels, each query gets exactly the combinations of its join graph whose lifetimes
overlap, each once, of the tuples that arrived since the query did and were not late by its own streams'
progress; whatever the cut into batches. As in the multi-way join, the relations of a level are taken in one
order: the new rows of each probe first what is visible of the others, then become visible.

    old: a1   new: b1, c1, joins {a, b}, {b, c}     b1 finds a1; c1 finds b1
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet.kernel.columns.hashing import Hashes, combine_hashes, hash_column
from watersmeet.kernel.join.combinations import bytes_of, combinations_in, in_blocks, widest_of
from watersmeet.kernel.join.pieces import Piece, cells, cut_by_time, in_time_order
from watersmeet.kernel.layout import TS
from watersmeet.kernel.multiquery.admission import behind_streams, check_columns, late_for_all, without_null
from watersmeet.kernel.multiquery.held_tails import HeldTails
from watersmeet.kernel.multiquery.level import SharedLevel
from watersmeet.kernel.multiquery.limited_level import LimitedLevel, in_own_order
from watersmeet.kernel.multiquery.live_values import NOTHING_KNOWN, LiveValues
from watersmeet.kernel.multiquery.paths import Node
from watersmeet.kernel.multiquery.relation_store import RelationStore, concat_unlike
from watersmeet.kernel.multiquery.results import FoundResults, SharedPartials, emit, verified
from watersmeet.kernel.multiquery.rows import STANDS, SharedCounts, SharedRows
from watersmeet.kernel.shedding.limit import StateLimit
from watersmeet.kernel.shedding.thinning import fitting_block
from watersmeet.kernel.state.arrivals import Arrivals
from watersmeet.kernel.state.chunks import PersistedChunk
from watersmeet.kernel.state.result_expiry import order_by_end
from watersmeet.kernel.tuning import DEFAULT_TUNING, Tuning
from watersmeet.query import BEGINNING, NEVER
from watersmeet.query.shared_dataflow import BEHIND, END, SINCE, Relation, SharedDataflow


class SharedBucket:
    """One level of one bucket: `step` takes a micro-batch and yields what leaves."""

    def __init__(
        self,
        dataflow: SharedDataflow,
        level: int,
        tuning: Tuning = DEFAULT_TUNING,
        limit: StateLimit | None = None,
    ) -> None:
        """`limit` is what the buckets of this number may take together, at all levels."""
        if limit is not None:
            tuning = replace(tuning, block_bytes=fitting_block(limit, tuning.block_bytes))
        self.dataflow = dataflow
        self.tuning = tuning
        self.level = level
        self.counts = SharedCounts()
        self.stores: dict[str, RelationStore] = {}
        self._plan: SharedLevel | None = None
        self._planned = range(0)  # the batches for which the plan holds
        self._found = FoundResults(tuning)
        self._widest: dict[str, int] = {}  # bytes of a result, by join; what a step adds is there before
        self._live = NOTHING_KNOWN
        self.tails = HeldTails(dataflow, level, tuning)
        self.limited = LimitedLevel(limit, level, tuning) if limit is not None else None
        for relation in dataflow.relations:
            if relation.level == level:
                self.stores[relation.name] = RelationStore(relation, tuning)

    def step(
        self,
        new: Mapping[str, Sequence[pa.RecordBatch]],
        before: Mapping[str, int],
        after: Mapping[str, int],
        batch: int,
        live: LiveValues = NOTHING_KNOWN,
        room: int | None = None,
    ) -> Iterator[SharedRows]:
        """Joins a micro-batch, given chunks by feed or relation; the iterator must be exhausted.

        `before` and `after`: each stream's progress at the end of the previous batch and of this one; `live`:
        by what results choose where there are several ways for them; `room`: what the levels before have
        left of the limit, if there is one.
        """
        plan = self._plan_for(batch)
        self.counts = SharedCounts()
        if self.limited is not None:
            self.limited.room = self.limited.limit.nbytes if room is None else room
        self._found, self._widest = FoundResults(self.tuning), {}
        self._live = live
        for piece in self._pieces(plan, new):
            ready: dict[str, Arrivals] = {}
            for source, rows in piece.new.items():
                if source in plan.relations:
                    self._admit_results(plan.relations[source], rows, ready)
                else:
                    self._admit_tuples(plan, source, rows, before, batch, ready)
            for found in self._join(plan, ready):
                if self.limited is not None and isinstance(found.target, str):
                    self.limited.foresee(found.target, found.table)
                if not self.tails.take(found):
                    yield found
            bounds = self._expire(plan, after, ready, piece.rest_from)
            self._keep_within(plan, bounds, after)
        yield from self.tails.release(before, after, self.counts)
        yield from self.tails.appear(new, self.counts)
        if self.limited is not None:
            self._keep_within(plan, self._bounds_of(plan, after, NEVER), after)

    def _pieces(self, plan: SharedLevel, new: Mapping[str, Sequence[pa.RecordBatch]]) -> Iterator[Piece]:
        """The batch, by time where it is large beside the limit: it is never in the state as a whole then."""
        rows = {
            source: concat_unlike(some)
            for source, chunks in new.items()
            if (source in plan.relations or source in plan.of_feed)
            and (some := [chunk for chunk in chunks if chunk.num_rows])
        }
        if self.limited is None or not rows:
            return iter([Piece(rows, {}, NEVER)])
        for source, one in rows.items():
            check_columns(source, one, [TS])
            rows[source] = in_own_order(one)
        return cut_by_time(rows, {}, self.limited.piece_bytes, whole_instants=True)

    def _keep_within(self, plan: SharedLevel, bounds: Mapping[str, int], after: Mapping[str, int]) -> None:
        """Sheds what does not fit within the limit."""
        if self.limited is not None:
            self.limited.expire(bounds, after)
            self.limited.keep_within(plan, self.stores, self.tails, bounds, self.counts)

    def _join(self, plan: SharedLevel, ready: Mapping[str, Arrivals]) -> Iterator[SharedRows]:
        """All results of new rows, which become part of what later ones meet."""
        for cell in self._cells(plan, ready):
            for head in plan.relations:
                if head in cell and len(cell[head]):
                    yield from self._join_head(plan, head, cell[head])
                    if head not in plan.passing:
                        self.stores[head].index(cell[head])
                        if self.limited is not None:
                            self.limited.enter(head, self.stores[head], cell[head])
        yield from self._emit(plan)

    def snapshot(self) -> dict[str, Any]:
        """What to persist beside the chunks, fit for JSON."""
        next_chunk = {name: one.next_chunk for name, one in self.stores.items() if one.next_chunk}
        limited = {} if self.limited is None else {"limited": self.limited.snapshot()}
        return {"next_chunk": next_chunk, **self.tails.snapshot(), **limited}

    def persisted(self) -> list[PersistedChunk]:
        """The chunks that a state store must hold; their section is the relation's name, or the tails'."""
        kept = [
            PersistedChunk(name, chunk.number, chunk.held)
            for name, store in self.stores.items()
            for chunk in store.chunks
        ]
        return kept + self.tails.persisted()

    @classmethod
    def restore(
        cls,
        dataflow: SharedDataflow,
        level: int,
        snapshot: Mapping[str, Any],
        chunks: Iterable[PersistedChunk],
        tuning: Tuning = DEFAULT_TUNING,
        limit: StateLimit | None = None,
    ) -> SharedBucket:
        """The bucket as it stood when these chunks were persisted; the dataflow may have changed since."""
        bucket = cls(dataflow, level, tuning, limit)
        ordered = sorted(chunks, key=lambda chunk: chunk.number)
        bucket.tails.restore(snapshot, ordered)
        for chunk in ordered:
            store = bucket.stores.get(chunk.section)
            if store is not None:
                store.index(store.keep(chunk.wide, chunk.number))
        for name, number in snapshot.get("next_chunk", {}).items():
            if name in bucket.stores:
                bucket.stores[name].next_chunk = max(number, bucket.stores[name].next_chunk)
        if bucket.limited is not None:
            if "limited" in snapshot:
                bucket.limited.restore(snapshot["limited"])
            bucket.limited.seed(bucket.stores)
        return bucket

    @property
    def state_rows(self) -> dict[str, int]:
        """Rows kept, by kind: tuples of feeds, results of earlier levels, and what tails hold."""
        return {**self._by_kind(lambda store: store.live_rows), "held": self.tails.rows}

    @property
    def state_bytes(self) -> dict[str, int]:
        """Bytes of the rows kept, by kind, as a state store holds them."""
        return {**self._by_kind(lambda store: store.payload_bytes), "held": self.tails.nbytes}

    @property
    def nbytes(self) -> int:
        """Memory of rows and indexes, with what indexes have reserved to grow into."""
        kept = sum(store.payload_bytes + store.index_bytes for store in self.stores.values())
        return kept + self.tails.nbytes

    @property
    def used_bytes(self) -> int:
        """Memory of rows and indexes."""
        kept = sum(store.payload_bytes + store.used_index_bytes for store in self.stores.values())
        return kept + self.tails.nbytes

    def _by_kind(self, size: Callable[[RelationStore], int]) -> dict[str, int]:
        kinds = {"tuples": 0, "results": 0}
        for store in self.stores.values():
            kinds["results" if store.holds_results else "tuples"] += size(store)
        return kinds

    def _plan_for(self, batch: int) -> SharedLevel:
        """The level as the queries of this batch need it; what they do not need is forgotten."""
        if self._plan is None or batch not in self._planned:
            untils = [tail.until for tail in self.dataflow.tails]
            since = max((until for until in untils if until <= batch), default=BEGINNING)
            self._planned = range(since, min((until for until in untils if until > batch), default=NEVER))
            self._plan = SharedLevel(self.dataflow.at(batch), self.level, self.tuning)
            self.stores = {
                name: self.stores[name] if name in self.stores else RelationStore(relation, self.tuning)
                for name, relation in self._plan.relations.items()
            }
            self.tails = self.tails.for_queries(self._plan.dataflow, self.tuning)
            if self.limited is not None:
                self.limited.serve(self._plan, self.tails)
        return self._plan

    def _admit_results(self, relation: Relation, rows: pa.RecordBatch, ready: dict[str, Arrivals]) -> None:
        names = rows.schema.names
        kept = [TS, END, SINCE, *dict.fromkeys((*relation.keys, *relation.columns))]
        check_columns(relation.name, rows, kept)
        if self.limited is not None and STANDS in names:
            kept.append(STANDS)
        behind = [name for name in names if name.endswith(f".{BEHIND}") and np.asarray(rows[name]).any()]
        rows = without_null(rows, relation.route).select([*kept, *behind])
        if rows.num_rows:
            self.counts.stored += rows.num_rows
            ready[relation.name] = self.stores[relation.name].keep(order_by_end(rows, self.tuning))

    def _admit_tuples(
        self,
        plan: SharedLevel,
        feed: str,
        rows: pa.RecordBatch,
        before: Mapping[str, int],
        batch: int,
        ready: dict[str, Arrivals],
    ) -> None:
        """New tuples of a feed, for each relation over it that serves a query they are not late for."""
        relations = plan.of_feed[feed]
        check_columns(feed, rows, [TS])
        rows = without_null(rows, relations[0].route)
        if not rows.num_rows:
            return
        durations = [one.window.duration_us for one in relations if one.window]
        rows = in_time_order(rows, min((us for us in durations if us is not None), default=None))
        behind = behind_streams(np.asarray(rows.column(TS)), plan.dataflow.streams, before)
        if feed in plan.count_late:
            stream, bits = plan.count_late[feed]
            late = 0 if behind is None else int(np.count_nonzero(late_for_all(behind, bits)))
            self.counts.late[stream] = self.counts.late.get(stream, 0) + late
        rows = rows.append_column(SINCE, pa.array(np.full(rows.num_rows, batch, np.int64)))
        if behind is not None:
            rows = rows.append_column(BEHIND, pa.array(behind))
        hashes: dict[str, Hashes] = {}
        indexed = 0
        for relation in relations:
            kept, known = rows, hashes
            if behind is not None:
                late_rows = late_for_all(behind, plan.late_bits[relation.name])
                if late_rows.any():
                    kept, known = rows.filter(pa.array(~late_rows)), {}
            if kept.num_rows:
                own = dict.fromkeys((*relation.keys, *relation.columns))
                check_columns(feed, rows, own)
                for name in relation.keys:
                    if name not in known:
                        known[name] = hash_column(kept.column(name))
                facts = [TS, SINCE] if behind is None else [TS, SINCE, BEHIND]
                chunk = kept.select([*facts, *own])
                ready[relation.name] = self.stores[relation.name].keep(chunk, hashes=known)
                indexed = max(indexed, kept.num_rows)
        self.counts.indexed[feed] = self.counts.indexed.get(feed, 0) + indexed

    def _cells(self, plan: SharedLevel, ready: Mapping[str, Arrivals]) -> Iterator[Mapping[str, Arrivals]]:
        """The new rows, by time where they span many windows."""
        chunks = [self.stores[name].chunks[-1] for name in ready]
        low = min((chunk.min_ts for chunk in chunks), default=0)
        high = max((chunk.max_ts for chunk in chunks), default=0)
        if plan.shortest_us is None or high - low < self.tuning.cell_windows * plan.shortest_us:
            yield ready
        else:
            yield from cells(ready, plan.shortest_us, self.tuning)

    def _join_head(self, plan: SharedLevel, head: str, arrivals: Arrivals) -> Iterator[SharedRows]:
        """All results whose last new row is one of these, in blocks of bounded size."""
        tree = plan.tree(head, lambda name: self.stores[name].indexed_rows)
        if tree is None:
            return
        most = combinations_in(self.tuning.block_bytes, tree.depth)
        for start in range(0, len(arrivals), most):
            part = arrivals if most >= len(arrivals) else arrivals.pick(np.s_[start : start + most])
            hashes = {(head, cls): column for cls, column in part.hashes.items()}
            partials = SharedPartials({head: part.rows}, part.ts, part.ends, hashes)
            yield from self._walk(plan, tree, partials, most)

    def _walk(
        self, plan: SharedLevel, node: Node, partials: SharedPartials, most: int
    ) -> Iterator[SharedRows]:
        """Follows all paths from here, with at most so many partial results after each probe."""
        for path in node.complete:
            join = path.join.name
            taken = plan.uses[join].taken
            if join not in self._widest:
                self._widest[join] = widest_of(self.stores, taken)
            widest = self._widest[join]
            for block in in_blocks(self.stores, taken, partials, self._found.block_bytes, widest):
                sure = verified(self.stores, path, block)
                nbytes = len(sure.max_ts) * widest
                if nbytes > self._found.block_bytes:
                    nbytes = int(bytes_of(self.stores, taken, sure).sum())
                stands = None
                if self.limited is not None and len(sure.max_ts):
                    stands = self.limited.weigh(self.stores, sure)
                self._found.add(join, sure, nbytes, stands)
                if self._found.is_full:
                    yield from self._emit(plan)
        for probe, child in node.children.items():
            store = self.stores[probe.member]
            if store.is_empty:
                continue
            wanted = combine_hashes([partials.hashes[key] for key in probe.wanted])
            carry = tuple(cls for member, cls in child.carry if member == probe.member)
            self.counts.probes += len(wanted)
            for matches in store.probe(probe.classes, wanted, partials.max_ts, partials.min_end, most):
                chosen = matches.probers
                rows = {member: numbers[chosen] for member, numbers in partials.rows.items()}
                known = {at: column[chosen] for at, column in partials.hashes.items() if at in child.carry}
                known |= {(probe.member, cls): store.hashes(cls, matches.rows) for cls in carry}
                longer = SharedPartials(
                    {**rows, probe.member: matches.rows},
                    np.maximum(partials.max_ts[chosen], matches.ts),
                    np.minimum(partials.min_end[chosen], matches.ends),
                    known,
                )
                del matches, chosen, rows, known
                yield from self._walk(plan, child, longer, most)

    def _emit(self, plan: SharedLevel) -> Iterator[SharedRows]:
        """What has been found leaves."""
        found, self._found = self._found, FoundResults(self.tuning)
        nbytes = self.tuning.block_bytes
        yield from emit(plan, self.stores, found.parts, self.counts, self._live, nbytes)

    def _expire(
        self, plan: SharedLevel, after: Mapping[str, int], ready: Mapping[str, Arrivals], rest_from: int
    ) -> Mapping[str, int]:
        """Forgets what can meet nothing any more, and merges small chunks; how far relations have come.

        What is left of the batch has no event time before `rest_from`.
        """
        bounds = self._bounds_of(plan, after, rest_from)
        for name in plan.relations:
            store = self.stores[name]
            if name in plan.passing:
                store.forget()
            elif store.chunks:
                store.expire(bounds[name])
                if name in ready:
                    store.settle_chunks()
        return bounds

    def _bounds_of(self, plan: SharedLevel, after: Mapping[str, int], rest_from: int) -> dict[str, int]:
        """By relation that holds rows, the event time before which none of its streams has more."""
        bounds: dict[tuple[str, ...], int] = {}
        for name, relation in plan.relations.items():
            streams = relation.streams
            if self.stores[name].chunks and streams not in bounds:
                latest = min(after.get(stream, BEGINNING) for stream in streams)
                bounds[streams] = min(latest, rest_from)
        return {
            name: bounds[relation.streams]
            for name, relation in plan.relations.items()
            if relation.streams in bounds
        }
